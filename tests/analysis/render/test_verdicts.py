"""Verdicts and orderings as a reader gets them."""

import itertools
import json
from collections.abc import Callable

import numpy as np
import pytest

from analysis.answers.judge import judge
from analysis.render.formats import render
from analysis.render.verdicts import order_said
from analysis.statistics.basics import mean_and_sd
from analysis.tables.aggregate import Row, Table
from analysis.tables.columns import Entry
from analysis.tables.ordering import Ordering, PairDifference, orderings
from analysis.tables.pair_cosines import ColumnCosines
from analysis.tables.spec import TableSpec


@pytest.fixture
def table() -> Table:
    values = {0.1: [60.0, 60.2, 59.8], 0.2: [61.0, 61.1, 60.9], 0.3: [62.0, 62.2, 61.9]}
    rows = [
        Row({"method.rate": rate}, {"dev": Entry(3, *mean_and_sd(own), 84 - rate, tuple(own), (0, 1, 2))})
        for rate, own in values.items()
    ]
    return Table(TableSpec(id="T", axes=["method.rate"], columns=["dev"]), rows, [], {}, [])


@pytest.fixture
def cosines() -> dict[str, ColumnCosines]:
    rng = np.random.default_rng(0)
    gold = rng.uniform(0, 5, 300)
    rows = {row: [gold + rng.normal(0, noise, 300)] for row, noise in enumerate((4.0, 0.5))}
    return {"dev": ColumnCosines(gold, rows, ("rows without kept cosines of dev: 1 of 3",))}


def test_markdown(table: Table, cosines: dict[str, ColumnCosines]) -> None:
    text = render(table, "md", judge(table, same_scale=False), orderings(table, cosines))
    lines = text.splitlines()
    (line,) = [line for line in lines if "| ✗ opposite direction | paper -0.1 " in line]
    assert line.startswith("| 0.2 ") and "ours +1.00, 97.5% interval +0.74 to +1.26 (3 seeds)" in line
    (order,) = [line for line in lines if line.startswith("- dev: undecided; tau -1.00")]
    assert order.endswith("interval -1.00 to -1.00 over seeds, 3 rows; a random order gets as far 33% of the time")
    assert "- dev: 3 seeds rank 3 rows alike with W 1.00 (1: every seed the same order; rows" in text
    assert "; over seeds, two rows correlate by rho 0.89" in text
    assert "- dev: 1 of 1 pairs of rows differ on resampled sentence pairs" in text
    assert "rate=0.1 below rate=0.2 by" in text
    assert lines[-1] == "- dev: not compared by sentence pairs: rows without kept cosines of dev: 1 of 3"


def test_the_fewer_pairs_are_named() -> None:
    """Of 10 rows, 44 of 45 pairs differ: the one that does not is named; of 1 of 45, that one; of many, the first."""
    couples = list(itertools.combinations(range(10), 2))

    def line(differ: Callable[[int], bool]) -> str:
        pairs = tuple(
            PairDifference(a, b, -1.5, (-2.0, -1.0), 0.01, 0.01 if differ(place) else 0.5)
            for place, (a, b) in enumerate(couples)
        )
        order = Ordering("dev", 10, 0.5, (0.1, 0.9), "ordering supported", "tau", pairs)
        return order_said(order, list("ABCDEFGHIJ"))[-1].partition("0.05)")[2]

    assert line(lambda place: place > 0) == ": not told apart: A and B"
    assert line(lambda place: place == 1) == ": A below C by 1.50 (p 0.01)"
    assert line(lambda place: True) == line(lambda place: False) == ""
    assert line(lambda place: place < 12).endswith("; A below I by 1.50 (p 0.01) and 4 more")


def test_json_holds_all_of_it(table: Table, cosines: dict[str, ColumnCosines]) -> None:
    found = json.loads(render(table, "json", judge(table, same_scale=False), orderings(table, cosines)))
    assert [one["word"] for one in found["verdicts"]] == ["reference", "opposite direction", "opposite direction"]
    assert found["verdicts"][1]["key"] == {"method.rate": 0.2}
    (order,) = found["ordering"]
    assert (order["word"], order["tau"], order["p"]) == ("undecided", -1.0, 2 / 6)
    assert order["agreement"] == {
        "w": 1.0,
        "p": pytest.approx(1 / 36, abs=0.01),
        "seeds": 3,
        "rows": 3,
        "rho": pytest.approx(0.886, abs=1e-3),
    }
    assert order["pairs"][0]["rows"] == [{"method.rate": 0.1}, {"method.rate": 0.2}]
    assert order["pairs"][0]["differs"] is True
    assert set(json.loads(render(table, "json"))) == set(found) - {"verdicts", "ordering"}


@pytest.mark.parametrize("form", ["tex", "html"])
def test_other_formats_count_the_words(table: Table, form: str) -> None:
    text = render(table, form, judge(table, same_scale=False), orderings(table, {}))  # type: ignore[arg-type]
    assert "dev: 1 reference, 2 opposite direction" in text and "dev: undecided; tau" in text
