"""JSON that a command prints for programs, checked by its schema."""

import json
from typing import Any

import jsonschema

from cse.cli.extend.schema import list_schemas


def validated(verb: str, text: str) -> Any:
    """The document, which is of the verb's schema."""
    schema, document = json.loads(list_schemas()[verb].read_text(encoding="utf8")), json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    return document
