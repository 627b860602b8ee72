"""Records the settings that signatures have held since a method's release, and finds those that were added later.

A later setting at the value of before leaves a signature as it was.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cse_train.fields import Added

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
