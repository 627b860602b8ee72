"""The methods, by name. The folder is the registry: every module but `base` and `loading` is a method of that name.

A method's settings lie in `options` under the same name, so that reading them needs no torch; `loading` gives the
method itself. Those of a user's own come from `cse_train.plugins`, by the same way.
"""

from cse_train.fields import ConfigError, brief, nearest
from cse_train.plugins import config, registry
from cse_train.plugins.options import Options

__all__ = ["base", "config_class", "is_known", "list_methods", "loading", "names", "options", "require", "unknown"]

PLUGINS_ADVICE = "--plugins or `plugins:` adds one of yours"


def list_methods() -> tuple[str, ...]:
    """Every method of this folder, sorted."""
    return tuple(registry.list_shipped("method"))


def names() -> tuple[str, ...]:
    """Every method's name, those of plug-ins too, sorted."""
    return tuple(sorted({*list_methods(), *registry.names("method")}))


def is_known(name: object) -> bool:
    """Whether a method has this name."""
    return name in list_methods() or name in names()


def unknown(name: object) -> str | None:
    """The line for a name that is no method's; None for one that is."""
    if is_known(name):
        return None
    return f"unknown method: method={brief(str(name))}; {nearest(str(name), names())}; {PLUGINS_ADVICE}"


def require(name: object) -> None:
    """Raise ConfigError with that line."""
    if line := unknown(name):
        raise ConfigError([line])


def config_class(name: str) -> type[Options]:
    """The class of a method's settings, checked, from where it needs no torch if the method lets it.

    KeyError for an unknown name, ConfigError for what cannot be imported or is no frozen dataclass of plain values.
    """
    return config.check_config(registry.require("method", name))
