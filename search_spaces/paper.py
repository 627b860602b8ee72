"""A published table as data: its rows, those of models that are not trained here, and what its averages are over."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Strict

from cse_train.evaluate.metric_names import needs_direction
from cse_train.evaluate.suites import registry
from cse_train.fields import Json, Scalar
from cse_train.methods.options import PlainPooler
from search_spaces.file_shape import CLOSED, Count, Give, Number, Text, brief, read

Key = Mapping[str, Scalar]
ROUNDING = 1e-9
"""What binary fractions may add to half a unit of the last decimal."""


@dataclass(frozen=True, kw_only=True)
class PrintedRow:
    """One printed row, a cell's or that of a model that no cell trains."""

    __pydantic_config__ = CLOSED
    cells: Mapping[str, Number]
    """Column -> the number as printed; empty for a setting that is published without one."""
    as_printed: Annotated[bool, Strict()] = False
    """Whether a printed number is kept though it cannot be right."""
    recomputed: Mapping[str, Number] = field(default_factory=dict)
    """Column -> what the row's other numbers give in its place."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    def as_dict(self) -> dict[str, object]:
        """The row in the shape of the file, without what it is called by."""
        misprint = {"as_printed": True, "recomputed": dict(self.recomputed)} if self.recomputed else {}
        return {"cells": dict(self.cells), **misprint}


@dataclass(frozen=True, kw_only=True)
class PublishedRow(PrintedRow):
    """The row of a cell."""

    key: Key

    @property
    def name(self) -> str:
        return str(dict(self.key))

    def as_dict(self) -> dict[str, object]:
        return {"key": dict(self.key), **super().as_dict()}


EVALUATED_ADVICE = "give {encoder: bert-base-uncased, pooler: mean}, or {vectors: glove.840B.300d}"


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """A model that is scored as it is: an encoder under a pooler, or the average of a text's word vectors."""

    __pydantic_config__ = CLOSED
    encoder: Annotated[str, Strict(), Give(EVALUATED_ADVICE)] = ""
    """A name as `train.encoder` takes it."""
    pooler: Annotated[PlainPooler | None, Give(f"give one of {', '.join(get_args(PlainPooler))}", "unknown pooler")] = (
        None
    )
    vectors: Annotated[str, Strict(), Give(EVALUATED_ADVICE)] = ""
    """A file of the data folder's `vectors`, without its suffix."""

    @property
    def name(self) -> str:
        return self.vectors or self.encoder

    @property
    def key(self) -> tuple[str, str]:
        """Name and pooler, by which the ledger keeps its scores."""
        return self.name, self.pooler or "mean"


@dataclass(frozen=True, kw_only=True)
class Reference(PrintedRow):
    """The row of a model that is not trained here."""

    label: Text
    evaluated: Annotated[Evaluated | None, Give(EVALUATED_ADVICE)] = None
    """The same model of ours, which is scored without any training; None for one that we do not have."""
    reason: Text = ""
    """Why none of our methods trains it, where that does not go without saying."""

    @property
    def name(self) -> str:
        return self.label

    def as_dict(self) -> dict[str, object]:
        return {"label": self.label, **super().as_dict()}


