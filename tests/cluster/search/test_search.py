"""Searches: the ledger is the only truth, no cell twice, a finite space ends, a budget binds; samplers by name."""

import dataclasses
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import get_args, get_type_hints

import numpy as np
import pytest
from optuna.trial import TrialState

from analysis.ledger import Ledger
from analysis.matching import RunMatcher, make_observation
from analysis.run_state import RunState
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import ListSource
from cluster.search import samplers
from cluster.search.budget import Account, Budget, BudgetSource, Clock, Unit, parse_budgets
from cluster.search.optuna_studies import OptunaSampler
from cluster.search.samplers import Sampler, Unvisited
from cluster.search.search import MAX_SUGGESTIONS, Search, SearchSource, make_search
from cse.cli.app import main
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.identity.signature import signature
from search_spaces.profiles import Profile
from search_spaces.space import SearchConfig
from tests.commands import refused

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


LAST = """
from cluster.search.samplers import Sampler


class LastSampler(Sampler):
    def __init__(self, resolved):
        self.left = resolved.cells()

    def suggest(self):
        return self.left.pop() if self.left else None


def make(resolved, settings, rng):
    return LastSampler(resolved)
"""


SPACE = """
version: 1
id: mine
title: The last cell first
method: simcse
search: {sampler: last, num_samples: 2}
space: {method.temperature: {choice: [0.05, 0.1]}}
"""
SUGGESTED = """
from pathlib import Path
import numpy as np
from cluster.search.samplers import make_sampler
from search_spaces.cells import resolve
from search_spaces.parse import parse_file

resolved = resolve(parse_file(Path("mine.yaml")))
sampler = make_sampler(resolved, resolved.space.search, np.random.default_rng(0))
print([sampler.suggest().key, sampler.suggest().key, sampler.suggest()])
"""


def test_a_space_file_may_name_every_sampler_and_no_other() -> None:
    assert set(get_args(get_type_hints(SearchConfig)["sampler"])) == samplers.names() == {"gp", "grid", "random", "tpe"}


def test_a_new_sampler_is_one_module(project_copy: Callable[..., Path], called: Callable[..., str]) -> None:
    copy = project_copy("cluster", "search_spaces")
    (copy / "cluster" / "search" / "samplers" / "last.py").write_text(LAST, encoding="utf8")
    (copy / "mine.yaml").write_text(SPACE, encoding="utf8")
    assert called(copy, "plan", "mine.yaml").startswith("2 cells x ")
    environment = os.environ | {"PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, "-c", SUGGESTED], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "[{'method.temperature': 0.1}, {'method.temperature': 0.05}, None]", done.stderr


@dataclass
class SpendingRow:
    signature: str
    method: str = "simcse"
    state: RunState = RunState.DONE
    examples: int | None = 640
    seconds: float | None = 36.0
    live: bool = False


def planned(signature, method="simcse", examples=640, seed=0):
    train = SimpleNamespace(examples=examples)
    run = SimpleNamespace(method=method, train=train)
    return SimpleNamespace(signature=signature, run=run, examples=examples, seed=seed, cell={"x": signature[0]})


def parse_budget(text: str, methods, **given) -> Budget:
    (budget,) = parse_budgets([text], methods, **given)
    return budget


@pytest.mark.parametrize(
    ("text", "amount", "unit", "shown"),
    [
        ("40runs", 40, Unit.RUNS, "40 runs"),
        ("1 run", 1, Unit.RUNS, "1 runs"),
        ("500000 examples", 500000, Unit.EXAMPLES, "500000 examples"),
        ("0.5 run-hours", 0.5, Unit.RUN_HOURS, "0.5 run-hours"),
        ("3 run hours", 3, Unit.RUN_HOURS, "3 run-hours"),
        ("8 GPU-hours", 8, Unit.GPU_HOURS, "8 GPU-hours"),
        ("8gpu-hours", 8, Unit.GPU_HOURS, "8 GPU-hours"),
        ("20min", 1200, Unit.CLOCK, "20 min"),
        ("20minutes", 1200, Unit.CLOCK, "20 min"),
        ("2 h", 7200, Unit.CLOCK, "120 min"),
        ("90s", 90, Unit.CLOCK, "1.5 min"),
        ("1 day", 86400, Unit.CLOCK, "1440 min"),
        ("40 EUR", 16, Unit.GPU_HOURS, "40 EUR"),
    ],
)
def test_every_unit(text, amount, unit, shown):
    budget = parse_budget(text, ["simcse"], gpus=0.5, price="2.5 EUR")
    assert (budget.amount, budget.unit, str(budget)) == (amount, unit, shown)


MALFORMED = (
    "40|runs|0runs|-3runs|2.5runs|4runsx||1e3runs|nan runs|inf h|3 weeks|3 months|20 minutesss|100euro|"
    "40 eur|EUR 40|$40|40 E|1h30|1,5 h|run-hours 3|8 GPU|8 GPU - hours|1.5 examples|9e99 h|"
    "10000000000000000 runs|twenty min|20 min 30 s|20:00|٣ runs"
).split("|")


@pytest.mark.parametrize("text", MALFORMED)
def test_nonsense_is_refused_before_anything_starts(text, capsys):
    assert len(MALFORMED) == 30
    assert main(["run", "E7", "--budget", text]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said and all(line.startswith(("cse: wrong budget: budget=", "cse: no price: budget=")) for line in said)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["2hours"], "two readings: budget=2hours; give 2 h for hours by the clock, or 2 run-hours for hours summed"),
        (["8 GPU-hours"], "no GPU: budget=8 GPU-hours of runs that ask for none; give --gpus-per-worker, or limit"),
        (["40 EUR"], "no price: budget=40 EUR; give that of an hour of one GPU, --price '2 EUR'"),
        (["3 runs", "4 runs"], "two limits of runs: budget=3 runs, 4 runs; give one"),
        (["2h, 3 runs", "5 min"], "two limits of time by the clock: budget=2h, 3 runs, 5 min; give one"),
    ],
)
def test_what_cannot_be_counted_is_one_line(given, line, capsys):
    assert main(["run", "E7", *(word for text in given for word in ("--budget", text))]) == 2
    assert capsys.readouterr().err.startswith(f"cse: {line}")


