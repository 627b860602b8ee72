"""Checks the `Config` of a method when it is first imported: it must be a frozen dataclass of plain values."""

import dataclasses
import functools
from types import ModuleType
from typing import Any

from cse_train import fields
from cse_train.fields import ConfigError, Json
from cse_train.plugins import earlier, registry
from cse_train.plugins.options import Options
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
        if earlier.is_earlier(module):
            checked = earlier.options_of(module, functools.partial(_make, plugin.name))
        _classes[module, module.Config] = checked
    return _classes[module, module.Config]


_classes: dict[tuple[ModuleType, type], type[Options]] = {}
"""(module, its `Config`) -> the checked class."""


def _make(method: str, values: Json) -> Options:
    return fields.make_checked(check_config(registry.require("method", method)), values)


def _problems(name: str, module: ModuleType, where: str) -> tuple[str, ...]:
    """Returns each fault of a method's `Config` and its VERSION."""
    shape: Any = getattr(module, "Config", None)
    if not earlier.is_earlier(module) and not (isinstance(shape, type) and issubclass(shape, Options)):
        return (f"no options: method={name} Config={_describe(shape)} in {where}; write class Config(Options)",)
    problems = []
    version = getattr(module if earlier.is_earlier(module) else shape, "VERSION", None)
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
