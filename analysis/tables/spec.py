"""What a table asks for: its cells in order and the published numbers; filled from a space's `paper:` block."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Line = Mapping[str, Any]
"""One result: the axes' values, `seed`, `column`, `value`; optionally `protocol`, `signature`, `state`."""
Key = Mapping[str, Any]
"""Axis -> value: one row of a table."""


class TableError(ValueError):
    """A table cannot be made as asked: one line with the rule, `name=value` and what to do."""


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """A table as data; that published values fit rows and columns was checked where their file was read."""

    id: str
    title: str = ""
    axes: list[str]
    """Names of the settings that tell rows apart, as in the space (`method.dup_rate`)."""
    columns: list[str]
    """Names of the results: `best` for the run's own dev score, else suites."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Row keys in order, each with a value for every axis; empty means rows as the results bring them."""
    published: list[dict[str, Any]] = field(default_factory=list)
    """`{"key": {axis: value}, "cells": {column: number}}` as the paper prints them.

    A misprint is kept: such a row says `as_printed: True` and in `recomputed` what its other numbers give.
    """
    references: list[dict[str, Any]] = field(default_factory=list)
    """`{"label": name, "cells": {column: number}}` of models that are not trained here; misprints as in `published`."""
    scores: dict[str, str] = field(default_factory=dict)
    """Column -> the suite under which the ledger keeps its scores; a column left out is its own."""
    default: dict[str, Any] | None = None
    """Key of the paper's own setting, with which the other rows are compared."""
    citation: str = ""
    metric: str = ""
    protocol: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    searched: bool = False
    """Whether a sampler drew the rows."""
    best: Literal["max", "min", "none"] = "max"
    """Which mean of a column is set in bold."""


PLAIN = frozenset((bool, int, str, type(None)))
"""Types of values that YAML writes as they are."""


def plain(value: Any) -> Any:
    """An axis value as YAML would write it: numpy scalars become Python's, NaN becomes None, 2.0 becomes 2."""
    if type(value) in PLAIN:
        return value
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return tuple(plain(item) for item in value) if isinstance(value, list | tuple) else value


def identify(key: Key, axes: Iterable[str] | None = None) -> tuple[Any, ...]:
    """A row key as something hashable: 2 and 2.0 are one value, True and 1 are two."""
    names = sorted(key) if axes is None else sorted(axes)
    return tuple((name, isinstance(key[name], bool), plain(key[name])) for name in names)
