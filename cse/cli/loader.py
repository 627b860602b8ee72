"""Imports that wait until they are needed: the module of a command, and those that bring torch, Ray or Matplotlib.

A command's help, and the line that says what is wrong with its arguments, must not wait for them.
"""

import importlib
from typing import Any


def load(module: str) -> Any:
    """A module of ours, by its dotted name."""
    return importlib.import_module(module)


class Deferred:
    """Stands for a module, which is imported when the first of its names is read."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(load(self._module), name)
