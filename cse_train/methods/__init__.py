"""The methods. The folder is the registry: every module but `base` is a method of that name.

A method's settings lie in `options` under the same name, so that reading them needs no torch.
"""

import functools
import importlib
import pkgutil
from types import ModuleType
from typing import Any

from cse_train.methods import options


@functools.cache
def names() -> tuple[str, ...]:
    """Every method's name, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in ("base", "options")))


def load(name: str) -> ModuleType:
    """The module of a method; KeyError for an unknown name."""
    if name not in names():
        raise KeyError(name)
    return importlib.import_module(f"{__name__}.{name}")


def config_module(name: str) -> ModuleType:
    """Where a method's `Config` and `VERSION` are: a module that needs no torch, or else the method's own; KeyError."""
    if name not in names():
        raise KeyError(name)
    return importlib.import_module(f"cse_train.methods.options.{name}") if name in _apart() else load(name)


def version(name: str, options: Any) -> int:
    """The VERSION of a method's configuration: `version(config)` of its module, else its `VERSION`."""
    module = config_module(name)
    given: int = getattr(module, "version", lambda _: module.VERSION)(options)
    return given


@functools.cache
def _apart() -> frozenset[str]:
    return frozenset(m.name for m in pkgutil.iter_modules(options.__path__))


def optional(name: str, export: str, default: Any) -> Any:
    """What a method's module exports under a name that it may leave out."""
    return getattr(load(name), export, default)
