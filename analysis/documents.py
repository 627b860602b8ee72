"""JSON output of commands: an answer's dataclass is the shape of its JSON, and its JSON Schema is made from it.

An answer is a frozen dataclass whose fields, in their order, are the keys of the object that `--format json` prints; a
command that lists rows answers with a list of them, which goes under `rows`. To give a command JSON:

    @dataclass(frozen=True, kw_only=True)
    class Ranking:
        '''Cells of a sweep, best first.'''

        differing: str = field(default="", metadata=OPTIONAL)
        '''Settings, other than the axes, in which the cells differ.'''
        cells: Sequence[RankedCell]
        pick: Pick | None

    Answer = Ranking  # in the command's module; Answer = list[RankedCell] for rows

    print(dump_json(ranking))

`cse schema COMMAND`, and `validated` of `tests/documents.py`, make the schema from the types: class docstrings and the
docstrings below fields become descriptions, `Literal` and enums become the allowed words, `tuple[float, float]` a list
of two. Every key is required and null stands for None; a field with the metadata OPTIONAL is left out of the object
while it has its default, one with HIDDEN always, and `spell_key("lower bound")` spells a key that is no name in Python;
metadata are joined by `|`. A float may be NaN in Python and is null in JSON: annotate it `float | None`.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

JSON_VERSION = 1
"""Version of the schema of every command's JSON (`cse schema`). New keys keep it; any other change raises it."""
OPTIONAL: dict[str, str] = {"optional": "yes"}
"""Metadata of a field whose key is left out of the JSON object while it has the default."""
HIDDEN: dict[str, str] = {"hidden": "yes"}
"""Metadata of a field that the JSON object never has."""


def spell_key(key: str) -> dict[str, str]:
    """Returns the metadata of a field that has another key in the JSON object than its name in Python."""
    return {"key": key}


def json_fields(answer: type) -> Iterator[tuple[str, Field[Any]]]:
    """Yields (key in the JSON object, field) for the fields of a dataclass that its JSON object can have."""
    for each in fields(answer):
        if "hidden" not in each.metadata:
            yield each.metadata.get("key", each.name), each


def dump_json(answer: object) -> str:
    """Returns an answer as JSON text with `version` first; a list goes under `rows`. NaN and infinities become null."""
    return json.dumps(document(answer), indent=1, ensure_ascii=False, allow_nan=False, default=str)


def document(answer: object) -> dict[str, object]:
    """Returns an answer as plain data with `version` first; a list goes under `rows`, NaN becomes None."""
    return {"version": JSON_VERSION, **convert_row({"rows": answer} if isinstance(answer, list | tuple) else answer)}


def convert_row(answer: object) -> dict[str, object]:
    """Returns a dataclass or a mapping as a dictionary with the keys of its JSON object."""
    plain = convert(answer)
    assert isinstance(plain, dict), type(answer)
    return plain


def convert(value: object) -> object:
    """Returns dataclasses and mappings, at any depth, as dictionaries with the keys of their JSON objects."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): convert(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [convert(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        entries = ((key, each, getattr(value, each.name)) for key, each in json_fields(type(value)))
        return {key: convert(item) for key, each, item in entries if not _is_left_out(each, item)}
    return value


def _is_left_out(each: "Field[Any]", value: object) -> bool:
    default = each.default if each.default_factory is MISSING else each.default_factory()
    return "optional" in each.metadata and value == default
