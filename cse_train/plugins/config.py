"""Checks the `Config` of a method, takes those of version 0.1, and records which fields signatures have always held.

A method in the form of version 0.1 is a module with `VERSION`, `Config`, `make_collate`, `build` and hook functions; it
runs as it did. A field that came after a method's release leaves a signature as it was, at the value of before.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from cse_train import fields
from cse_train.fields import Added, ConfigError, Json
from cse_train.plugins import registry
from cse_train.plugins.options import OPTION_HOOKS, Options
from cse_train.plugins.registry import Plugin

SHAPE = "write @dataclass(frozen=True, kw_only=True) above it"
"""Advice that ends messages about a `Config` that is no frozen dataclass."""


def check_config(plugin: Plugin) -> type[Options]:
    """Returns the checked `Config` of a method; raises ConfigError with a line for each fault."""
    if declared := plugin.declare_options():
        return declared
    module = registry.load(plugin, plugin.options)
    shape = getattr(module, "Config", None)
    if not isinstance(shape, type) or (module, shape) not in _classes:
        if problems := _problems(plugin.name, module, str(plugin)):
            raise ConfigError(problems)
        checked: type[Options] = module.Config
        if _is_earlier(module):
            checked = options_of(module, functools.partial(_make, plugin.name))
        _classes[module, module.Config] = checked
    return _classes[module, module.Config]


_classes: dict[tuple[ModuleType, type], type[Options]] = {}
"""(module, its `Config`) -> the checked class."""


def _make(method: str, values: Json) -> Options:
    return fields.make_checked(check_config(registry.require("method", method)), values)


def _problems(name: str, module: ModuleType, where: str) -> tuple[str, ...]:
    """Returns each fault of a method's `Config` and its VERSION."""
    shape: Any = getattr(module, "Config", None)
    if not _is_earlier(module) and not (isinstance(shape, type) and issubclass(shape, Options)):
        return (f"no options: method={name} Config={_describe(shape)} in {where}; write class Config(Options)",)
    problems = []
    version = getattr(module if _is_earlier(module) else shape, "VERSION", None)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        problems.append(f"wrong version: method={name} VERSION={version!r} in {where}; write VERSION = 1")
    if not (isinstance(shape, type) and dataclasses.is_dataclass(shape) and shape.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        return (*problems, f"no frozen dataclass: method={name} Config={_describe(shape)} in {where}; {SHAPE}")
    declared = dataclasses.fields(shape)
    if not all(field.kw_only for field in declared):
        problems.append(f"positional options: method={name} Config in {where}; {SHAPE}")
    bare = [f.name for f in declared if f.default is f.default_factory is dataclasses.MISSING]
    problems += [f"option without a default: method.{option} of {name} in {where}; give it one" for option in bare]
    return tuple(problems or _value_problems(name, shape, where))


def _value_problems(name: str, shape: type, where: str) -> list[str]:
    """Returns a line for each option whose type YAML has no value for, or whose default has another type."""
    try:
        default = shape()
        annotations = fields.hints(shape)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return [f"Config without defaults: method={name} Config() in {where} ({reason}); let it be made from nothing"]
    problems = []
    for option, annotation in annotations.items():
        value = getattr(default, option)
        try:
            line = fields.problem(shape, option, value, "method.")
        except (TypeError, AttributeError):
            line = f"no plain type: method.{option}: {annotation}; use bool, int, float, str, Literal or None"
        if line:
            problems.append(f"wrong default: method={name} in {where}: {line}")
    return problems


def _describe(shape: object) -> str:
    return shape.__name__ if isinstance(shape, type) else repr(shape)


def _is_earlier(module: ModuleType) -> bool:
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


FIRST_FIELDS = Path(__file__).with_name("first_fields.json")
"""File of the first fields of `train` and of each released method.

Any other field came later; unless `ADDED` lists it, earlier runs did what its default says.
"""


def find_later(part: str, config: type, added: Mapping[str, Added]) -> Mapping[str, Added]:
    """Returns the fields added to `train` or a method after its release, by `added` or else at their defaults."""
    return {**_find_unnamed(part, config), **added}


@functools.cache
def _find_unnamed(part: str, config: Any) -> Mapping[str, Added]:
    """Returns the fields that were added after a release and that `ADDED` need not list, with their defaults.

    The mapping is empty for a method without a release, such as a user's.
    """
    first = read_first().get(part)
    if first is None:
        return {}
    later: list[Any] = [field for field in dataclasses.fields(config) if field.name not in first]
    return {field.name: Added(field.default) for field in later if field.default is not dataclasses.MISSING}


@functools.cache
def read_first() -> Mapping[str, list[str]]:
    """Returns `train` or a released method -> its fields at its release, without those that `ADDED` lists."""
    return dict(json.loads(FIRST_FIELDS.read_text(encoding="utf8")))


def note_first(fresh: Mapping[str, list[str]]) -> None:
    """Adds the fields of parts that first_fields.json does not list yet."""
    FIRST_FIELDS.write_text(json.dumps({**fresh, **read_first()}, indent=1) + "\n", encoding="utf8")
