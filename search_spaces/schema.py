"""JSON Schema of space files for editors; `python -m search_spaces.schema` writes it.

The loader checks more than a schema can (conditions, published rows); the schema gives completion and early errors.
"""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from cse_train import methods
from cse_train.config import TrainConfig
from search_spaces.catalog import find_folder
from search_spaces.domains import DOMAIN_WORDS
from search_spaces.keys import SEED
from search_spaces.paper import Paper
from search_spaces.space import SearchConfig, SpaceFile
from search_spaces.trainer import METHOD_KEYS

SCALAR: JsonSchemaValue = {"type": ["boolean", "number", "string", "null"]}


class Untitled(GenerateJsonSchema):
    """pydantic's schema generator without titles, which would only repeat the names of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema(names: Sequence[str] | None = None) -> JsonSchemaValue:
    """Returns the JSON Schema of a space file, with every dotted key of the named methods (default: all shipped)."""
    names = methods.list_methods() if names is None else names
    values: JsonSchemaValue = {"method": {"enum": list(names)}, **_keys(names)}
    references = {key: {"$ref": f"#/$defs/{key}"} for key in values}
    file, paper, search = (_describe(shape) for shape in (SpaceFile, Paper, SearchConfig))
    settings = _close({key: value for key, value in references.items() if key != "method"})
    # Keys of a component have the value that turns it off, or a map from values on to off.
    off = {"anyOf": [SCALAR, {"type": "object", "additionalProperties": SCALAR, "minProperties": 1}]}
    names_of_settings = {"enum": [key for key in references if key != "method"]}
    component = {"type": "object", "minProperties": 1, "propertyNames": names_of_settings, "additionalProperties": off}
    method_keys = {
        "method": references["method"],
        "set": settings,
        "set_for": {"type": "object", "additionalProperties": settings},
        "space": _close({key: _axis(value) for key, value in references.items()}),
        "cells": {**file["properties"]["cells"], "minItems": 1},
        "components": {"type": "object", "additionalProperties": component},
    }
    nested = {"search": search, "paper": paper, "cells": {"type": "array", "minItems": 1}}
    # A table without cells: rows of models that are not trained here.
    no_cells = {"not": {"anyOf": [{"required": ["space"]}, {"required": ["cells"]}]}}
    rows_alone = {"required": ["method", "paper"], "properties": {"paper": {"required": ["references"]}}}
    definitions = {**file.pop("$defs"), **paper.pop("$defs"), **values, "domain": _domain()}
    # In a space with `trainer:` any name is a parameter of the user's program.
    free = {"type": "object", "additionalProperties": SCALAR}
    axes = {"type": "object", "additionalProperties": {"$ref": "#/$defs/domain"}}
    bare = {
        "properties": {"set": free, "space": axes},
        "not": {"anyOf": [{"required": [key]} for key in METHOD_KEYS]},
    }
    definitions["ExplicitCell"]["properties"]["set"] = _close(references)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **file,
        "title": "cse-search space",
        "properties": {**file["properties"], **nested},
        "if": {"required": ["trainer"]},
        "then": bare,
        "else": {"properties": method_keys},
        "oneOf": [{"required": ["space"]}, {"required": ["cells"]}, {**no_cells, **rows_alone}],
        "$defs": definitions,
    }


def _describe(shape: type) -> JsonSchemaValue:
    return TypeAdapter(shape).json_schema(schema_generator=Untitled)


def _close(properties: JsonSchemaValue) -> JsonSchemaValue:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _keys(names: Sequence[str]) -> JsonSchemaValue:
    """Returns dotted key -> schema of its value; a key of several methods accepts what any of them accepts."""
    configs = [("train", TrainConfig), *(("method", methods.config_class(name)) for name in names)]
    values: JsonSchemaValue = {}
    for part, config in configs:
        for name, value in _describe(config)["properties"].items():
            others = values.get(f"{part}.{name}", value)
            values[f"{part}.{name}"] = value if others == value else {"anyOf": [others, value]}
    return {key: value for key, value in values.items() if key != SEED}


def _domain() -> JsonSchemaValue:
    """Returns the schema of any domain, without a type for its values, which `_axis` adds."""
    ends = {"type": "array", "minItems": 2, "maxItems": 2}
    listed = {"type": "array", "minItems": 1, "uniqueItems": True}
    words = {word: listed if word in ("grid", "choice") else ends for word in DOMAIN_WORDS}
    when = {
        "type": "object",
        "additionalProperties": {"anyOf": [SCALAR, {"type": "array", "items": SCALAR, "minItems": 1}]},
    }
    return _close({**words, "when": when}) | {"oneOf": [{"required": [word]} for word in DOMAIN_WORDS]}


def _axis(value: JsonSchemaValue) -> JsonSchemaValue:
    return {"$ref": "#/$defs/domain", "patternProperties": {f"^({'|'.join(DOMAIN_WORDS)})$": {"items": value}}}


def text(names: Sequence[str] | None = None) -> str:
    """Returns the content of schema.json."""
    return json.dumps(schema(names), indent=1) + "\n"


if __name__ == "__main__":
    (find_folder() / "schema.json").write_text(text(), encoding="utf-8")
