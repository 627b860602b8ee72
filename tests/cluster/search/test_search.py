"""Searches: the ledger is the only truth, no cell twice, a finite space ends."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from optuna.trial import TrialState

from analysis.ledger import Ledger
from analysis.matching import RunMatcher, make_observation
from analysis.run_state import RunState
from cluster.plan.plan import PlannedRun
from cluster.search.optuna_studies import OptunaSampler
from cluster.search.samplers import Sampler, Unvisited
from cluster.search.search import MAX_SUGGESTIONS, Search, SearchSource, make_search
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.identity.signature import signature
from search_spaces.profiles import Profile

EIGHT = """
  method.dup_rate: {choice: [0.1, 0.2, 0.3, 0.4]}
  method.dup_rule: {choice: [paper, released]}
"""
ENDLESS = """
  train.learning_rate: {loguniform: [1e-5, 1e-2]}
  method.queue_multiple: {grid: [0, 1, 2]}
  method.momentum: {uniform: [0.9, 0.999], when: {method.queue_multiple: [1, 2]}}
"""
SAMPLERS = ("grid", "random", "tpe", "gp")
INPUTS = {"encoder": "e", "tokenizer": "t", "corpus": "c", "dev": "d"}


def sign(run):
    return signature(run, INPUTS)


@dataclasses.dataclass
class Row:
    signature: str
    state: RunState
    seed: int
    config: dict
    best: float | None = None
    live: bool = False
    method: str = "esimcse"
    examples: int | None = 64
    best_examples: int | None = 64
    identity: dict = dataclasses.field(default_factory=dict)
    seconds: float | None = None


def search_of(resolved, rows, **more):
    return make_search(resolved, rows, RunMatcher(resolved, sign), **more)


def row(cell, seed, state="done", best=None, **more):
    run = cell.run(seed)
    return Row(sign(run), RunState(state), seed, run.flat(), best, **more)


@pytest.fixture
def space_of(tmp_path: Path):
    def made(axes=EIGHT, sampler="tpe", num_samples=100, seeds=1):
        text = f"version: 1\nid: T\nmethod: esimcse\nseeds: {seeds}\nspace:{axes}"
        (tmp_path / "t.yaml").write_text(
            text + f"search: {{sampler: {sampler}, num_samples: {num_samples}, startup: 6}}\n"
        )
        return resolve(load_space(tmp_path / "t.yaml"), Profile("p", {"train.examples": 64}))

    return made


def score(cell, seed=0):
    return 80 - 100 * abs(cell.key.get("method.dup_rate", 0.3) - 0.3) + 0.1 * seed


def drain(search, seeds=(0,), limit=200):
    """Run a search to its end."""
    cells = []
    while (cell := search.propose()) is not None and len(cells) < limit:
        cells.append(cell)
        for seed in seeds:
            search.observe(cell, seed, score(cell, seed))
    return cells


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_eight_cells_end_after_eight_of_a_hundred(space_of, sampler):
    cells = drain(search_of(space_of(sampler=sampler), []))
    assert len(cells) == 8 == len({cell.id for cell in cells})


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_an_endless_space_ends_after_num_samples(space_of, sampler):
    resolved = space_of(ENDLESS, sampler, num_samples=15)
    cells = drain(search_of(resolved, []))
    assert len({cell.id for cell in cells}) == 15
    assert all(resolved.contains(cell.key) for cell in cells)
    assert any("method.momentum" not in cell.key for cell in cells), "conditional axes switch off"


@pytest.mark.parametrize(("sampler", "num_samples"), [("tpe", 30), ("gp", 12)])
def test_model_based_samplers_go_where_scores_are_good(space_of, sampler, num_samples):
    axes = "\n  method.dup_rate: {uniform: [0.0, 0.9]}\n"
    cells = drain(search_of(space_of(axes, sampler, num_samples), []))
    late = [abs(cell.key["method.dup_rate"] - 0.3) for cell in cells[num_samples // 2 :]]
    assert sum(late) / len(late) < 0.17, "random draws lie 0.25 away"


@pytest.mark.parametrize("sampler", ["grid", "random", "tpe"])
def test_a_new_start_continues_where_the_ledger_stands(space_of, sampler):
    """kill -9 between the ledger's commit and the tell: the row is there, so the cell is neither lost nor run again."""
    resolved = space_of(sampler=sampler)
    search = search_of(resolved, [])
    ran = [search.propose() for _ in range(3)]
    rows = [row(cell, 0, best=score(cell)) for cell in ran]
    again = search_of(resolved, rows)
    assert again.visited == 3
    assert {c.id for c in drain(again)}.isdisjoint({c.id for c in ran})
    assert again.visited == 8


