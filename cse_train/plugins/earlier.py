"""Methods in the form of version 0.1: a module with `VERSION`, `Config`, `make_collate`, `build` and hook functions.

They run as they did. `cse_train.api` has the form of today.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from cse_train import fields
from cse_train.fields import ConfigError, Json
from cse_train.plugins.options import OPTION_HOOKS, Options


def is_earlier(module: ModuleType) -> bool:
    """Returns True if a module states its VERSION itself, as in version 0.1; today its `Config` does."""
    shape = getattr(module, "Config", None)
    says = getattr(shape, "__module__", "") == module.__name__ and "VERSION" in vars(shape)
    return hasattr(module, "VERSION") and not says


def options_of(module: ModuleType, rebuild: Callable[[Json], Options]) -> type[Options]:
    """Returns a module's `Config` as a subclass of `Options`, with the module's hook functions as its methods.

    Raises ConfigError if an option has a hook's name. `rebuild` builds an instance from values, for unpickling.
    """
    shape: type = module.Config
    if taken := sorted(fields.hints(shape).keys() & {*OPTION_HOOKS}):
        raise ConfigError([f"name of a hook: method.{name} in {module.__name__}; rename the option" for name in taken])
    hooks = {name: getattr(module, name) for name in OPTION_HOOKS if hasattr(module, name)}
    body = {name: vars(Options)[name] for name in OPTION_HOOKS if name not in hooks}  # not what `shape` may inherit
    body |= {name: _asking(hook) if callable(hook) else hook for name, hook in hooks.items()}
    body |= {"__module__": shape.__module__, "__doc__": shape.__doc__}
    body["__reduce__"] = lambda config: (rebuild, ({name: getattr(config, name) for name in fields.hints(shape)},))
    return dataclass(frozen=True, kw_only=True)(type(shape.__name__, (shape, Options), body))


def _asking(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda config: function(config)
