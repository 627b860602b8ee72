"""Reads YAML values by pydantic into dataclasses that declare a file, with one line for the user per mistake."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_args

from pydantic import ConfigDict, Strict, TypeAdapter, ValidationError
from pydantic.json_schema import JsonSchemaValue

from cse_train import fields

T = TypeVar("T")
CLOSED = ConfigDict(extra="forbid")
"""`__pydantic_config__` of a dataclass that accepts no other keys."""


@dataclasses.dataclass(frozen=True)
class Give:
    """Annotation of a field with the rule and the advice of the error line for a value of the wrong type."""

    advice: str = "give text"
    rule: str = "wrong type"

    def line(self, name: str, value: object, number: int | None = None) -> str:
        """Returns the error line for a field's value, or for its item at position `number`."""
        value_text = brief(repr(value)) if self.rule == "wrong type" else brief(value)
        item = "" if number is None else f" (item {number + 1})"
        return f"{self.rule}: {name}={value_text}{item}; {self.advice}"

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> JsonSchemaValue:
        return {**handler(core_schema), "description": self.advice}


Text = Annotated[str, Strict()]
Number = Annotated[float, Strict()]
"""A float, or an int that becomes one; never a bool."""
Count = Annotated[int, Strict()]
VERSION_ADVICE = Give("write `version: 1`", "wrong version")


def brief(value: object) -> str:
    """Returns a value as text of at most 40 characters, for an error line."""
    return fields.brief(str(value), 40)


def read(shape: type[T], raw: Mapping[str, Any], prefix: str = "") -> tuple[T, list[str]]:
    """Fills the dataclass `shape` from `raw`; returns it with every problem.

    A field with a problem holds its default, or else None; a list holds the items without one.
    """
    declared = {field.name: field for field in dataclasses.fields(shape)}  # type: ignore[arg-type]
    annotations = fields.hints(shape)
    required = [name for name, f in declared.items() if f.default is f.default_factory is dataclasses.MISSING]
    lines = [f"missing key: {prefix}{name}=null; give it" for name in required if name not in raw]
    values: dict[str, object] = dict.fromkeys(required)
    for name, value in raw.items():
        if name not in declared:
            lines.append(f"unknown key: {prefix}{name}={brief(value)}; {fields.nearest(name, declared)}")
            continue
        try:
            values[name] = adapter(annotations[name]).validate_python(value)
        except ValidationError as error:
            wrong = _wrong_items(value, error)
            if wrong:
                sound = [item for number, item in enumerate(value) if number not in wrong]
                values[name] = adapter(annotations[name]).validate_python(sound)
            give = next((extra for extra in get_args(annotations[name]) if isinstance(extra, Give)), Give())
            lines += [give.line(prefix + name, value[number], number) for number in wrong] or [
                give.line(prefix + name, value)
            ]
    return shape(**values), lines


@functools.cache
def adapter(annotation: Any) -> TypeAdapter[Any]:
    """Returns pydantic's reader of an annotated type, cached because it is costly to make."""
    return TypeAdapter(annotation)


def _wrong_items(value: object, error: ValidationError) -> list[int]:
    """Returns the positions of a list's wrong items; empty where the value is wrong as a whole."""
    places = [problem["loc"] for problem in error.errors(include_url=False, include_context=False)]
    numbers = dict.fromkeys(place[0] for place in places if place)
    return [number for number in numbers if isinstance(number, int)] if isinstance(value, list) else []
