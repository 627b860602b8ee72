"""A page of runs: filters, orders, cells, and the axes of figures."""

from typing import Any

import pytest

from analysis.progress.rows import ProgressRow
from cse.live_page.listing import PLOTTED, FilterError, Listing, figure, filter_rows, page


def run(n: int, state: str = "done", best: float | None = None, **cell: Any) -> ProgressRow:
    axes = {f"method.{name}": value for name, value in cell.items()}
    return ProgressRow("s", f"r{n}", axes, n % 2, state, "simcse", 64, 64, best)


ROWS = [
    run(0, best=50.0, rate=0.1, rule="paper"),
    run(1, best=52.0, rate=0.1, rule="paper"),
    run(2, best=60.0, rate=10.0, rule="released"),
    run(3, "failed", rate=10.0, rule="released"),
    run(4, "running", best=40.0, rate=1.0, rule=None),
    run(5, "unclaimed", rate=1.0, rule=None),
]


@pytest.fixture
def listing() -> Listing:
    return Listing(ROWS, {row.signature: f"rate={row.cell['method.rate']} seed {row.seed}" for row in ROWS})


def signatures(found: dict[str, Any]) -> list[str]:
    return [line["signature"] for line in found["page"]]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("", "r0 r1 r2 r3 r4 r5"),
        ("rate=0.1", "r0 r1"),
        ("method.rate=1e-1", "r0 r1"),
        ("rate!=0.1", "r2 r3 r4 r5"),
        ("rate>=1", "r2 r3 r4 r5"),
        ("rate<1", "r0 r1"),
        ("rate>1 state=done", "r2"),
        ("best>50", "r1 r2"),
        ("best<=50", "r0 r4"),
        ("rule:rel", "r2 r3"),
        ("rule=off", "r4 r5"),
        ("seed=1", "r1 r3 r5"),
        ("FAILED", "r3"),
        ("nothing-like-it", ""),
    ],
)
def test_filters(listing: Listing, words: str, left: str) -> None:
    assert [row.signature for row in filter_rows(listing, words)] == left.split()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("rat=1", "no such column: rat; there are rate, rule, seed, state, best, share, examples, method"),
        ("rate>much", "no number: rate>much; > compares numbers"),
    ],
)
def test_a_filter_that_is_none(listing: Listing, words: str, line: str) -> None:
    with pytest.raises(FilterError) as raised:
        page(listing, words=words)
    assert str(raised.value) == line


@pytest.mark.parametrize(
    ("sort", "down", "order"),
    [
        ("", False, "r4 r3 r2 r1 r0 r5"),
        ("rate", False, "r0 r1 r4 r5 r2 r3"),
        ("rate", True, "r2 r3 r4 r5 r0 r1"),
        ("best", True, "r2 r1 r0 r4 r3 r5"),
        ("best", False, "r4 r0 r1 r2 r3 r5"),
        ("rule", False, "r0 r1 r2 r3 r4 r5"),
        ("seed", False, "r0 r2 r4 r1 r3 r5"),
    ],
)
def test_orders_leave_what_has_nothing_there_at_the_end(listing: Listing, sort: str, down: bool, order: str) -> None:
    assert signatures(page(listing, sort=sort, down=down)) == order.split()


def test_cells_fold_their_seeds(listing: Listing) -> None:
    found = page(listing, folded=True)
    assert (found["lines"], found["runs"], found["all"]) == (3, 6, 6)
    best, second, third = found["page"]
    assert best["cell"] == {"method.rate": "10", "method.rule": "released"} and best["states"] == {
        "done": 1,
        "failed": 1,
    }
    assert (second["n"], second["best"], second["sd"]) == (2, 51.0, pytest.approx(2**0.5))
    assert [one["seed"] for one in second["runs"]] == [0, 1] and (third["n"], third["sd"]) == (1, None)


def test_pages_of_a_hundred_thousand_runs() -> None:
    rows = [run(n, best=float(n), rate=n) for n in range(100_000)]
    listing = Listing(rows, {row.signature: "" for row in rows})
    found = page(listing, sort="best", down=True, offset=99_950)
    assert (found["lines"], found["offset"], len(found["page"])) == (100_000, 99_900, 100)
    assert found["page"][-1]["best"] == 0.0
    assert page(listing, offset=10**9)["offset"] == 99_900, "beyond the end: the last page"
    assert len(figure(listing)["cells"]) == PLOTTED


def test_axes_of_a_figure(listing: Listing) -> None:
    found = figure(listing)
    rate, rule = found["axes"]
    assert [cell["best"] for cell in found["cells"]] == [60.0, 51.0, 40.0]
    assert (rate["name"], rate["log"], rate["words"], rate["values"]) == ("rate", True, [], [10.0, 0.1, 1.0])
    assert (rule["words"], rule["values"]) == (["off", "paper", "released"], [2, 1, 0])


def test_no_run_and_no_score() -> None:
    empty = Listing([], {})
    assert page(empty)["page"] == [] and figure(empty) == {"axes": [], "cells": []}
