"""JSON that a command prints for programs, checked by its schema."""

import json
from typing import Any

import jsonschema

from cse.cli.extend.schema import schema_of


def validated(verb: str, text: str) -> Any:
    """The document, which is of the verb's schema."""
    schema, document = schema_of(verb), json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    return document
