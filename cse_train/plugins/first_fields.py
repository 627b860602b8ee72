"""The fields that signatures have held from the first release on, and those that came later.

A later field at what was done before it came leaves a signature as it was.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cse_train.fields import Added

FIRST_FIELDS = Path(__file__).with_name("first_fields.json")
"""Those of `train`, and of each released method. Any other field of theirs came later; where no `ADDED` has it, runs of
before did what its default says."""


def find_later(part: str, config: type, added: Mapping[str, Added]) -> Mapping[str, Added]:
    """The fields that came to `train` or to a method after its release: as `added` says, else at their defaults."""
    return {**_find_unnamed(part, config), **added}


@functools.cache
def _find_unnamed(part: str, config: Any) -> Mapping[str, Added]:
    """Later fields by what their declaration says; none of a method that is not released, such as a user's."""
    first = read_first().get(part)
    if first is None:
        return {}
    later: list[Any] = [field for field in dataclasses.fields(config) if field.name not in first]
    return {field.name: Added(field.default) for field in later if field.default is not dataclasses.MISSING}


@functools.cache
def read_first() -> Mapping[str, list[str]]:
    """`train` or a released method -> its fields at its release, those of `ADDED` left out."""
    return dict(json.loads(FIRST_FIELDS.read_text(encoding="utf8")))


def note_first(fresh: Mapping[str, list[str]]) -> None:
    """Write the fields of parts that are not noted yet."""
    FIRST_FIELDS.write_text(json.dumps({**fresh, **read_first()}, indent=1) + "\n", encoding="utf8")
