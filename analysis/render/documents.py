"""JSON output of commands: one object with the version of its schema."""

import json
import math
from collections.abc import Mapping, Sequence

JSON_VERSION = 1
"""Version of the schema of every command's JSON (`cse schema`). New keys keep it; any other change raises it."""


def dump_json(facts: Mapping[str, object] | Sequence[object]) -> str:
    """Returns an object as JSON text with `version` first; a list goes under `rows`. NaN and infinities become null."""
    return json.dumps(document(facts), indent=1, ensure_ascii=False, allow_nan=False, default=str)


def document(facts: Mapping[str, object] | Sequence[object]) -> dict[str, object]:
    """Returns an object as plain data with `version` first; a list goes under `rows`, NaN becomes None."""
    content = facts if isinstance(facts, Mapping) else {"rows": facts}
    return {"version": JSON_VERSION, **{str(name): _make_finite(value) for name, value in content.items()}}


def _make_finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _make_finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
