"""A published table as data: rows of cells, rows of models that are not trained here, and columns of averages."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Strict

from cse_train.evaluate.metric_names import needs_direction
from cse_train.evaluate.suites import registry
from cse_train.fields import Json, Scalar
from cse_train.methods.options import PlainPooler
from search_spaces.file_shape import CLOSED, Count, Give, Number, Text, brief, read

Key = Mapping[str, Scalar]
ROUNDING = 1e-9
"""Tolerance for binary fractions, added to half a unit of the last printed decimal."""


@dataclass(frozen=True, kw_only=True)
class PrintedRow:
    """Printed row of a table, for a cell or for a model that no cell trains."""

    __pydantic_config__ = CLOSED
    cells: Mapping[str, Number]
    """Column -> number as printed; empty for a setting that is published without one."""
    as_printed: Annotated[bool, Strict()] = False
    """True if the row keeps a misprint, a printed number that cannot be right."""
    recomputed: Mapping[str, Number] = field(default_factory=dict)
    """Column of a misprint -> value that the row's other numbers give."""

    @property
    def name(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class PublishedRow(PrintedRow):
    """Printed row of a cell."""

    key: Key

    @property
    def name(self) -> str:
        return str(dict(self.key))


EVALUATED_ADVICE = "give {encoder: bert-base-uncased, pooler: mean}, or {vectors: glove.840B.300d}"


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """A model that is scored without training: an encoder with a pooler, or the average of a text's word vectors."""

    __pydantic_config__ = CLOSED
    encoder: Annotated[str, Strict(), Give(EVALUATED_ADVICE)] = ""
    """Name of an encoder, as for `train.encoder`."""
    pooler: Annotated[PlainPooler | None, Give(f"give one of {', '.join(get_args(PlainPooler))}", "unknown pooler")] = (
        None
    )
    vectors: Annotated[str, Strict(), Give(EVALUATED_ADVICE)] = ""
    """Name of a file in the data folder's `vectors`, without its suffix."""

    @property
    def name(self) -> str:
        return self.vectors or self.encoder

    @property
    def key(self) -> tuple[str, str]:
        """Name and pooler, under which the ledger keeps the model's scores."""
        return self.name, self.pooler or "mean"


@dataclass(frozen=True, kw_only=True)
class Reference(PrintedRow):
    """Printed row of a model that is not trained here."""

    label: Text
    evaluated: Annotated[Evaluated | None, Give(EVALUATED_ADVICE)] = None
    """The model to be scored without training for comparison; None where it is not available."""
    reason: Text = ""
    """Reason why no method here trains the model; empty where it is obvious."""

    @property
    def name(self) -> str:
        return self.label


@dataclass(frozen=True, kw_only=True)
class Average:
    """A column that is the mean of other columns."""

    __pydantic_config__ = CLOSED
    column: Text
    of: tuple[Text, ...]
    decimals: Count = 2
    """Number of decimals that the paper prints of the average."""

    def readded(self, row: PrintedRow) -> float | None:
        """Returns the mean of a row's printed values; None for a row that lacks the average or one of its columns."""
        values = [row.cells.get(name) for name in (self.column, *self.of)]
        numbers = [value for value in values if value is not None]
        return None if len(numbers) < len(values) else sum(numbers[1:]) / len(self.of)

    def agrees(self, printed: float, readded: float) -> bool:
        """Tells whether the printed value equals the mean to its last decimal, rounded up or down."""
        return abs(printed - readded) <= 0.5 * 10.0**-self.decimals + ROUNDING


Averages = Annotated[
    tuple[Average, ...],
    BeforeValidator(
        lambda value: value if isinstance(value, list) else [value],
        json_schema_input_type=Average | tuple[Average, ...],
    ),
]


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A published table, whose rows have the shape of this project's own tables in JSON."""

    __pydantic_config__ = CLOSED
    citation: Text
    table: Text
    source: Text
    """Place of publication of the paper: its number in the ACL Anthology or on arXiv."""
    metric: Text
    notes: Text = ""
    finding: Text = ""
    """Finding of a figure without numbers, as the paper states it."""
    columns: Annotated[tuple[Text, ...], Give("give a list such as [sts_dev]")] = ()
    """Names of the results; a column that no suite gives shows the paper's numbers alone."""
    best: Annotated[Literal["max", "min", "none"], Give("give one of max, min, none", "unknown value")] = "max"
    """Best value of a column, the highest or the lowest; `none` where the columns differ in that."""
    scores: Annotated[Mapping[str, Text], Give("give a mapping such as {avg: sts_average}")] = field(
        default_factory=dict
    )
    """Column -> name under which the ledger keeps its scores; other columns are named as in the ledger."""
    unscored: Annotated[Mapping[str, Text], Give("give a mapping such as {COCO: why no suite scores it}")] = field(
        default_factory=dict
    )
    """Column of the table that no suite scores -> reason."""
    rows: Annotated[tuple[PublishedRow, ...], Give("give a list of {key: {...}, cells: {...}}")] = ()
    """Printed rows of the table's cells; empty for a figure without printed numbers."""
    references: Annotated[tuple[Reference, ...], Give("give a list of {label: ..., cells: {...}}")] = ()
    """Printed rows of models that are not trained here."""
    average: Annotated[Averages, Give("give {column: avg, of: [mr, cr], decimals: 2}")] = ()
    """Columns of averages: one, or a list of them."""
    default: Annotated[Key | None, Give("give a key such as {method.dup_rate: 0.32}")] = None
    """Key of the paper's own setting: the baseline of an ablation, or the winner of a search."""

    def stored(self, column: str) -> str:
        """Returns the name under which the ledger keeps a column's scores."""
        return self.scores.get(column, column)

    def suites_of(self, row: Reference, evaluate: Sequence[str]) -> dict[str, str]:
        """Returns column of a row -> suite that scores it.

        Prefers suites that the table evaluates, else takes the one with the fewest columns. Columns that no suite gives
        are left out.
        """
        suites = (*evaluate, *_sort_by_size())
        fitting = {c: [name for name in suites if self.stored(c) in registry.columns(name)] for c in row.cells}
        return {column: names[0] for column, names in fitting.items() if names}

    def misadded(self) -> Iterator[tuple[PrintedRow, str, float]]:
        """Yields (row, column, mean) of averages that neither the row's values nor a `recomputed` entry explain.

        A `recomputed` average must itself be the mean of the row.
        """
        for average in self.average:
            for row in (*self.rows, *self.references):
                mean = average.readded(row)
                value = row.recomputed.get(average.column, row.cells.get(average.column))
                if mean is not None and value is not None and not average.agrees(value, mean):
                    yield row, average.column, mean


@functools.cache
def _sort_by_size() -> tuple[str, ...]:
    return tuple(
        sorted((*registry.list_shipped(), *registry.members()), key=lambda suite: len(registry.columns(suite)))
    )


def read_paper(raw: Json) -> tuple[Paper | None, list[str]]:
    """Reads the `paper:` block of a space; returns it, or None, and every problem."""
    rows = raw.get("references")
    listed = rows if isinstance(rows, list) else []
    wrong = [line for row in listed if isinstance(row, dict) for line in _check_evaluated(row)]
    if wrong:
        sound = [
            {name: value for name, value in row.items() if name != "evaluated"} if isinstance(row, dict) else row
            for row in listed
        ]
        return None, wrong + read(Paper, {**raw, "references": sound}, "paper.")[1]
    paper, problems = read(Paper, raw, "paper.")
    silent = [name for name in paper.columns if needs_direction(name)] if paper and "best" not in raw else []
    return paper, problems + [f"no direction: paper.columns={name}; give best: min, or best: max" for name in silent]


def _check_evaluated(row: Json) -> list[str]:
    if "evaluated" not in row:
        return []
    value, name = row["evaluated"], f"paper.references.evaluated of {brief(row.get('label'))}"
    if not isinstance(value, dict):
        return [Give(EVALUATED_ADVICE).line(name, value)]
    lines = read(Evaluated, value, "paper.references.evaluated.")[1]
    names = {field.name for field in fields(Evaluated) if value.get(field.name)}
    if lines or names in ({"encoder", "pooler"}, {"vectors"}):
        return [line.replace("=", f" of {brief(row.get('label'))}=", 1) for line in lines]
    return [f"no single model: {name}={brief(value)}; {EVALUATED_ADVICE}"]
