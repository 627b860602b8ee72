"""Deferred imports: modules of commands, and of torch, Ray or Matplotlib, are imported when first used.

The help of a command, and the line that reports a wrong argument, must not wait for such imports.
"""

import builtins
import contextlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any


def load(module: str) -> ModuleType:
    """Imports a module by its dotted name."""
    return importlib.import_module(module)


@contextlib.contextmanager
def deferred(importer: str) -> Iterator[None]:
    """Makes imports of the form `from PACKAGE import MODULE` in module `importer` wait until the module is first used.

    To type checkers, and to readers, they are ordinary imports. Imports of other modules within the block are not
    affected.
    """
    original = builtins.__import__

    def import_later(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if globals is None or globals.get("__name__") != importer:  # another thread's
            return original(name, globals, locals, fromlist or (), level)
        return SimpleNamespace(**{module: Deferred(f"{name}.{module}") for module in fromlist or ()})

    builtins.__import__ = import_later
    try:
        yield
    finally:
        builtins.__import__ = original


class Deferred:
    """Proxy of a module; imports it when one of its attributes is first read."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(load(self._module), name)
