"""Imports that wait until they are needed: the module of a command, and what only one of its options needs."""

import importlib
from typing import Any


def load(module: str) -> Any:
    """A module of ours, by its dotted name."""
    return importlib.import_module(module)
