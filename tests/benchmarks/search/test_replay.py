"""The replay of recorded runs, and strategies that know the surface."""

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.ledger import Ledger, LedgerError
from analysis.sweep_spec import SweepSpec
from benchmarks.search.__main__ import removed
from benchmarks.search.oracle import Belief, Surface, oracles, ranks
from benchmarks.search.record_grid import CURVES, read, recorded, write
from benchmarks.search.replay import Replay, Rungs, grid_of, synthetic
from benchmarks.search.seeds import decided, seed_effect
from benchmarks.search.strategies import STRATEGIES
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.run_values import claim_run, point_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "results" / "search.json"


@pytest.fixture(scope="module")
def grid():
    return synthetic(np.random.default_rng(0))


def test_a_run_costs_its_examples_and_the_truth_leaves_it_out(grid):
    replay = Replay(grid, 7000, np.random.default_rng(0))
    cell = grid.cells[3]
    first = replay.run(cell)
    assert (first.state, first.examples, replay.affords) == ("done", 3200, True)
    assert first.value in grid.finals[3]
    truth, count = replay.truth()
    assert truth[3] == pytest.approx((grid.finals[3].sum() - first.value) / 4)
    assert truth[4] == pytest.approx(grid.finals[4].mean()) and count[3] == 4
    stopped = replay.run(cell, lambda number, value: number == 2)
    assert (stopped.state, stopped.examples, replay.affords) == ("stopped", 640, False)  # 3160 left


def test_one_seed_of_each_cell_is_never_handed_out(grid):
    replay = Replay(grid, np.inf, np.random.default_rng(0))
    for _ in range(4):
        assert replay.has(grid.cells[0])
        replay.run(grid.cells[0])
    assert not replay.has(grid.cells[0])


def test_the_best_cell_has_no_regret(grid):
    replay = Replay(grid, 3200, np.random.default_rng(0))
    assert replay.regret(grid.cells[grid.best]) == (0.0, True)
    worst = int(np.argmin(grid.finals.mean(axis=1)))
    lost, hit = replay.regret(grid.cells[worst])
    assert lost > 10 and not hit


def test_rungs_stop_what_is_below_the_top_third_of_those_before():
    rungs = Rungs(10)
    assert [rungs(2, value) for value in (50.0, 49.0, 51.0, 50.2)] == [False, True, False, True]
    # cut-offs: none, 50, then the 2/3 quantiles of (50, 49) = 49.67 and of (50, 49, 51) = 50.33
    assert rungs(3, 0.0) is False
    assert rungs(6, 40.0) is False and rungs(6, 39.0) is True


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_every_strategy_keeps_its_budget(grid, name):
    replay = Replay(grid, 6 * 3200, np.random.default_rng(1))
    picked = STRATEGIES[name](replay, np.random.default_rng(2))
    assert picked.id in {cell.id for cell in grid.cells}
    assert 0 <= replay.left < 3200


def test_what_cells_share_through_a_seed():
    assert seed_effect(np.array([[1.0, 2, 3, 4, 5], [11, 12, 13, 14, 15]])) == pytest.approx(1.0)
    noise = np.random.default_rng(0).normal(size=(400, 5))
    assert abs(seed_effect(noise)) < 0.05


def test_pairing_by_seed_tells_more_apart_only_where_seeds_move_all_cells_alike():
    rng = np.random.default_rng(0)
    cells, common, own = np.arange(20.0)[:, None], rng.normal(0, 5, 5), rng.normal(0, 0.5, (20, 5))
    welch, paired = decided(cells + common + own, rng, 400)
    assert paired > welch + 0.2
    welch, paired = decided(cells + 10 * own, rng, 400)
    assert welch > paired


def ledger_with(folder, cells, seeds):
    resolved = resolve(
        load_space("recorded_grid"),
    )
    ledger = Ledger.open(folder / "grid.db")
    ledger.record_sweep("recorded_grid", SweepSpec({}))
    for number, cell in enumerate(cells(resolved)):
        for seed in range(seeds):
            run, name = cell.run(seed), f"{number}-{seed}"
            claim = claim_run(ledger, name, run.flat(), seed=seed, provenance={"commit": "abc"})
            score = 40.0 + seed
            points = [point_of(at, score, metrics={"sts_dev": score - (at == 640)}) for at in (320, 640)]
            ledger.add_points(claim, points)
            ledger.finish(claim, "done", examples=640, best=score, best_examples=320, seconds=2.0, folder=None)
            ledger.link("recorded_grid", [(name, dict(cell.key), seed)])
    return resolved, ledger