def test_kill_between_commit_and_tell_with_a_real_ledger(space_of, tmp_path):
    resolved = space_of(seeds=2)
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    ran = search_of(resolved, ledger.runs(), seeds=(0, 1)).propose()
    run = ran.run(0)
    claim = ledger.claim(sign(run), run.flat(), method=run.method, seed=0, owner="dead", identity=INPUTS, provenance={})
    ledger.running(claim)
    ledger.finish(claim, "done", examples=64, best=77.5, best_examples=32, seconds=1.0, folder=str(tmp_path))
    again = search_of(resolved, ledger.runs(), seeds=(0, 1))
    assert [(t.state, t.value) for t in again._sampler._study.trials] == [(TrialState.COMPLETE, 77.5)]
    assert again.propose().id == ran.id, "its second seed is still wanted"
    again.observe(ran, 0, 77.5)
    assert len(again._sampler._study.trials) == 1
    assert again.propose().id != ran.id


def test_a_source_tells_the_search_how_a_run_ended(space_of):
    search = search_of(space_of(num_samples=1), [])

    def runs_for(cell):
        run = cell.run(0)
        return [PlannedRun(sign(run), run, INPUTS, dict(cell.key), 0, "T")]

    source = SearchSource(search, runs_for)
    source.observe(source.ask(), RunState.STOPPED, 60.0, 32)
    assert [(t.state, t.intermediate_values) for t in search._sampler._study.trials] == [
        (TrialState.PRUNED, {32: 60.0})
    ]
    assert source.ask() is None and source.exhausted()


def test_num_samples_counts_what_the_ledger_has(space_of):
    resolved = space_of(num_samples=5)
    rows = [row(cell, 0, best=1.0) for cell in resolved.cells()[:3]]
    assert len(drain(search_of(resolved, rows))) == 2


def test_rows_of_other_settings_are_not_this_space(space_of):
    resolved = space_of()
    cell = resolved.cells()[0]
    other = dataclasses.replace(cell, settings={**cell.settings, "train.examples": 128})
    wrong_signature = dataclasses.replace(row(cell, 0, best=1.0), signature="0" * 24)
    outside = dataclasses.replace(cell, settings={**cell.settings, "method.dup_rate": 0.77})
    rows = [row(other, 0, best=1.0), wrong_signature, row(outside, 0, best=1.0), row(cell, 5, best=2.0)]
    observations = RunMatcher(resolved, sign).observations(rows)
    assert [(seen.cell.id, seen.seed, seen.value) for seen in observations] == [(cell.id, 5, 2.0)]


def test_half_finished_cells_come_first_and_cells_held_elsewhere_last(space_of):
    resolved = space_of(seeds=2)
    half, lost, held, done = resolved.cells()[:4]
    rows = [
        row(half, 0, best=80.0), row(lost, 0, "lost"), row(held, 0, "running", live=True),
        row(done, 0, best=70.0), row(done, 1, "failed"),
    ]  # fmt: skip
    proposed = [cell.id for cell in drain(search_of(resolved, rows), seeds=(0, 1))]
    assert proposed[:2] == [half.id, lost.id]
    assert proposed[-1] == held.id
    assert done.id not in proposed and len(proposed) == 7


