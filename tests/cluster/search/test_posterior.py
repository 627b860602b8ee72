"""The posterior over cells: encoding, pooling, stopped runs, and a search that goes where scores are good."""

from pathlib import Path

import numpy as np
import pytest

from cluster.plan.match import known
from cluster.plan.signature import signature
from cluster.search.encoding import encoding_of
from cluster.search.posterior import Posterior, half_rank, pick
from cluster.search.search import make_search
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.profiles import Profile

AXES = """
  train.learning_rate: {loguniform: [1e-5, 1e-3]}
  method.dup_rule: {choice: [paper, released]}
  method.queue_multiple: {grid: [0, 1, 2.5]}
  method.momentum: {uniform: [0.9, 1.0], when: {method.queue_multiple: [1, 2.5]}}
"""
LINE = "\n  method.dup_rate: {grid: [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]}\n"
INPUTS = {"encoder": "e", "tokenizer": "t", "corpus": "c", "dev": "d"}


def sign(run):
    return signature(run, INPUTS)


@pytest.fixture
def space_of(tmp_path: Path):
    def made(axes=LINE, num_samples=20):
        text = f"version: 1\nid: T\nmethod: esimcse\nseeds: 1\nspace:{axes}"
        search = f"search: {{sampler: posterior, num_samples: {num_samples}, startup: 4}}\n"
        (tmp_path / "t.yaml").write_text(text + search)
        return resolve(load_space(tmp_path / "t.yaml"), Profile("p", {"train.examples": 640}))

    return made


def test_encoding_by_log_rank_and_one_hot_with_a_flag_for_a_condition(space_of):
    encode = encoding_of(space_of(AXES))
    key = {"train.learning_rate": 1e-4, "method.dup_rule": "released", "method.queue_multiple": 1.0}
    half = 0.5**0.5
    assert encode({**key, "method.momentum": 0.925}) == pytest.approx([0.5, 0, half, 0.5, 0.25, 1])
    assert encode({**key, "method.queue_multiple": 0.0}) == pytest.approx([0.5, 0, half, 0, 0.5, 0])


def test_half_rank_keeps_the_better_half_and_pulls_in_what_broke():
    values = np.array([-900.0, 48.0, 50.0, 51.0, 52.0])
    warped = half_rank(values)
    assert warped[2:].tolist() == [50, 51, 52]
    width = ((0 + 1 + 4) / 3) ** 0.5
    assert warped[0] == pytest.approx(50 + width * -1.2815515655446004)  # the normal's 0.1 quantile
    assert warped[0] < warped[1] < 50
    assert half_rank(np.array([7.0, 7.0])).tolist() == [7, 7]


def observed(resolved, rng, seeds, noise=1.0):
    """A parabola over dup_rate with its top of 60 at 0.4."""
    for cell in resolved.cells():
        top = 60 - 60 * (cell.key["method.dup_rate"] - 0.4) ** 2
        yield from (known(cell, seed, "done", top + rng.normal(0, noise), 640) for seed in range(seeds))


def test_pooled_means_are_nearer_the_truth_than_single_scores(space_of):
    resolved, pooled, single = space_of(), [], []
    cells = resolved.cells()
    truth = np.array([60 - 60 * (cell.key["method.dup_rate"] - 0.4) ** 2 for cell in cells])
    for repetition in range(8):
        seen = list(observed(resolved, np.random.default_rng(repetition), 1))
        mean, _ = Posterior(resolved).fitted(seen).at(cells)
        good = truth > 57  # the better half, which is not warped
        pooled.append(np.square(mean - truth)[good].mean())
        single.append(np.square([one.value for one in seen] - truth)[good].mean())
    assert np.mean(pooled) < 0.7 * np.mean(single)


def test_the_pick_is_by_mean_and_says_how_sure_it_is(space_of):
    resolved = space_of()
    seen = list(observed(resolved, np.random.default_rng(1), 3))
    lucky = known(resolved.cells()[9], 3, "done", 61.0, 640)
    found = pick(resolved, [*seen, lucky])
    assert abs(found.cell.key["method.dup_rate"] - 0.4) <= 0.11
    assert found.n == 3 and abs(found.mean - 60) < 1.5 and 0 < found.sd < 1.0
    assert pick(resolved, []) is None
    assert pick(resolved, [known(resolved.cells()[0], 0, "failed", None)]) is None


def test_one_run_is_enough_for_a_pick(space_of):
    resolved = space_of()
    found = pick(resolved, [known(resolved.cells()[3], 0, "done", 44.0, 640)])
    assert (found.cell, found.n) == (resolved.cells()[3], 1) and found.mean == pytest.approx(44.0)


def test_a_stopped_run_is_no_final_score(space_of):
    """Cells 0-4 were stopped at a quarter with the score that all cells have there; cells 5-9 ended 10 higher."""
    resolved = space_of()
    cells = resolved.cells()
    rng = np.random.default_rng(0)
    stopped = [known(cell, 0, "stopped", 40 + rng.normal(0, 0.3), 160) for cell in cells[:5]]
    done = [known(cell, 0, "done", 50 + rng.normal(0, 0.3), 640) for cell in cells[5:]]
    mean, covariance = Posterior(resolved).fitted([*stopped, *done]).at([cells[0], cells[7]])
    assert mean[0] > 41, "above what it was stopped at"
    assert covariance[0, 0] > covariance[1, 1], "and less certain than a finished one"
    assert pick(resolved, [*stopped, *done]).cell.id in {cell.id for cell in cells[5:]}


def drain(search, score):
    cells = []
    while (cell := search.propose()) is not None:
        cells.append(cell)
        search.observe(cell, 0, *score(cell))
    return cells


def test_it_goes_where_scores_are_good_with_failed_and_stopped_runs_among_them(space_of):
    resolved = space_of("\n  method.dup_rate: {uniform: [0.0, 0.9]}\n", num_samples=16)
    ended = []

    def score(cell):
        rate = cell.key["method.dup_rate"]
        value = 60 - 60 * (rate - 0.3) ** 2
        state = "failed" if rate > 0.8 else "stopped" if value < 55 else "done"
        ended.append(state)
        return None if state == "failed" else value - 5 * (state == "stopped"), state, 640 if state == "done" else 128

    cells = drain(make_search(resolved, [], sign), score)
    late = [abs(cell.key["method.dup_rate"] - 0.3) for cell in cells[8:]]
    assert len(cells) == 16 and np.mean(late) < 0.15, "random draws lie 0.25 away"


def test_a_finite_space_ends_and_a_new_start_goes_on_from_the_ledger(space_of):
    resolved = space_of(num_samples=100)
    cells = drain(make_search(resolved, [], sign), lambda cell: (50.0, "done", 640))
    assert len({cell.id for cell in cells}) == 10
    search = make_search(resolved, [], sign)
    search.recall([known(cell, 0, "done", 50.0, 640) for cell in resolved.cells()[:6]])
    assert len(drain(search, lambda cell: (50.0, "done", 640))) == 4