def test_a_partial_recording_says_so_and_replays_what_is_complete(tmp_path):
    def some(resolved):
        return [cell for cell in resolved.cells() if cell.key["method.dup_rate"] <= 0.08][:-1]

    resolved, ledger = ledger_with(tmp_path, some, 5)
    found = recorded(resolved, ledger)
    assert (found["complete"], len(found["runs"]), found["runs_wanted"]) == (False, 41 * 5, 420)
    assert found["commits"] == ["abc"] and found["protocol"]["train.examples"] == 3200
    assert found["runs"][0]["scores"] == [40.0, 39.0] and found["runs"][0]["signature"] == "0-0"
    write(found, tmp_path / "curves" / "grid.json.gz")
    grid = grid_of(read(tmp_path / "curves" / "grid.json.gz"))
    assert len(grid.cells) == 21, "the second dup_rate lacks a cell"
    assert grid.curves[0, 2].tolist() == [42, 42]
    with pytest.raises(LedgerError, match="no finished run: sweep=recorded_grid"):
        recorded(resolved, Ledger.open(tmp_path / "empty.db"))


@pytest.mark.parametrize("file", sorted(CURVES.glob("*.json.gz")), ids=lambda file: file.name)
def test_each_recording_is_whole_and_lies_where_it_is_read(file):
    recording = read(file)
    grid = grid_of(recording)
    assert recording["complete"] and len(grid.cells) == len(resolve(load_space(recording["space"])).cells())


def test_the_page_keeps_what_was_measured_and_removed():
    earlier = json.loads(PAGE.read_text(encoding="utf-8"))["removed"]
    text = "\n".join(removed(earlier))
    assert "| posterior | 2.82 [2.52, 3.15] | 0.87 [0.73, 1.04] |" in text
    assert "the difference is +0.0001 [-0.0003, 0.0006]" in text
    assert text in PAGE.with_suffix(".md").read_text(encoding="utf-8")
    assert removed({}) == []


TWO = Surface(
    mean=10.0,
    cover=np.array([[4.0, 2.0], [2.0, 4.0]]),
    lines=np.array([[2.0, 1.0], [1.0, 0.0]]),
    bias=np.array([3.0, 0.0]),
    bias_cover=np.eye(2),
    noise=np.full((2, 2), 4.0),
)


def test_a_belief_by_hand():
    belief = Belief(TWO, TWO.noise)
    mean, cover = belief.after([])
    assert mean.tolist() == [10.0, 10.0] and cover.tolist() == TWO.cover.tolist()
    mean, cover = belief.after([(0, 2, 14.0)])
    assert mean == pytest.approx([12.0, 11.0]) and np.diag(cover) == pytest.approx([2.0, 3.5])
    mean, cover = belief.after([(0, 1, 6.5)])  # 14 on the scale of final scores, with a bias of deviation 3
    assert mean == pytest.approx([10 + 16 / 17, 10 + 8 / 17]) and cover[0, 0] == pytest.approx(4 - 16 / 17)


def test_cells_are_told_apart_by_the_rank_of_each_value():
    grid = synthetic(np.random.default_rng(0))
    places = ranks(grid)
    assert places.shape == (84, 3) and places.min() == 0 and places.max() == 1
    assert grid.cells[1].key["train.learning_rate"] == 3e-4 and places[1].tolist() == [0, 0, pytest.approx(1 / 6)]


def test_an_oracle_pays_as_the_others_do():
    grid = synthetic(np.random.default_rng(0))
    replay = Replay(grid, 8 * 3200, np.random.default_rng(1))
    picked = oracles(grid)["oracle: kernel, noise, early scores"](replay, np.random.default_rng(2))
    left, _ = replay.truth()
    assert not replay.affords and np.isfinite(left).all()
    assert replay.regret(picked)[0] < np.median(grid.finals.max() - grid.finals.mean(axis=1))
