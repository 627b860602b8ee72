"""Checks the `Config` of a method, and records which fields signatures have always held.

A field that came after a method's release leaves a signature as it was, at the value of before.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from cse_train import fields
from cse_train.fields import Added, ConfigError
from cse_train.plugins import registry
from cse_train.plugins.options import Options, PlainPooler
from cse_train.plugins.registry import Plugin

SHAPE = "write @dataclass(frozen=True, kw_only=True) above it"
"""Advice that ends messages about a `Config` that is no frozen dataclass."""


def check_config(plugin: Plugin) -> type[Options]:
    """Returns the checked `Config` of a method; raises ConfigError with a line for each fault."""
    if declared := plugin.declare_options():
        return declared
    module = registry.load(plugin, plugin.options)
    shape: type[Options] | Any = getattr(module, "Config", None)
    if not isinstance(shape, type) or (module, shape) not in _checked:
        if problems := _problems(plugin.name, shape, str(plugin)):
            raise ConfigError(problems)
        _checked.add((module, shape))
    return shape


_checked: set[tuple[ModuleType, type]] = set()
"""Modules with their `Config` that had no fault."""


def _problems(name: str, shape: Any, where: str) -> tuple[str, ...]:
    """Returns each fault of a method's `Config` and its VERSION."""
    if not (isinstance(shape, type) and issubclass(shape, Options)):
        shown = getattr(shape, "__name__", shape)
        return (f"no options: method={name} Config={shown} in {where}; write class Config(Options)",)
    problems = []
    version = getattr(shape, "VERSION", None)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        problems.append(f"wrong version: method={name} VERSION={version!r} in {where}; write VERSION = 1")
    if shape.POOLER not in (None, *get_args(PlainPooler)):
        near = fields.nearest(str(shape.POOLER), get_args(PlainPooler))
        problems.append(f"no pooler without a projector: method={name} POOLER={shape.POOLER!r} in {where}; {near}")
    if not (dataclasses.is_dataclass(shape) and shape.__dataclass_params__.frozen):
        return (*problems, f"no frozen dataclass: method={name} Config={shape.__name__} in {where}; {SHAPE}")
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
