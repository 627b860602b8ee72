"""What a pick costs: the share of the grid that ours needs, prices, and Ray Tune's trials on the same cells."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from benchmarks.decision import tune
from benchmarks.decision.picks import GRID, SHARE, picks, price, report, space_of
from benchmarks.decision.tune import axes, cell_of
from benchmarks.search.__main__ import Outcome
from benchmarks.search.record_grid import CURVES, read
from benchmarks.search.replay import grid_of
from benchmarks.sweep.rows import Results, Row, Side
from benchmarks.sweep.sides import Bench
from cse_train.data_paths import DataPaths

PRICES = {"released": 8.0, "tune": 8.0, "ours": 2.0}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    resolved = space_of(grid_of(read(CURVES / f"{GRID}.json.gz")).resolved)
    return Bench(resolved, Results(tmp_path / "rows.jsonl"), DataPaths(), [], [])


def outcome(even: float, odd: float) -> Outcome:
    """Regrets of even and odd repetitions."""
    return Outcome(np.array([even, odd] * 10), np.zeros(20), 0.0)


def row(bench: Bench, side: Side, place: int, state: str, scores: list[float]) -> Row:
    return Row(side, dict(bench.resolved.cells()[place].key), 0, state, scores, 3.0, 1.0, 1.0)


def test_ours_is_the_smallest_share_that_is_as_good_and_is_judged_by_draws_that_did_not_choose_it() -> None:
    ours = {0.05: outcome(4.0, 0.0), 0.1: outcome(2.0, 3.0), 0.2: outcome(1.0, 1.0)}
    pairs = picks({"released": {1.0: outcome(2.0, 2.0)}, "tune": {0.2: outcome(3.0, 2.0)}, "ours": ours}, PRICES, 1e4)
    theirs, mine = pairs["released"]
    assert (theirs.share, theirs.seconds, mine.share, mine.seconds) == (1.0, 80.0, 0.1, 2.0)
    assert set(mine.regret) == {3.0} and set(theirs.regret) == {2.0}
    first, second, third, fourth = report(pairs, PRICES)[2:]
    assert first == "| released | 100.0% | 8.00 | 2.00 |  | 80 | 40.0 (bar 10) MISSED |"  # dearer picks: 3 against 2
    assert second == "| ours | 10.0% | 2.00 | 3.00 | +1.00 [+1.00, +1.00] | 2 | 1 |"
    assert third == "| tune | 20.0% | 8.00 | 2.00 |  | 16 | 8.0 (bar 5) MISSED |"
    assert fourth.startswith("| ours | 10.0%")
    none = picks({"released": {1.0: outcome(0.5, 1.0)}, "tune": {0.2: outcome(3.0, 3.0)}, "ours": ours}, PRICES, 1e4)
    assert none["released"][1].share == 0.2
    assert report(none, PRICES)[4].endswith("| 16 | 8.0 (bar 5) held |")


def test_an_example_costs_what_all_runs_and_proposals_cost(bench: Bench) -> None:
    bench.results.add(row(bench, "ours", 0, "done", [1.0] * 10))
    bench.results.add(row(bench, "ours", 1, "stopped", [1.0] * 2))
    bench.search_s = 1.0
    assert price(bench, "ours") == pytest.approx(1000 * 9.0 / (3200 * 1.2))


def test_tune_gets_every_axis_and_its_trials_are_cells(bench: Bench) -> None:
    grid = axes(bench.resolved)
    assert list(grid) == list(bench.resolved.cells()[0].key)
    cells = {
        cell_of(dict(zip(grid, values, strict=True)), bench.resolved).id for values in itertools.product(*grid.values())
    }
    assert cells == {cell.id for cell in bench.resolved.cells()}


def test_trials_of_tune_are_made_once_and_pay_for_their_driver(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    count = round(SHARE * len(bench.resolved.cells()))
    best = [5.0, 9.0, 7.0, *[1.0] * (count - 3)]
    made = [row(bench, "tune", i, "stopped" if i == 1 else "done", [score]) for i, score in enumerate(best)]
    monkeypatch.setattr(tune, "_tuned", lambda bench, samples: made)
    rows = list(tune.search(bench))
    assert len(rows) == count and all(one.step_s > 3.0 for one in rows)
    assert bench.picks["tune"].id == bench.resolved.cells()[2].id
    monkeypatch.setattr(tune, "_tuned", lambda bench, samples: pytest.fail("trained again"))
    assert list(tune.search(Bench(bench.resolved, Results(bench.results.file), bench.paths, [], []))) == rows
