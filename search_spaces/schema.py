"""The JSON Schema of space files, made from the Configs: `python -m search_spaces.schema` writes it for editors.

The loader checks more than a schema can (conditions, published rows); the schema gives completion and early errors.
"""

import dataclasses
import json
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from cse_train import fields, methods
from cse_train.config import TrainConfig
from search_spaces.catalog import shipped
from search_spaces.domains import WORDS
from search_spaces.keys import SEED
from search_spaces.parse_paper import BEST, NEEDED
from search_spaces.parse_paper import KEYS as PAPER_KEYS
from search_spaces.space import SearchConfig

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
SCALAR: Json = {"type": ["boolean", "number", "string", "null"]}
PLAIN: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
BOUNDS = {"low": "minimum", "high": "maximum", "above": "exclusiveMinimum", "below": "exclusiveMaximum"}


def schema() -> Json:
    """The whole schema."""
    values: Json = {"method": {"enum": methods.names()}, **_keys()}
    named = {key: {"$ref": f"#/$defs/{key}"} for key in values}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cse-search space",
        **_closed(_top(named), "version", "id"),
        "oneOf": [{"required": ["space"]}, {"required": ["cells"]}, _paper_alone()],
        "$defs": {**values, "domain": _domain()},
    }


def _top(values: Json) -> Json:
    settings = _closed({key: value for key, value in values.items() if key != "method"})
    cell = _closed({"label": TEXT, "set": _closed(values)}, "label", "set")
    return {
        "version": {"const": 1},
        "id": TEXT,
        "title": TEXT,
        "notes": TEXT,
        "method": values["method"],
        "profile": TEXT,
        "seeds": {"oneOf": [{"type": "integer", "minimum": 1}, _list({"type": "integer", "minimum": 0})]},
        "set": settings,
        "space": _closed({key: _axis(value) for key, value in values.items()}),
        "cells": _list(cell),
        "evaluate": {"type": "array", "items": TEXT},
        "search": _closed(_described(SearchConfig)),
        "paper": _paper(),
        "components": {"type": "object", "additionalProperties": _component(list(values))},
    }


def _component(known: list[str]) -> Json:
    """Keys with the value that turns a component off, or a map from values with it to values without."""
    off = {"anyOf": [SCALAR, {"type": "object", "additionalProperties": SCALAR, "minProperties": 1}]}
    names = {"enum": [key for key in known if key != "method"]}
    return {"type": "object", "minProperties": 1, "propertyNames": names, "additionalProperties": off}


def _closed(properties: Json, *required: str) -> Json:
    found: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | {"required": list(required)} if required else found


def _list(items: Json) -> Json:
    return {"type": "array", "items": items, "minItems": 1}


def _keys() -> Json:
    """Dotted key -> schema of its value; a key that several methods have takes what any of them takes."""
    found = {f"train.{name}": value for name, value in _described(TrainConfig).items() if f"train.{name}" != SEED}
    for method in methods.names():
        for name, value in _described(methods.config_module(method).Config).items():
            key = f"method.{name}"
            found[key] = value if found.get(key, value) == value else {"anyOf": [found[key], value]}
    return found


def _described(config: type) -> Json:
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    return {n: _value(a) | {"default": defaults[n]} for n, a in fields.hints(config).items()}


def _value(annotation: Any) -> Json:
    if get_origin(annotation) is Annotated:
        allowed = fields.range_of(annotation)
        ends = {
            word: getattr(allowed, name) for name, word in BOUNDS.items() if getattr(allowed, name, None) is not None
        }
        return _value(get_args(annotation)[0]) | ends
    if get_origin(annotation) in (Union, types.UnionType):
        return {"anyOf": [_value(option) for option in get_args(annotation)]}
    if get_origin(annotation) is Literal:
        return {"enum": list(get_args(annotation))}
    return {"type": PLAIN[annotation if annotation is not None else type(None)]}


def _domain() -> Json:
    """The shape of any domain; `_axis` adds what its values are."""
    ends = {"type": "array", "minItems": 2, "maxItems": 2}
    listed = {"type": "array", "minItems": 1, "uniqueItems": True}
    words = {word: listed if word in ("grid", "choice") else ends for word in WORDS}
    when = {"type": "object", "additionalProperties": {"anyOf": [SCALAR, _list(SCALAR)]}}
    return _closed({**words, "when": when}) | {"oneOf": [{"required": [word]} for word in WORDS]}


def _axis(value: Json) -> Json:
    return {"$ref": "#/$defs/domain", "patternProperties": {f"^({'|'.join(WORDS)})$": {"items": value}}}


def _paper_alone() -> Json:
    """A table without cells: rows of models that are not trained here."""
    none = {"not": {"anyOf": [{"required": ["space"]}, {"required": ["cells"]}]}}
    return none | {"required": ["method", "paper"], "properties": {"paper": {"required": ["references"]}}}


def _paper() -> Json:
    """The block of published values; cells may be empty, and a misprint names what the row gives."""
    numbers = {"type": "object", "additionalProperties": {"type": "number"}}
    key = {"type": "object", "additionalProperties": SCALAR}
    values = {"cells": numbers, "as_printed": {"const": True}, "recomputed": numbers}
    average = _closed({"column": TEXT, "of": _list(TEXT), "decimals": {"type": "integer"}}, "column", "of")
    kinds = {
        "columns": _list(TEXT),
        "rows": {"type": "array", "items": _closed({"key": key, **values}, "key", "cells")},
        "references": _list(_closed({"label": TEXT, **values}, "label", "cells")),
        "scores": {"type": "object", "additionalProperties": TEXT},
        "average": {"oneOf": [average, _list(average)]},
        "default": key,
        "best": {"enum": list(BEST)},
    }
    return _closed({key: kinds.get(key, TEXT) for key in PAPER_KEYS}, *NEEDED)


def text() -> str:
    """The published file's content."""
    return json.dumps(schema(), indent=1) + "\n"


if __name__ == "__main__":
    (shipped() / "schema.json").write_text(text(), encoding="utf-8")
