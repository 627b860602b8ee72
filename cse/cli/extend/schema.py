"""`cse schema`: the JSON Schema of what a command prints with --format json, made from the type of its answer."""

import dataclasses
import json
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any

import typer
from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from analysis.documents import JSON_VERSION, json_fields
from cse.cli.app import command_files
from cse.cli.loader import load
from cse_train.fields import ConfigError, nearest

Verb = Annotated[str, typer.Argument(metavar="COMMAND", help="A command that takes --format json, such as gate.")]
Version = Annotated[int, typer.Option(help="The version that your program was written for.")]


def schema(verb: Verb, version: Version = JSON_VERSION) -> None:
    """Print the JSON Schema of a command's --format json; every such document has this `version`."""
    commands = commands_with_json()
    if verb not in commands:
        raise ConfigError([f"no JSON: command={verb} has no --format json; {nearest(verb, commands)}"])
    if version != JSON_VERSION:
        line = f"unknown schema version: version={version}, this cse-search prints {JSON_VERSION}"
        raise ConfigError(
            [f"{line}; adapt the program to it (CHANGELOG.md), or install the release it was written for"]
        )
    print(json.dumps(schema_of(verb), indent=1, ensure_ascii=False))


def commands_with_json() -> dict[str, Path]:
    """Returns command -> its file, for the commands whose modules name the type of their answer (`Answer`)."""
    return {name: file for name, file in command_files().items() if "\nAnswer = " in file.read_text(encoding="utf8")}


class AnswerSchema(GenerateJsonSchema):
    """pydantic's schema generator for answers: keys, and which of them may be absent, as `analysis.documents`
    writes them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Says nothing of defaults that are not JSON: no default gets into the schema."""

    def sort(self, value: Any, parent_key: str | None = None) -> Any:
        """Returns the schema with its keys in the order of the fields."""
        return value

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().dataclass_schema(schema)
        shown = dict(json_fields(schema["cls"]))
        properties = {key: made["properties"][each.name] for key, each in shown.items()}
        for value in properties.values():
            value.pop("default", None)
        required = [key for key, each in shown.items() if "optional" not in each.metadata]
        described = {"description": made["description"]} if "description" in made else {}
        return {"type": "object", **described, "required": required, "properties": properties}


def schema_of(verb: str) -> JsonSchemaValue:
    """Returns the JSON Schema of what a command prints with --format json."""
    file = commands_with_json()[verb]
    answer: Any = load(f"cse.{file.parts[-3]}.{file.parent.name}.{file.stem}").Answer
    has_rows = not dataclasses.is_dataclass(answer)
    # A list in both cases, since pydantic takes no configuration for a dataclass itself.
    listed: Any = answer if has_rows else GenericAlias(list, answer)
    adapter = TypeAdapter[Any](listed, config=ConfigDict(use_attribute_docstrings=True))
    rows = adapter.json_schema(schema_generator=AnswerSchema)
    definitions = rows.pop("$defs")
    if has_rows:
        shape: JsonSchemaValue = {"type": "object", "required": ["rows"], "properties": {"rows": rows}}
    else:
        shape = definitions[rows["items"]["$ref"].removeprefix("#/$defs/")]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"cse {verb} --format json",
        **shape,
        "required": ["version", *shape["required"]],
        "properties": {"version": {"const": JSON_VERSION}, **shape["properties"]},
        "$defs": definitions,
    }
