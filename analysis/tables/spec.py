"""What a table asks for: its cells in order, the published numbers, and what each column's numbers mean."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from analysis.run_state import Standing
from cse_train.results import Json as Json
from cse_train.results import Protocol, Settings

Key = Settings
"""Axis -> value: one row of a table."""


@dataclass(frozen=True, slots=True)
class RunValue:
    """What one run has in one column."""

    key: Key
    """Of the row that the run is one seed of."""
    seed: int
    column: str
    value: float
    """NaN where there is none."""
    protocol: Protocol | None = None
    """None for a best dev score, and where there is no score."""
    signature: str = ""
    state: Standing | None = None
    dev: float | None = None
    """The best score on another set, by which the run's checkpoint was picked; None for the dev set's own column."""
    computed: tuple[str, str] | None = None
    """What `train.precision` asks for, and what the device computed; None for fp32, and where no attempt says it."""


Sense = Literal["higher", "lower"]
"""Which of two values is the better one."""
UNIT_VALUES = 5.0
"""A column that nobody describes and whose published values all lie below this is taken for cosines or distances."""


@dataclass(frozen=True)
class MetricScale:
    """What a metric's numbers mean: which are better, and how wide its range is; a point is a hundredth of that."""

    better: Sense | None = "higher"
    """None for a metric of which neither is."""
    span: float | None = 100.0
    """From its worst value to its best: 100 for percent, 1 for a cosine or a share; None where nobody says it, and then
    nothing can be called a tie."""

    @property
    def point(self) -> float:
        """0 where the range is not known."""
        return 0.0 if self.span is None else self.span / 100

    def unit(self, values: Iterable[float]) -> float:
        """A point; of an unknown range a hundredth of the power of ten above all values, which no tie may stand on."""
        return self.point or 10.0 ** math.ceil(math.log10(max(map(abs, values), default=0.0) or 1.0)) / 100

    def digits(self, values: Iterable[float]) -> int:
        """Decimals that count: down to a hundredth of a point."""
        return max(0, 2 - math.floor(math.log10(self.unit(values))))


POINTS, UNIT_SCALE = MetricScale(), MetricScale(span=1.0)
"""Of percent, and of cosines and shares."""


def guess_scale(printed: Sequence[float]) -> MetricScale:
    """Of a column that nobody describes, by its published values."""
    return UNIT_SCALE if printed and all(abs(value) < UNIT_VALUES for value in printed) else POINTS


@dataclass(frozen=True)
class SettingDifference:
    """A setting that is no axis of a table and has several values among its rows."""

    name: str
    values: Mapping[str, Sequence[Key]]
    """Value, in words -> the keys of the rows that have it; NO_SETTING for rows whose method has no such setting."""

    @property
    def everywhere(self) -> bool:
        """Whether every row has the setting, with one value or another."""
        return NO_SETTING not in self.values

    @property
    def is_varied(self) -> bool:
        """Whether the rows that have the setting have several values of it."""
        return len(self.values.keys() - {NO_SETTING}) > 1


NO_SETTING = "no such setting"


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
    rows: list[Key] = field(default_factory=list)
    """Row keys in order, each with a value for every axis; empty means rows as the results bring them."""
    published: list[Json] = field(default_factory=list)
    """`{"key": {axis: value}, "cells": {column: number}}` as the paper prints them.

    A misprint is kept: such a row says `as_printed: True` and in `recomputed` what its other numbers give.
    """
    references: list[Json] = field(default_factory=list)
    """`{"label": name, "cells": {column: number}}` of models that are not trained here; misprints as in `published`."""
    scores: dict[str, str] = field(default_factory=dict)
    """Column -> the suite under which the ledger keeps its scores; a column left out is its own."""
    default: Key | None = None
    """Key of the paper's own setting, with which the other rows are compared."""
    citation: str = ""
    metric: str = ""
    protocol: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    searched: bool = False
    """Whether a sampler drew the rows."""
    best: Literal["max", "min", "none"] | None = None
    """Which mean of every column is set in bold; None where each column's scale says it."""
    scales: Mapping[str, MetricScale] = field(default_factory=dict)
    """Column -> what its numbers mean; a column left out is in points, or as its published values look."""


PLAIN_TYPES = frozenset((bool, int, str, type(None)))
"""Types of values that YAML writes as they are."""


def plain(value: Any) -> Any:
    """An axis value as YAML would write it: numpy scalars become Python's, NaN becomes None, 2.0 becomes 2."""
    if type(value) in PLAIN_TYPES:
        return value
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return tuple(plain(item) for item in value) if isinstance(value, list | tuple) else value


def identify(key: Key, axes: Iterable[str] | None = None) -> tuple[Any, ...]:
    """A row key as something hashable: 2 and 2.0 are one value, True and 1 are two."""
    names = sorted(key) if axes is None else sorted(axes)
    return tuple((name, isinstance(key[name], bool), plain(key[name])) for name in names)
