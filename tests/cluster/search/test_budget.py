"""Budgets: what is refused, equal shares, what the ledger has already, and a clean end."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from analysis.run_state import RunState
from cluster.plan.run_source import ListSource
from cluster.search.budget import Account, BudgetSource, parse_budget
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [("40runs", "40runs"), ("500000 examples", "500000examples"), ("1hour", "1hours"), ("0.5hours", "0.5hours")],
)
def test_three_units(text, shown):
    assert str(parse_budget(text, ["simcse"])) == shown


@pytest.mark.parametrize("text", ["40", "runs", "0runs", "-3runs", "2.5runs", "3days", "4runsx", ""])
def test_nonsense_is_one_line_and_exit_code_2(text, capsys):
    assert main(["run", "E7", "--budget", text]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said == [f"cse: wrong budget: budget={text}; give a number such as 40runs, 500000examples or 2hours"]


def test_less_than_a_run_each_is_refused():
    with pytest.raises(ConfigError, match="budget too small: budget=1runs; 2 methods share it, give at least 2runs"):
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
    return BudgetSource(ListSource(runs), account, ledger.values), account


def test_methods_share_equally_and_a_second_call_runs_nothing():
    runs = [planned(f"s{i}") for i in range(6)] + [planned(f"e{i}", "esimcse") for i in range(6)]
    ledger = {}
    source, account = source_of(runs, "5runs", ledger)
    assert drained(source, ledger) == ["s0", "s1", "e0", "e1"]
    assert account.line() == "budget 5runs: simcse 2 of 2, esimcse 2 of 2 runs spent"
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
    monkeypatch.setattr("cluster.search.budget.LOOK_S", 0.0)
    ledger = {}
    source, _ = source_of([planned(f"s{i}") for i in range(9)], "2runs", ledger, ("simcse",))
    ledger["other"] = Row("other", state=RunState.RUNNING, live=True)
    assert source.ask().signature == "s0"
    assert source.ask() is None and not source.exhausted(), "one here and one there are all that may be spent"
    ledger["other"] = Row("other", state=RunState.RUNNING, live=False)
    assert source.ask().signature == "s1"
    ledger |= {name: Row(name) for name in ("s0", "s1")}
    assert source.ask() is None and source.exhausted()
    assert source.line() == "budget 2runs: simcse 2 of 2 runs spent"


def test_a_run_that_another_driver_holds_is_handed_out_to_wait_for(monkeypatch):
    ledger = {"s0": Row("s0", state=RunState.RUNNING, live=True)}
    source, _ = source_of([planned("s0"), planned("s1")], "1runs", ledger, ("simcse",))
    assert source.ask().signature == "s0" and source.ask() is None


def test_hours_are_the_ledgers_and_a_run_is_expected_to_take_the_mean():
    ledger = {f"s{i}": Row(f"s{i}", seconds=1440.0) for i in range(2)}  # 0.4 hours each
    for budget, allowed in (("1.1hours", False), ("1.3hours", True)):
        account = Account(parse_budget(budget, ["simcse"]), ["simcse"], list(ledger.values()))
        assert account.allows(planned("new")) is allowed


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
