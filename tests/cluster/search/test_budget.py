"""Budgets: what is refused, equal shares, what the ledger has already, and a clean end."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from analysis.run_state import RunState
from cluster.plan.run_source import ListSource
from cluster.search.budget import Account, Budget, BudgetSource, Clock, Unit, parse_budgets
from cse.cli.app import main
from cse_train.fields import ConfigError


@dataclass
class Row:
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
    assert main(["run", "E7", "--budget", "40 EUR", "--price", price]) == 2
    assert capsys.readouterr().err == f"cse: {line}\n"


def test_less_than_a_run_each_is_refused():
    with pytest.raises(ConfigError, match="budget too small: budget=1runs; 2 methods share it, give at least 2 runs"):
        parse_budget("1runs", ["simcse", "esimcse"])


def drained(source, ledger, took=640):
    """Run all that is handed out, one at a time."""
    names = []
    while (one := source.ask()) is not None:
        ledger[one.signature] = Row(one.signature, one.run.method, examples=took)
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
        ledger[one.signature] = Row(one.signature, examples=320, state=RunState.STOPPED)
        source.observe(one, RunState.STOPPED, 40.0, 320)
    assert source.ask().signature == "s2"


def test_what_another_driver_holds_is_set_aside_and_comes_back_when_it_dies(monkeypatch):
    monkeypatch.setattr("cluster.search.budget.BUDGET_POLL_SECONDS", 0.0)
    ledger = {}
    source, _ = source_of([planned(f"s{i}") for i in range(9)], "2runs", ledger, ("simcse",))
    ledger["other"] = Row("other", state=RunState.RUNNING, live=True)
    assert source.ask().signature == "s0"
    assert source.ask() is None and not source.exhausted(), "one here and one there are all that may be spent"
    ledger["other"] = Row("other", state=RunState.RUNNING, live=False)
    assert source.ask().signature == "s1"
    ledger |= {name: Row(name) for name in ("s0", "s1")}
    assert source.ask() is None and source.exhausted()
    assert source.lines() == ["budget 2 runs: simcse 2 of 2 runs spent"] and source.shares() == {"2 runs": 1.0}


def test_a_run_that_another_driver_holds_is_handed_out_to_wait_for(monkeypatch):
    ledger = {"s0": Row("s0", state=RunState.RUNNING, live=True)}
    source, _ = source_of([planned("s0"), planned("s1")], "1runs", ledger, ("simcse",))
    assert source.ask().signature == "s0" and source.ask() is None


def test_hours_are_the_ledgers_and_a_run_is_expected_to_take_the_mean():
    ledger = {f"s{i}": Row(f"s{i}", seconds=1440.0) for i in range(2)}  # 0.4 hours each
    for budget, allowed in (("1.1 run-hours", False), ("1.3 run-hours", True)):
        account = Account(parse_budget(budget, ["simcse"]), ["simcse"], list(ledger.values()))
        assert account.allows(planned("new")) is allowed


def test_gpu_hours_and_money_count_the_gpus_of_a_run():
    """Two ranks on half a GPU each, an hour: one GPU-hour, 2.5 EUR."""
    ledger = {f"s{i}": Row(f"s{i}", seconds=3600.0) for i in range(3)}
    for text, allowed in (("3.9 GPU-hours", False), ("4 GPU-hours", True), ("9.9 EUR", False), ("10 EUR", True)):
        budget = parse_budget(text, ["simcse"], gpus=1.0, price="2.5 EUR")
        account = Account(budget, ["simcse"], list(ledger.values()), gpus=1.0)
        assert account.allows(planned("new")) is allowed, text
    assert account.line() == "budget 10 EUR: simcse 7.5 of 10 EUR spent" and account.spent_share == 0.75


def test_a_part_of_a_gpu_is_a_part_of_its_hours():
    budget = parse_budget("8 GPU-hours", ["simcse"], gpus=0.25)
    account = Account(budget, ["simcse"], [Row("s0", seconds=7200)], gpus=0.25)
    assert account.line() == "budget 8 GPU-hours: simcse 0.5 of 8 GPU-hours spent"


def test_the_clock_lets_no_run_begin_that_would_end_late(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock = Clock(parse_budget("20 min", ["simcse"]), [], now)
    now += 1199.0
    assert clock.has_time(), "nothing is known of how long a run takes"
    clock.take([Row("s0", seconds=100.0), Row("s1", seconds=200.0), Row("cut", seconds=1.0, state=RunState.STOPPED)])
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
            ledger[run.signature] = Row(run.signature, seconds=step)
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
    assert main(["plan", str(tmp_path / "t.yaml")]) == 2
    (printed,) = capsys.readouterr().err.strip().splitlines()
    assert line in printed