@dataclass(frozen=True, kw_only=True)
class Average:
    """A column that is the mean of others."""

    __pydantic_config__ = CLOSED
    column: Text
    of: tuple[Text, ...]
    decimals: Count = 2
    """Decimals that the paper prints of it."""

    def readded(self, row: PrintedRow) -> float | None:
        """The mean of a row's printed values; None for a row without one of them."""
        values = [row.cells.get(name) for name in (self.column, *self.of)]
        numbers = [value for value in values if value is not None]
        return None if len(numbers) < len(values) else sum(numbers[1:]) / len(self.of)

    def agrees(self, printed: float, readded: float) -> bool:
        """Whether the printed value is the mean, rounded either way."""
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
    """A published table: rows have the shape of our own tables in JSON."""

    __pydantic_config__ = CLOSED
    citation: Text
    table: Text
    source: Text
    """Where the paper is to be had: its number in the ACL Anthology, on arXiv."""
    metric: Text
    notes: Text = ""
    finding: Text = ""
    """What a figure without numbers is said to show."""
    columns: Annotated[tuple[Text, ...], Give("give a list such as [sts_dev]")] = ()
    """Names of the results; one that no suite gives stands beside ours as the paper's alone."""
    best: Annotated[Literal["max", "min", "none"], Give("give one of max, min, none", "unknown value")] = "max"
    """Which value of a column is the best; none where the columns differ in that."""
    scores: Annotated[Mapping[str, Text], Give("give a mapping such as {avg: sts_average}")] = field(
        default_factory=dict
    )
    """Column -> the name under which the ledger keeps its scores; a column left out is its own."""
    unscored: Annotated[Mapping[str, Text], Give("give a mapping such as {COCO: why no suite scores it}")] = field(
        default_factory=dict
    )
    """Column that no suite of ours scores -> why."""
    rows: Annotated[tuple[PublishedRow, ...], Give("give a list of {key: {...}, cells: {...}}")] = ()
    """The cells' rows; empty for a figure without printed numbers."""
    references: Annotated[tuple[Reference, ...], Give("give a list of {label: ..., cells: {...}}")] = ()
    """Rows of models that are not trained here."""
    average: Annotated[Averages, Give("give {column: avg, of: [mr, cr], decimals: 2}")] = ()
    """One, or a list."""
    default: Annotated[Key | None, Give("give a key such as {method.dup_rate: 0.32}")] = None
    """The row of the paper's own setting: of an ablation what the others are compared with, of a search its winner."""

    def stored(self, column: str) -> str:
        """The name under which the ledger keeps a column's scores."""
        return self.scores.get(column, column)

    def suites_of(self, row: Reference, evaluate: Sequence[str]) -> dict[str, str]:
        """Column of the row -> the suite that scores it: of those that the table names, else the one that gives least.

        A column that no suite gives is left out.
        """
        suites = (*evaluate, *_sort_by_size())
        fitting = {c: [name for name in suites if self.stored(c) in registry.columns(name)] for c in row.cells}
        return {column: names[0] for column, names in fitting.items() if names}

    def misadded(self) -> Iterator[tuple[PrintedRow, str, float]]:
        """Every row with an average that its values do not give and that no `recomputed` explains: row, column, mean.

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
    """The block, and every problem of it."""
    rows = raw.get("references")
    listed = rows if isinstance(rows, list) else []
    wrong = [line for row in listed if isinstance(row, dict) for line in _check_evaluated(row)]
    if wrong:
        sound = [_drop_evaluated(row) for row in listed]
        return None, wrong + read(Paper, {**raw, "references": sound}, "paper.")[1]
    paper, problems = read(Paper, raw, "paper.")
    silent = [name for name in paper.columns if needs_direction(name)] if paper and "best" not in raw else []
    return paper, problems + [f"no direction: paper.columns={name}; give best: min, or best: max" for name in silent]


def _drop_evaluated(row: Any) -> Any:
    return {name: value for name, value in row.items() if name != "evaluated"} if isinstance(row, dict) else row


def _check_evaluated(row: Json) -> list[str]:
    if "evaluated" not in row:
        return []
    value, name = row["evaluated"], f"paper.references.evaluated of {brief(row.get('label'))}"
    if not isinstance(value, dict):
        return [Give(EVALUATED_ADVICE).line(name, value)]
    lines = read(Evaluated, value, "paper.references.evaluated.")[1]
    given = {field.name for field in fields(Evaluated) if value.get(field.name)}
    if lines or given in ({"encoder", "pooler"}, {"vectors"}):
        return [line.replace("=", f" of {brief(row.get('label'))}=", 1) for line in lines]
    return [f"no single model: {name}={brief(value)}; {EVALUATED_ADVICE}"]
