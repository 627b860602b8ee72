"""Registry of the methods: every module of this folder but `base` is a method of its file's name.

A method's settings lie in `options` under its name, so that reading them needs no torch; `base.load_method` loads the
method itself. Methods of plug-ins come from `cse_train.plugins` in the same way.
"""

from cse_train.fields import ConfigError, brief, nearest
from cse_train.plugins import config, registry
from cse_train.plugins.options import Options

__all__ = ["base", "config_class", "is_known", "list_methods", "names", "options", "require", "unknown"]

PLUGINS_ADVICE = "--plugins or `plugins:` adds one of yours"
"""End of the message for an unknown method."""


def list_methods() -> tuple[str, ...]:
    """Returns the names of the methods that ship, sorted."""
    return tuple(registry.list_shipped("method"))


def names() -> tuple[str, ...]:
    """Returns every method's name, plug-ins included, sorted."""
    return tuple(sorted({*list_methods(), *registry.names("method")}))


def is_known(name: object) -> bool:
    """Returns whether a method, shipped or from a plug-in, has this name."""
    return name in list_methods() or name in names()


def unknown(name: object) -> str | None:
    """Returns the message for a name that no method has; None for a method's name."""
    if is_known(name):
        return None
    return f"unknown method: method={brief(str(name))}; {nearest(str(name), names())}; {PLUGINS_ADVICE}"


def require(name: object) -> None:
    """Raises ConfigError for a name that no method has."""
    if line := unknown(name):
        raise ConfigError([line])


def config_class(name: str) -> type[Options]:
    """Returns the checked class of a method's settings; importing it needs no torch if the method's module allows.

    KeyError for an unknown name, ConfigError for a module that cannot be imported, or whose settings are no frozen
    dataclass of plain values.
    """
    return config.check_config(registry.require("method", name))