def test_a_repeated_suggestion_is_told_and_asked_at_most_twenty_times(space_of):
    resolved = space_of()
    first = resolved.cells()[0]

    class Stubborn(Sampler):
        def __init__(self):
            self.repeats = []

        def suggest(self):
            return first

        def repeat(self, cell, value):
            self.repeats.append(value)

    sampler = Stubborn()
    search = Search(sampler, Unvisited(resolved, np.random.default_rng(0)), (0, 1), 100)
    assert search.propose() == first
    search.observe(first, 0, 80.0)
    search.observe(first, 1, 82.0)
    assert search.propose() != first
    assert sampler.repeats == [81.0] * MAX_SUGGESTIONS
    assert len(drain(search)) == 6


def test_each_seed_is_an_observation_and_saying_it_twice_changes_nothing(space_of):
    resolved = space_of(seeds=3)
    search = search_of(resolved, [])
    cell = search.propose()
    sampler: OptunaSampler = search._sampler
    assert [t.state for t in sampler._study.trials] == [TrialState.RUNNING]
    for _ in range(2):
        search.observe(cell, 0, 80.0)
        search.observe(cell, 1, 61.5, RunState.STOPPED, examples=32)
        search.observe(cell, 2, math.nan)
    states = [t.state for t in sampler._study.trials]
    assert states == [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL]
    assert sampler._study.trials[0].value == 80.0
    assert sampler._study.trials[1].intermediate_values == {32: 61.5}
    assert len({str(t.params) for t in sampler._study.trials}) == 1


def test_study_from_the_ledger_equals_the_study_that_was_lost(space_of):
    resolved = space_of(ENDLESS, num_samples=6)
    live = search_of(resolved, [])
    rows = []
    for word, best in (("done", 80.0), ("stopped", 60.0), ("failed", None), ("done", 81.0)):
        state = RunState(word)
        cell = live.propose()
        live.observe(cell, 0, best, state, examples=64)
        rows.append(row(cell, 0, state, best))
    rebuilt = search_of(resolved, rows)

    def told(search):
        return [(t.state, t.values, t.intermediate_values, t.params) for t in search._sampler._study.trials]

    assert told(rebuilt) == told(live)


def test_cells_of_other_drivers_enter_as_running(space_of):
    resolved = space_of()
    held = resolved.cells()[2]
    search = search_of(resolved, [row(held, 0, "claimed", live=True)])
    assert [t.state for t in search._sampler._study.trials] == [TrialState.RUNNING]
    search.observe(held, 0, 77.0)
    assert [(t.state, t.value) for t in search._sampler._study.trials] == [(TrialState.COMPLETE, 77.0)]


def test_scores_that_are_not_finite_are_failures(space_of):
    cell = space_of().cells()[0]
    assert make_observation(cell, 0, RunState.DONE, math.inf).state == "failed"
    assert make_observation(cell, 0, RunState.STOPPED, None).state == "failed"
    assert make_observation(cell, 0, RunState.FAILED, 3.0).state == "failed"


@pytest.mark.parametrize("state", [RunState.DONE, RunState.RUNNING])
def test_two_drivers_visit_as_many_cells_together_as_one_search_asks_for(space_of, state, monkeypatch):
    monkeypatch.setattr("cluster.search.search.FEED_POLL_SECONDS", 0.0)
    resolved = space_of("\n  train.learning_rate: {loguniform: [1e-5, 1e-2]}\n", "random", num_samples=6)
    rows: list[Row] = []

    def driver(seed: int) -> Search:
        search = search_of(resolved, rows, seeds=(0,), recorded=lambda: rows)
        search._sampler._rng = np.random.default_rng(seed)
        return search

    def begin(driver: Search) -> str | None:
        cell = driver.propose()
        if cell is not None and sign(cell.run(0)) not in {row.signature for row in rows}:
            best = 1.0 if state == RunState.DONE else None
            rows.append(row(cell, 0, state, best, live=state.is_held, seconds=1.0))
        return cell.id if cell else None

    first, second = driver(1), driver(2)
    visited = [begin(one) for _ in range(3) for one in (first, second)]
    assert len(set(visited)) == 6
    left = [cell for one in (first, second) for _ in range(6) if (cell := begin(one))]
    assert set(left) <= set(visited), "what another driver holds is waited for, nothing new is begun"
    assert len(rows) == 6
    assert (left == []) == (state == "done")
