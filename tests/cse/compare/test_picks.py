"""A candidate that a sweep's scores were there to choose shares the level with the cells that it was chosen from."""

import numpy as np
import pytest

from analysis.answers.judge import Sides, Terms, judge_models
from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from analysis.tables.columns import entry_of
from tests.commands import printed
from tests.cse.compare.models import A, B, Capture, Names, book, cell, facts

RATES = (0.2, 0.28, 0.32)


def link(ledger: Ledger, sweep: str, rates: tuple[float, ...], **spec: object) -> None:
    ledger.record_sweep(sweep, SweepSpec({**ledger.sweep_spec("E7").stored, **spec}))
    for run in ledger.runs():
        if (rate := run.config["method.dup_rate"]) in rates:
            ledger.link(sweep, [(run.signature, cell(float(str(rate))).key, run.seed)])


def test_a_pick_of_four_has_a_fourth_of_the_level(capsys: Capture, two: Names, ledger: Ledger) -> None:
    """Differences 2, 3, 4: half is 2.484 at 5%, and 5.115 at 1.25%, where Student's t is 8.860."""
    for rate in RATES:
        book(ledger, rate, [60.0, 61.5, 62.5])
    assert facts(capsys, "gate", A, "--against", B)["picked_of"] is None
    link(ledger, "search", (0.24, *RATES))
    made = facts(capsys, "gate", A, "--against", B, code=4)
    assert (made["verdict"], made["picked_of"]) == ("more-seeds", {"sweep": "search", "cells": 4})
    (column,) = made["columns"]
    assert column["level"] == pytest.approx(0.0125) and column["interval"][0] == pytest.approx(3 - 5.1154, abs=1e-3)
    last = printed(capsys, "gate", A, "--against", B, code=4).splitlines()[-1]
    shared = "the candidate was picked of 4 cells of sweep search, which share the level: 0.0125; cse confirm search"
    assert last == f"{shared} asks at the full level, by seeds that took no part in the choice"
    compared = facts(capsys, "compare", B, A, "--column", "sts_dev")
    assert compared["picked_of"] == made["picked_of"] and compared["columns"][0]["level"] == pytest.approx(0.0125)
    assert "B was picked of 4 cells of sweep search" in printed(capsys, "compare", B, A)


def test_what_the_pick_is_compared_with_is_no_other_choice(capsys: Capture, two: Names, ledger: Ledger) -> None:
    """Of the pick and its reference alone none was chosen; the largest sweep counts; a confirmation never does."""
    book(ledger, 0.2, [60.0, 61.5, 62.5])
    link(ledger, "pair", (0.24, 0.08))
    assert facts(capsys, "gate", A, "--against", B)["picked_of"] is None
    link(ledger, "three", (0.24, 0.08, 0.2))
    assert facts(capsys, "gate", A, "--against", B, code=4)["picked_of"] == {"sweep": "three", "cells": 2}


@pytest.mark.slow
@pytest.mark.parametrize("cells", [4, 10, 20, 40])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_pick_of_equal_cells_is_rarely_better(cells: int, seeds: int) -> None:
    """2,000 sweeps of equal cells, deviation 0.84: `better` in at most 5%, where the whole level gives 6.5 to 24%."""
    generator = np.random.default_rng(cells * 100 + seeds)
    wins = plain = 0
    for _ in range(2000):
        rows = 70 + 0.84 * generator.normal(size=(cells + 1, seeds))
        best = rows[1:][rows[1:].mean(axis=1).argmax()]
        sides = {"x": Sides(entry_of(dict(enumerate(best))), entry_of(dict(enumerate(rows[0]))))}
        wins += judge_models(sides, Terms(family=0.05 / cells))["x"].word == "better"
        plain += judge_models(sides, Terms())["x"].word == "better"
    assert wins / 2000 <= 0.05 < plain / 2000
