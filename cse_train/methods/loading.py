"""Loads a method's class by name, shipped or from a plug-in, in today's form or as functions of version 0.1."""

import functools
from types import ModuleType
from typing import Any

from cse_train.fields import ConfigError
from cse_train.methods.base import Method
from cse_train.plugins import registry

LEGACY_FUNCTIONS = ("make_collate", "build")
"""Functions that a method's module in the form of version 0.1 must have."""
LEGACY_HOOKS = (
    *("make_collate", "columns", "lower_case", "tokens_kept", "usable_rows", "prepare", "corpus_alone"),
    "TRAINING_ONLY",
)
"""Hooks of `Method` that a module in the form of version 0.1 may have."""


def load_method(name: str) -> type[Method[Any]]:
    """Returns a method's class. KeyError for an unknown name; ConfigError for a failed import, or no single class."""
    plugin = registry.require("method", name)
    return _class_of(registry.load(plugin), name, str(plugin))


@functools.cache
def _class_of(module: ModuleType, name: str, where: str) -> type[Method[Any]]:
    """Returns the one subclass of `Method` that a module defines and no other class there inherits from."""
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Method)]
    classes = [cls for cls in classes if cls.__module__ == module.__name__]
    last = [cls for cls in classes if not any(cls in other.__mro__[1:] for other in classes)]
    if not last and all(hasattr(module, function) for function in LEGACY_FUNCTIONS):
        return _wrap_functions(module)
    if len(last) != 1:
        named = ", ".join(cls.__name__ for cls in last) or "none"
        raise ConfigError([f"no one method: method={name} has of the classes of Method {named} in {where}; write one"])
    return last[0]


def _wrap_functions(module: ModuleType) -> type[Method[Any]]:
    """Returns a subclass of `Method` whose hooks are the functions of a module in the form of version 0.1."""

    def build(config: Any, backbone: Any, training: bool = True) -> Method[Any]:
        model: Any = module.build(config, backbone, training=training)
        if not isinstance(model, Method):
            model.__class__ = type(type(model).__name__, (type(model), Method), {})
        model.TRAINING_ONLY = getattr(module, "TRAINING_ONLY", ())
        return model

    given = {name: getattr(module, name) for name in LEGACY_HOOKS if hasattr(module, name)} | {"build": build}
    body = {name: staticmethod(hook) if callable(hook) else hook for name, hook in given.items()}
    return type(module.__name__, (Method,), {**body, "__module__": module.__name__})
