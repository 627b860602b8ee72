"""What a command prints for programs: one JSON object with the version of its shape."""

import json
import math
from collections.abc import Mapping, Sequence

JSON_VERSION = 1
"""Of the shape of every command's JSON, which `cse schema` prints: new keys leave it, any other change raises it."""


def dump_json(facts: Mapping[str, object] | Sequence[object]) -> str:
    """The object with `version` first; a list stands under `rows`. NaN and infinities, which JSON lacks, are null."""
    return json.dumps(document(facts), indent=1, ensure_ascii=False, allow_nan=False, default=str)


def document(facts: Mapping[str, object] | Sequence[object]) -> dict[str, object]:
    """The same as plain data."""
    content = facts if isinstance(facts, Mapping) else {"rows": facts}
    return {"version": JSON_VERSION, **{str(name): _make_finite(value) for name, value in content.items()}}


def _make_finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _make_finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
