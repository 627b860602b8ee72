"""Expected number of seeds of each row of a table when it is decided, for a plan's cost."""

import statistics
from collections.abc import Sequence

import numpy as np

from analysis.answers.judge import Terms
from analysis.statistics.needed import expect_seeds
from analysis.tables.aggregate import Table
from analysis.tables.columns import Entry
from analysis.tables.spec import identify

SEED_DEVIATION = 1.0
"""Assumed deviation between seeds, in points, of a row's difference from the reference row, used without measured
seeds: seeds of a point each, half of which rows share."""


def seeds_until_decided(table: Table, terms: Terms) -> tuple[list[float], bool]:
    """Returns the expected seeds of each row, by simulation of the looks at every published column, and whether
    measured seeds were used.

    A row gets what its slowest column needs. A column with rows of fewer than two measured seeds uses the paper's
    values.
    """
    assert terms.looks is not None
    seeds, used_measured = [float(terms.looks[0])] * len(table.rows), False
    default = table.spec.default
    default_key = None if default is None else identify({axis: default.get(axis) for axis in table.spec.axes})
    columns = [name for name in table.spec.columns if any(_are_printed(table, name))]
    for name in columns:
        places = [place for place, printed in enumerate(_are_printed(table, name)) if printed]
        entries = [table.rows[place].entries[name] for place in places]
        keys = [identify(table.rows[place].key) for place in places]
        reference = keys.index(default_key) if default_key in keys else 0  # the paper's default, else the first row
        deviation = _deviation(entries, reference)
        used_measured |= deviation is not None
        point = table.scale(name).point
        means = np.array([entry.published if deviation is None else entry.mean for entry in entries], dtype=float)
        seed_deviation = SEED_DEVIATION * (point or 1.0) if deviation is None else deviation
        expected = expect_seeds(means, reference, seed_deviation, terms.margin * point, len(columns), terms.looks)
        for place, count in zip(places, expected, strict=True):
            seeds[place] = max(seeds[place], float(count))
    return seeds, used_measured


def _are_printed(table: Table, column: str) -> list[bool]:
    return [row.entries[column].published is not None for row in table.rows]


def _deviation(entries: Sequence[Entry], reference: int) -> float | None:
    """Returns the deviation of differences from the reference between common seeds; None unless every row has two."""
    base = dict(zip(entries[reference].seeds, entries[reference].values, strict=True))
    variances = []
    for entry in (entry for place, entry in enumerate(entries) if place != reference):
        pairs = zip(entry.seeds, entry.values, strict=True)
        differences = [value - base[seed] for seed, value in pairs if seed in base]
        if len(differences) < 2:
            return None
        variances.append(statistics.variance(differences))
    return float(np.sqrt(statistics.mean(variances))) if variances else None
