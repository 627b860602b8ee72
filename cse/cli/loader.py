"""Imports that wait until they are needed: the module of a command, and those that bring torch, Ray or Matplotlib.

A command's help, and the line that says what is wrong with its arguments, must not wait for them.
"""

import builtins
import contextlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any


def load(module: str) -> ModuleType:
    """A module of ours, by its dotted name."""
    return importlib.import_module(module)


@contextlib.contextmanager
def deferred(importer: str) -> Iterator[None]:
    """The modules that `importer` names here (`from PACKAGE import MODULE`) are imported when they are first used.

    To whoever reads the text, a type checker for one, they are imports like any other.
    """
    usual = builtins.__import__

    def named(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if globals is None or globals.get("__name__") != importer:  # another thread's
            return usual(name, globals, locals, fromlist or (), level)
        return SimpleNamespace(**{module: Deferred(f"{name}.{module}") for module in fromlist or ()})

    builtins.__import__ = named
    try:
        yield
    finally:
        builtins.__import__ = usual


class Deferred:
    """Stands for a module, which is imported when the first of its names is read."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(load(self._module), name)
