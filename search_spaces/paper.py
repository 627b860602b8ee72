"""A published table as data: its rows, those of models that are not trained here, and what its averages are over."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cse_train.fields import Scalar

Key = Mapping[str, Scalar]
ROUNDING = 1e-9
"""What binary fractions may add to half a unit of the last decimal."""


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One printed row: a cell's, by its key, or by a label that of a model that no cell trains."""

    cells: Mapping[str, float]
    """Column -> the number as printed; empty for a setting that is published without one."""
    key: Key | None = None
    label: str | None = None
    recomputed: Mapping[str, float] = field(default_factory=dict)
    """Column -> what the row's other numbers give, where the printed one is kept though it cannot be right."""

    @property
    def name(self) -> str:
        return self.label if self.label is not None else str(dict(self.key or {}))

    def as_dict(self) -> dict[str, Any]:
        """The row in the shape of the file."""
        named = {"label": self.label} if self.key is None else {"key": dict(self.key)}
        misprint = {"as_printed": True, "recomputed": dict(self.recomputed)} if self.recomputed else {}
        return {**named, "cells": dict(self.cells), **misprint}


@dataclass(frozen=True, kw_only=True)
class Average:
    """A column that is the mean of others."""

    column: str
    of: tuple[str, ...]
    decimals: int = 2
    """Decimals that the paper prints of it."""

    def readded(self, row: PublishedRow) -> float | None:
        """The mean of a row's printed values; None for a row without one of them."""
        values = [row.cells.get(name) for name in (self.column, *self.of)]
        known = [value for value in values if value is not None]
        return None if len(known) < len(values) else sum(known[1:]) / len(self.of)

    def agrees(self, printed: float, readded: float) -> bool:
        """Whether the printed value is the mean, rounded either way."""
        return abs(printed - readded) <= 0.5 * 10**-self.decimals + ROUNDING


@dataclass(frozen=True)
class Paper:
    """A published table: rows have the shape of our own tables in JSON."""

    citation: str
    table: str
    source: str
    """File name of the paper that the values were read from."""
    metric: str
    columns: tuple[str, ...] = ()
    """Names of the results; one that no suite gives stands beside ours as the paper's alone."""
    rows: tuple[PublishedRow, ...] = ()
    """The cells' rows; empty for a figure without printed numbers."""
    notes: str = ""
    scores: Mapping[str, str] = field(default_factory=dict)
    """Column -> the name under which the ledger keeps its scores; a column left out is its own."""
    references: tuple[PublishedRow, ...] = ()
    """Rows of models that are not trained here."""
    average: tuple[Average, ...] = ()
    best: Literal["max", "min", "none"] = "max"
    """Which value of a column is the best; none where the columns differ in that."""
    finding: str = ""
    """What a figure without numbers is said to show."""
    default: Key | None = None
    """The row of the paper's own setting: of an ablation what the others are compared with, of a search its winner."""

    def as_rows(self) -> list[dict[str, Any]]:
        return [row.as_dict() for row in self.rows]

    def misadded(self) -> Iterator[tuple[PublishedRow, str, float]]:
        """Every row with an average that its values do not give and that no `recomputed` explains: row, column, mean.

        A `recomputed` average must itself be the mean of the row.
        """
        for average in self.average:
            for row in (*self.rows, *self.references):
                mean = average.readded(row)
                told = row.recomputed.get(average.column, row.cells.get(average.column))
                if mean is not None and told is not None and not average.agrees(told, mean):
                    yield row, average.column, mean
