"""Specification of a table: its cells in order, the published numbers, and the scale of each column."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from analysis.run_state import Standing
from cse_train.results import Protocol, Settings

Key = Settings
"""Axis -> value, for one row of a table."""


@dataclass(frozen=True, slots=True)
class RunValue:
    """Value of one run in one column of a table."""

    key: Key
    """Key of the row that the run is one seed of."""
    seed: int
    column: str
    value: float
    """Score in the column's units; NaN where there is none."""
    protocol: Protocol | None = None
    """Protocol of the score; None for a best dev score, and where there is no score."""
    signature: str = ""
    state: Standing | None = None
    dev: float | None = None
    """Best score on the dev set, by which the run's checkpoint was picked; None for the dev set's own column."""
    computed: tuple[str, str] | None = None
    """Requested and actual `train.precision`; None for fp32, and where no attempt records it."""


Sense = Literal["higher", "lower"]
"""Direction of a metric: which of two values is the better one."""
UNIT_VALUES = 5.0
"""Bound below which all published values of an undescribed column make it a column of cosines or distances."""


@dataclass(frozen=True)
class MetricScale:
    """Scale of a metric: which values are better, and how wide its range is; a point is a hundredth of that range."""

    better: Sense | None = "higher"
    """Direction of the better values; None for a metric without one."""
    span: float | None = 100.0
    """Distance from the metric's worst value to its best: 100 for percent, 1 for a cosine or a share; None if
    unknown, and then nothing can be called a tie."""

    @property
    def point(self) -> float:
        """One point in the metric's units; 0 where the range is not known."""
        return 0.0 if self.span is None else self.span / 100

    def unit(self, values: Iterable[float]) -> float:
        """Returns one point; for an unknown range, a hundredth of the power of ten above all values, unfit for ties."""
        return self.point or 10.0 ** math.ceil(math.log10(max(map(abs, values), default=0.0) or 1.0)) / 100

    def digits(self, values: Iterable[float]) -> int:
        """Returns the number of decimals that count: down to a hundredth of a point."""
        return max(0, 2 - math.floor(math.log10(self.unit(values))))


POINTS, UNIT_SCALE = MetricScale(), MetricScale(span=1.0)
"""Scale of percentages, and scale of cosines and shares."""


def guess_scale(printed: Sequence[float]) -> MetricScale:
    """Returns the scale of an undescribed column by its published values."""
    return UNIT_SCALE if printed and all(abs(value) < UNIT_VALUES for value in printed) else POINTS


@dataclass(frozen=True)
class SettingDifference:
    """Setting that is not an axis of a table and has several values among its rows."""

    name: str
    values: Mapping[str, Sequence[Key]]
    """Value, in words -> the keys of the rows that have it; NO_SETTING for rows whose method has no such setting."""

    @property
    def everywhere(self) -> bool:
        """True if every row of the table has the setting."""
        return NO_SETTING not in self.values

    @property
    def is_varied(self) -> bool:
        """True if the rows that have the setting have several values of it."""
        return len(self.values.keys() - {NO_SETTING}) > 1


NO_SETTING = "no such setting"


class TableError(ValueError):
    """Table that cannot be made as asked; the message is one line with the rule, `name=value` and what to do."""


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """Row of a table as the paper prints it, of a cell or of a model that no cell trains; a misprint is kept."""

    key: Key = field(default_factory=dict)
    """Key of the cell; empty for a model that no cell trains."""
    label: str = ""
    """Name of a model that no cell trains."""
    cells: Mapping[str, float]
    """Column -> number as printed."""
    recomputed: Mapping[str, float] = field(default_factory=dict)
    """Column of a misprint -> value that the row's other numbers give."""


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """Table as data. Whether published values fit rows and columns was checked where their file was read."""

    id: str
    title: str = ""
    axes: list[str]
    """Names of the settings that distinguish rows, as in the space (`method.dup_rate`)."""
    columns: list[str]
    """Names of the results: `best` for the run's own dev score, else suites."""
    rows: list[Key] = field(default_factory=list)
    """Row keys in order, each with a value for every axis; empty where rows follow from the results."""
    published: list[PaperRow] = field(default_factory=list)
    """Rows of the paper for cells of the table."""
    references: list[PaperRow] = field(default_factory=list)
    """Rows of the paper for models that are not trained here."""
    scores: dict[str, str] = field(default_factory=dict)
    """Column -> the suite under which the ledger stores its scores; a column left out is its own suite."""
    default: Key | None = None
    """Key of the paper's own setting, with which the other rows are compared."""
    citation: str = ""
    metric: str = ""
    protocol: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    searched: bool = False
    """True if a sampler drew the rows."""
    best: Literal["max", "min", "none"] | None = None
    """Mean of every column that is set in bold; None if each column's scale decides."""
    scales: Mapping[str, MetricScale] = field(default_factory=dict)
    """Column -> scale of its numbers; the scale of a column left out is guessed from its published values."""


PLAIN_TYPES = frozenset((bool, int, str, type(None)))
"""Types of values that YAML writes as they are."""


def plain(value: Any) -> Any:
    """Returns an axis value as YAML would write it: numpy scalars become Python's, NaN becomes None, 2.0 becomes 2."""
    if type(value) in PLAIN_TYPES:
        return value
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return tuple(plain(item) for item in value) if isinstance(value, list | tuple) else value


def identify(key: Key, axes: Iterable[str] | None = None) -> tuple[Any, ...]:
    """Returns a row key as a hashable tuple: 2 and 2.0 are one value, True and 1 are two."""
    names = sorted(key) if axes is None else sorted(axes)
    return tuple((name, isinstance(key[name], bool), plain(key[name])) for name in names)
