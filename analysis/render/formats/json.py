"""JSON format in the shape of a space's `paper:` block, numbers in full; verdicts and order have keys of their own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from analysis.answers.judge import TableWord, Verdicts
from analysis.documents import OPTIONAL, document
from analysis.render.grid import difference, difference_line, list_differences
from analysis.statistics.agreement import Concordance
from analysis.tables.aggregate import Row, Table, UntrainedModel
from analysis.tables.columns import Interval
from analysis.tables.ordering import Ordering
from analysis.tables.ordering import Word as OrderWord
from analysis.tables.spec import Key, PaperRow


@dataclass(frozen=True, kw_only=True)
class ReferenceRow:
    """Row of the paper with a model that is not trained here."""

    label: str
    cells: Mapping[str, float]
    """Column -> number as printed."""
    as_printed: bool = field(default=False, metadata=OPTIONAL)
    """True if the row keeps a misprint."""
    recomputed: Mapping[str, float] = field(default_factory=dict, metadata=OPTIONAL)
    """Column of a misprint -> value that the row's other numbers give."""
    model: str = field(default="", metadata=OPTIONAL)
    """Model that was scored without training."""
    ours: Mapping[str, float] | None = field(default=None, metadata=OPTIONAL)
    """Column -> measured score of the model."""
    delta: Mapping[str, float | None] | None = field(default=None, metadata=OPTIONAL)
    """Column -> measured score minus the printed one."""
    protocol: Mapping[str, object] | None = field(default=None, metadata=OPTIONAL)
    """Protocol fields that the measured scores share."""


@dataclass(frozen=True)
class ValueRows:
    """A setting's value, and the keys of the rows that have it."""

    value: str
    rows: Sequence[Key]


@dataclass(frozen=True)
class SettingRows:
    """Setting that is not an axis of a table and has several values among its rows."""

    name: str
    values: Sequence[ValueRows]


@dataclass(frozen=True, kw_only=True)
class PlacedVerdict:
    """Judgement on one published value of a table."""

    key: Key
    """Key of the value's row."""
    column: str
    word: TableWord
    interval: Interval | None
    """Interval that decided: of one further seed, or of the difference in question."""
    published: float | None
    """Number that is compared with the interval: the paper's value, or its difference from the reference row."""
    percentile: float | None = field(default=None, metadata=OPTIONAL)
    """Percentage of the row's seeds at or below the paper's value; absent for a difference."""
    reason: str
    seeds_needed: int | None
    """Seeds that would show the paper's difference in four of five tables, by the measured spread over seeds."""
    more_seeds: int | None
    """Further seeds of an undecided row and its reference row that decide it half of the time."""
    more_seeds_range: tuple[int | None, int | None] | None = field(default=None, metadata=OPTIONAL)
    """Further seeds that decide it in a quarter and in three quarters of cases, null for over 200; absent
    if decided."""
    level: float | None
    """Significance level of the interval at one interim analysis."""
    collapsed: int
    """Number of the row's seeds that failed: far worse than its others, or ended by an error; no difference averages
    them in."""


@dataclass(frozen=True, kw_only=True)
class OrderedPair:
    """Difference of two rows of a column on its sentence pairs, seeds averaged."""

    rows: Sequence[Key]
    difference: float
    interval: Interval
    p: float
    corrected: float
    """P value with Holm's correction over all pairs of the column."""
    differs: bool


@dataclass(frozen=True, kw_only=True)
class ColumnOrder:
    """Verdict on one column's order of rows, compared with the paper's order."""

    column: str
    word: OrderWord
    rows: int
    """Number of rows with both a measured and a published value."""
    tau: float | None
    interval: Interval | None
    reason: str
    pairs: Sequence[OrderedPair]
    lacking: Sequence[str]
    """Reasons why rows are missing from `pairs`."""
    agreement: Concordance | None
    p: float | None
    """Share of random orders of rows whose |tau| reaches the measured one."""


@dataclass(frozen=True, kw_only=True)
class TableDocument:
    """Results of a space or a sweep, in the shape of a space's `paper:` block; cse reproduce --out writes more keys."""

    id: str
    differing: str = field(default="", metadata=OPTIONAL)
    """Line on settings, other than the axes, in which rows differ."""
    axes: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[Row]
    no_signal: str
    """Reason why no two rows may be compared; empty if they may."""
    references: Sequence[ReferenceRow]
    protocol: Mapping[str, object]
    """Protocol and scale that all numbers share."""
    settings: Sequence[SettingRows] = field(default_factory=list, metadata=OPTIONAL)
    verdicts: Sequence[PlacedVerdict] | None = field(default=None, metadata=OPTIONAL)
    ordering: Sequence[ColumnOrder] | None = field(default=None, metadata=OPTIONAL)


def render(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> str:
    facts = document(describe(table, verdicts, ordering))
    return json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def describe(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> TableDocument:
    """Returns the table with numbers in full."""
    is_judged = verdicts is not None or ordering is not None
    placed = [
        PlacedVerdict(
            key=table.rows[index].key,
            column=column,
            word=cast(TableWord, judgement.word),
            interval=judgement.interval,
            published=judgement.published,
            percentile=judgement.percentile,
            reason=judgement.reason,
            seeds_needed=judgement.seeds_for_effect,
            more_seeds=judgement.more_seeds or None,
            more_seeds_range=judgement.more_seeds_range,
            level=judgement.level,
            collapsed=judgement.failed[0],
        )
        for (index, column), judgement in (verdicts or {}).items()
    ]
    return TableDocument(
        id=table.spec.id,
        differing=difference_line(table),
        axes=table.spec.axes,
        columns=table.spec.columns,
        rows=table.rows,
        no_signal=table.no_signal,
        references=[_reference(row, table.untrained.get(row.label)) for row in table.spec.references],
        protocol=table.protocol,
        settings=[
            SettingRows(setting.name, [ValueRows(value, keys) for value, keys in setting.values.items()])
            for setting in list_differences(table)
        ],
        verdicts=placed if is_judged else None,
        ordering=[_order(table, order) for order in ordering or ()] if is_judged else None,
    )


def _reference(row: PaperRow, model: UntrainedModel | None) -> ReferenceRow:
    printed = ReferenceRow(label=row.label, cells=row.cells, as_printed=bool(row.recomputed), recomputed=row.recomputed)
    if model is None:
        return printed
    deltas = {column: difference(value, row.cells.get(column)) for column, value in model.values.items()}
    return replace(printed, model=model.model, ours=model.values, delta=deltas, protocol=model.protocol())


def _order(table: Table, order: Ordering) -> ColumnOrder:
    pairs = [
        OrderedPair(
            rows=[table.rows[pair.left].key, table.rows[pair.right].key],
            difference=pair.difference,
            interval=pair.interval,
            p=pair.p,
            corrected=pair.corrected,
            differs=pair.differs,
        )
        for pair in order.pairs
    ]
    return ColumnOrder(**{**vars(order), "pairs": pairs})
