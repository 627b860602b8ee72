"""The methods. The folder is the registry: every module but `base` is a method of that name.

A method's settings lie in `options` under the same name, so that reading them needs no torch. Methods of a user's own
come from `cse_train.plugins`.
"""

import functools
import importlib
import pkgutil
from types import ModuleType
from typing import Any

from cse_train.fields import ConfigError, brief, nearest
from cse_train.methods import options
from cse_train.plugins import config, registry

PLUGINS = "--plugins or `plugins:` adds one of yours"


@functools.cache
def shipped() -> tuple[str, ...]:
    """Every method of this folder, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in ("base", "options")))


def names() -> tuple[str, ...]:
    """Every method's name, those of plug-ins too, sorted."""
    return tuple(sorted({*shipped(), *registry.names("method")}))


def known(name: object) -> bool:
    """Whether a method has this name."""
    return name in shipped() or name in names()


def unknown(name: object) -> str | None:
    """The line for a name that is no method's; None for one that is."""
    if known(name):
        return None
    return f"unknown method: method={brief(str(name))}; {nearest(str(name), names())}; {PLUGINS}"


def require(name: object) -> None:
    """Raise ConfigError with that line."""
    if line := unknown(name):
        raise ConfigError([line])


def load(name: str) -> ModuleType:
    """The module of a method; KeyError for an unknown name, ConfigError for a plug-in that cannot be imported."""
    plugin = registry.get("method", name)
    if plugin is not None:
        return registry.load(plugin)
    if name not in shipped():
        raise KeyError(name)
    return importlib.import_module(f"{__name__}.{name}")


def config_module(name: str) -> ModuleType:
    """Where a method's `Config` and `VERSION` are: a module that needs no torch, or else the method's own; KeyError.

    Of a plug-in they are checked: ConfigError for what is no frozen dataclass of plain values.
    """
    plugin = registry.get("method", name)
    if plugin is not None:
        return config.checked(plugin)
    return _shipped(name) if name in shipped() else load(name)


@functools.cache
def _shipped(name: str) -> ModuleType:
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