@pytest.mark.parametrize(
    ("price", "line"),
    [
        ("2.5", "wrong price: price=2.5; give that of an hour of one GPU, such as 2.5 EUR"),
        ("2.5 USD", "two currencies: budget=40 EUR, price=2.5 USD; give both in one"),
    ],
)
def test_a_price_names_its_currency(price, line, capsys):
    assert refused(capsys, "run", "E7", "--budget", "40 EUR", "--price", price) == f"cse: {line}"


def test_less_than_a_run_each_is_refused():
    with pytest.raises(ConfigError, match="budget too small: budget=1runs; 2 methods share it, give at least 2 runs"):
        parse_budget("1runs", ["simcse", "esimcse"])


def drained(source, ledger, took=640):
    """Run all that is handed out, one at a time."""
    names = []
    while (one := source.ask()) is not None:
        ledger[one.signature] = SpendingRow(one.signature, one.run.method, examples=took)
        source.observe(one, RunState.DONE, 50.0, took)
        names.append(one.signature)
    assert source.exhausted()
    return names


def source_of(runs, budget, ledger, methods=("simcse", "esimcse")):
    account = Account(parse_budget(budget, methods), methods, list(ledger.values()))
    return BudgetSource(ListSource(runs), [account], methods, ledger.values), account


def test_methods_share_equally_and_a_second_call_runs_nothing():
    runs = [planned(f"s{i}") for i in range(6)] + [planned(f"e{i}", "esimcse") for i in range(6)]
    ledger = {}
    source, account = source_of(runs, "5runs", ledger)
    assert drained(source, ledger) == ["s0", "s1", "e0", "e1"]
    assert account.line() == "budget 5 runs: simcse 2 of 2 runs, esimcse 2 of 2 runs spent"
    again, _ = source_of(runs, "5runs", ledger)
    assert [name for name in drained(again, ledger) if name not in ("s0", "s1", "e0", "e1")] == []
    more, _ = source_of(runs, "7runs", ledger)
    assert set(drained(more, ledger)) - {"s0", "s1", "e0", "e1"} == {"s2", "e2"}


def test_examples_are_set_aside_and_come_back_when_a_run_stops_early():
    ledger = {}
    source, _ = source_of([planned(f"s{i}") for i in range(9)], "1280examples", ledger, ("simcse",))
    first, second = source.ask(), source.ask()
    assert source.ask() is None and not source.exhausted(), "all is set aside"
    for one in (first, second):
        ledger[one.signature] = SpendingRow(one.signature, examples=320, state=RunState.STOPPED)
        source.observe(one, RunState.STOPPED, 40.0, 320)
    assert source.ask().signature == "s2"


def test_what_another_driver_holds_is_set_aside_and_comes_back_when_it_dies(monkeypatch):
    monkeypatch.setattr("cluster.search.budget.BUDGET_POLL_SECONDS", 0.0)
    ledger = {}
    source, _ = source_of([planned(f"s{i}") for i in range(9)], "2runs", ledger, ("simcse",))
    ledger["other"] = SpendingRow("other", state=RunState.RUNNING, live=True)
    assert source.ask().signature == "s0"
    assert source.ask() is None and not source.exhausted(), "one here and one there are all that may be spent"
    ledger["other"] = SpendingRow("other", state=RunState.RUNNING, live=False)
    assert source.ask().signature == "s1"
    ledger |= {name: SpendingRow(name) for name in ("s0", "s1")}
    assert source.ask() is None and source.exhausted()
    assert source.lines() == ["budget 2 runs: simcse 2 of 2 runs spent"] and source.shares() == {"2 runs": 1.0}


