"""Four drivers of one search on one ledger: one budget, one study, one ladder of rungs."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from analysis.ledger import Ledger
from analysis.matching import RunMatcher
from cluster.plan.plan import PlannedRun
from cluster.runtime.options import AshaOptions, SweepOptions
from cluster.search.budget import Account, BudgetSource, parse_budgets, whole_length
from cluster.search.search import Feed, ScoreFeed, Search, SearchSource, make_search
from cluster.sweep.dispatcher import Dispatcher
from cluster.sweep.tune import SharedAsha
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import Cell, ResolvedSpace, resolve
from search_spaces.identity.signature import signature
from search_spaces.profiles import Profile
from tests.cluster.jobs import slot_result
from tests.run_values import outcome_of, point_of

SPACE = """version: 1
id: T
method: simcse
seeds: 1
space:
  train.learning_rate: {loguniform: [1e-5, 1e-2]}
  method.temperature: {uniform: [0.02, 0.2]}
search: {sampler: tpe, num_samples: 200, startup: 8, scheduler: asha}
"""
EXAMPLES = 81
INPUTS = {"encoder": "e", "tokenizer": "t", "corpus": "c", "dev": "d"}
BUDGET, DRIVERS = 40, 4
ASHA = AshaOptions(grace_examples=9, max_examples=EXAMPLES)


def sign(run) -> str:
    return signature(run, INPUTS)


@pytest.fixture
def resolved(tmp_path: Path) -> ResolvedSpace:
    (tmp_path / "t.yaml").write_text(SPACE, encoding="utf8")
    return resolve(load_space(tmp_path / "t.yaml"), Profile("p", {"train.examples": EXAMPLES}))


class Driver:
    """One driver with a slot: its own connection, search, budget, ladder and dispatcher; only training is left out."""

    def __init__(self, folder: Path, resolved: ResolvedSpace, name: str) -> None:
        self.ledger = Ledger.open(folder / "ledger.db")
        every, at = self.ledger.changed(None)
        matcher = RunMatcher(resolved, sign)
        rows = [row for row in every if matcher.cells(row)]
        self.search: Search = make_search(
            resolved, rows, matcher, seeds=(0,), recorded=Feed(self.ledger, matcher, at).rows
        )
        scores = ScoreFeed(self.ledger, Feed(self.ledger, matcher, at), rows)
        source = SearchSource(self.search, self._runs, scores.points)
        (budget,) = parse_budgets([f"{BUDGET}runs"], ["simcse"])
        account = Account(budget, ["simcse"], rows, lambda row: whole_length(matcher, row))
        self.source = BudgetSource(source, [account], ["simcse"], Feed(self.ledger, matcher, at).rows)
        self.dispatcher = Dispatcher(
            self.source, self.ledger, DataPaths(), SweepOptions(storage=folder), name, {}, lambda event: None
        )
        self.asha = SharedAsha(ASHA, self.source.points)
        self.trained = 0

    @staticmethod
    def _runs(cell: Cell) -> list[PlannedRun]:
        run = cell.run(0)
        return [PlannedRun(sign(run), run, INPUTS, dict(cell.key), 0, "T")]

    def work(self) -> None:
        while not self.dispatcher.finished():
            claimed = self.dispatcher.next_run()
            if claimed is None:
                threading.Event().wait(0.01)
                continue
            self.trained += 1
            self.train(claimed)

    def train(self, claimed) -> None:
        self.dispatcher.recorder.started(claimed)
        trial = SimpleNamespace(config={"job": SimpleNamespace(signature=claimed.planned.signature)})
        self.asha.on_trial_add(None, trial)
        quality = 100 * claimed.planned.cell["method.temperature"]
        for examples in (9, 27, EXAMPLES):
            best = quality + examples / EXAMPLES
            point = point_of(examples, best, step=examples, seconds=0.1)
            result = slot_result(points=[point], examples=examples, best=best)
            self.dispatcher.recorder.progressed(claimed, result)
            if examples < EXAMPLES and self.asha.on_trial_result(None, trial, result) == "STOP":
                break
        end = outcome_of(examples=examples, best=best, best_examples=examples, seconds=0.1)
        state = "done" if examples == EXAMPLES else "running"
        self.asha.on_trial_complete(None, trial, result)
        self.dispatcher.recorder.ended(claimed, slot_result(state=state, outcome=end))


def trials(search: Search) -> set[tuple[str, float]]:
    """State and value of what the study has."""
    return {(trial.state.name, round(trial.value, 9)) for trial in search._sampler._study.trials if trial.value}


def rungs(asha: SharedAsha) -> list[dict[str, float]]:
    return [recorded for _, recorded in asha._asha._brackets[0]._rungs]


def test_four_drivers_spend_one_budget_and_each_knows_all(
    tmp_path: Path, resolved: ResolvedSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.search.search.FEED_POLL_SECONDS", 0.0)
    monkeypatch.setattr("cluster.search.budget.BUDGET_POLL_SECONDS", 0.01)
    drivers = [Driver(tmp_path, resolved, f"driver {number}") for number in range(DRIVERS)]
    threads = [threading.Thread(target=driver.work) for driver in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    rows = drivers[0].ledger.runs()
    assert BUDGET <= len(rows) <= BUDGET + DRIVERS - 1
    assert sum(driver.trained for driver in drivers) == len(rows) and all(row.attempt == 1 for row in rows)
    assert {row.state for row in rows} == {"done", "stopped"}
    assert sum(driver.trained > 1 for driver in drivers) > 1, "a busy machine may hold up a driver, not all"
    recorded = {("COMPLETE" if row.state == "done" else "PRUNED", round(row.best or 0, 9)) for row in rows}
    lowest = {row.signature for row in rows}
    for driver in drivers:
        driver.source.refresh()
        driver.asha._take_points()
        assert trials(driver.search) == recorded
        assert set(rungs(driver.asha)[-1]) == lowest, "every run stands on the lowest rung of every driver"
    again = Driver(tmp_path, resolved, "a later call")
    again.work()
    assert again.trained == 0, "the budget is spent"


def test_a_later_call_judges_by_the_rungs_that_an_earlier_one_left(tmp_path: Path, resolved: ResolvedSpace) -> None:
    first = Driver(tmp_path, resolved, "first")
    for _ in range(9):
        first.train(first.dispatcher.next_run())
    second = Driver(tmp_path, resolved, "second")
    second.asha._take_points()
    assert rungs(second.asha) == rungs(first.asha)
    assert any(rung for rung in rungs(first.asha))
    trial = SimpleNamespace(config={"job": SimpleNamespace(signature="new")})
    second.asha.on_trial_add(None, trial)
    assert second.asha.on_trial_result(None, trial, {"examples": 9, "best": 0.0}) == "STOP", "the worst of ten"
    alone = SharedAsha(ASHA, dict)
    alone.on_trial_add(None, trial)
    assert alone.on_trial_result(None, trial, {"examples": 9, "best": 0.0}) == "CONTINUE", "the first of a ladder"


def test_a_run_that_continues_stands_on_each_rung_once() -> None:
    asha = SharedAsha(ASHA, lambda: {"a": [(9, 5.0), (27, 6.0)]})
    trial = SimpleNamespace(config={"job": SimpleNamespace(signature="a")})
    asha.on_trial_add(None, trial)
    for examples, best in ((9, 5.0), (27, 6.0), (27, 6.0), (60, 7.0)):
        assert asha.on_trial_result(None, trial, {"examples": examples, "best": best}) == "CONTINUE"
    asha.on_trial_complete(None, trial, {"examples": 81, "best": 8.0})
    assert [sorted(rung) for rung in rungs(asha)] == [["a"], ["a"], ["a"]]
    assert rungs(asha)[-1] == {"a": 5.0}