def test_a_run_that_another_driver_holds_is_handed_out_to_wait_for(monkeypatch):
    ledger = {"s0": SpendingRow("s0", state=RunState.RUNNING, live=True)}
    source, _ = source_of([planned("s0"), planned("s1")], "1runs", ledger, ("simcse",))
    assert source.ask().signature == "s0" and source.ask() is None


def test_hours_are_the_ledgers_and_a_run_is_expected_to_take_the_mean():
    ledger = {f"s{i}": SpendingRow(f"s{i}", seconds=1440.0) for i in range(2)}  # 0.4 hours each
    for budget, allowed in (("1.1 run-hours", False), ("1.3 run-hours", True)):
        account = Account(parse_budget(budget, ["simcse"]), ["simcse"], list(ledger.values()))
        assert account.allows(planned("new")) is allowed


def test_gpu_hours_and_money_count_the_gpus_of_a_run():
    """Two ranks on half a GPU each, an hour: one GPU-hour, 2.5 EUR."""
    ledger = {f"s{i}": SpendingRow(f"s{i}", seconds=3600.0) for i in range(3)}
    for text, allowed in (("3.9 GPU-hours", False), ("4 GPU-hours", True), ("9.9 EUR", False), ("10 EUR", True)):
        budget = parse_budget(text, ["simcse"], gpus=1.0, price="2.5 EUR")
        account = Account(budget, ["simcse"], list(ledger.values()), gpus=1.0)
        assert account.allows(planned("new")) is allowed, text
    assert account.line() == "budget 10 EUR: simcse 7.5 of 10 EUR spent" and account.spent_share == 0.75


def test_a_part_of_a_gpu_is_a_part_of_its_hours():
    budget = parse_budget("8 GPU-hours", ["simcse"], gpus=0.25)
    account = Account(budget, ["simcse"], [SpendingRow("s0", seconds=7200)], gpus=0.25)
    assert account.line() == "budget 8 GPU-hours: simcse 0.5 of 8 GPU-hours spent"


def test_the_clock_lets_no_run_begin_that_would_end_late(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock = Clock(parse_budget("20 min", ["simcse"]), [], now)
    now += 1199.0
    assert clock.has_time(), "nothing is known of how long a run takes"
    clock.take(
        [
            SpendingRow("s0", seconds=100.0),
            SpendingRow("s1", seconds=200.0),
            SpendingRow("cut", seconds=1.0, state=RunState.STOPPED),
        ]
    )
    assert not clock.has_time()
    now -= 149.0
    assert not clock.has_time()
    now -= 1.0
    assert clock.has_time()
    assert clock.line() == "budget 20 min: 17.5 min by the clock" and clock.spent_share == 1049 / 1200


def test_the_first_limit_that_is_spent_ends_the_sweep(monkeypatch):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    runs = [planned(f"s{i}") for i in range(9)]
    clock, runs_limit = parse_budgets(["10 min, 3 runs"], ["simcse"])
    for step, count in ((10.0, 3), (250.0, 2)):
        now, ledger = 0.0, {}
        account = Account(runs_limit, ["simcse"], [])
        source = BudgetSource(ListSource(runs), [account], ["simcse"], ledger.values, Clock(clock, [], now))
        done = []
        while (run := source.ask()) is not None:
            now += step
            ledger[run.signature] = SpendingRow(run.signature, seconds=step)
            source.observe(run, RunState.DONE, 50.0, 640)
            done.append(run.signature)
        assert len(done) == count and source.exhausted()
        assert source.lines()[1] == f"budget 10 min: {count * step / 60:.1f} min by the clock"


@pytest.mark.parametrize(
    ("search", "line"),
    [
        ("{race: true}", "removed setting: search.race=True; seeds are not raced, give `seeds: N` and tpe"),
        ("{max_seeds: 5}", "removed setting: search.max_seeds=5; seeds are not raced, give `seeds: N` and tpe"),
        ("{sampler: posterior}", "removed sampler: search.sampler=posterior; give tpe, which finds cells as good"),
        ("{sampler: tpe}", "nothing to search: search.sampler needs `space:`; listed cells are all run"),
        ("{sampler: tpee}", "search.sampler"),
    ],
)
def test_a_removed_or_wrong_search_setting_is_one_line_and_exit_code_2(search, line, tmp_path, capsys):
    cells = "cells:\n  - {label: a, set: {method.dup_rate: 0.1}}\n  - {label: b, set: {method.dup_rate: 0.2}}\n"
    (tmp_path / "t.yaml").write_text(f"version: 1\nid: T\nmethod: esimcse\nseeds: 3\n{cells}search: {search}\n")
    printed = refused(capsys, "plan", str(tmp_path / "t.yaml"))
    assert line in printed
