"""Plans: counting, sharing between tables, asking the ledger, and the sources of runs."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest

from analysis.ledger import RunRow
from analysis.run_state import RunState
from cluster.plan.plan import PLAN_COLUMNS
from cluster.plan.planner import plan
from cluster.plan.run_source import ListSource
from cluster.search.search import SearchSource
from cse.cli.plan_text import describe
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space, load_spaces
from search_spaces.identity import signature as signatures

CORPUS = ("c", "text", "sent0", "sent1", "hard_neg", "label")
"""A hash, and every column that a method may need."""
HASHES = {"_backbone": lambda name: (f"e:{name}", "t"), "_corpus": lambda *a: CORPUS, "_dev": lambda *a: ("d",)}


@pytest.fixture
def known_inputs(monkeypatch):
    """Every input is there."""
    for name, stub in HASHES.items():
        monkeypatch.setattr(signatures, name, stub)


class FakeLedger:
    def __init__(self, states=(), rows=()):
        self._states, self._rows = dict(states), list(rows)

    def states(self, signatures):
        return {s: self._states[s] for s in signatures if s in self._states}

    def runs(self):
        return self._rows


def grid(folder: Path, name: str, axis: str) -> Path:
    (folder / f"{name}.yaml").write_text(f"version: 1\nid: {name}\nmethod: esimcse\nseeds: 2\nspace:\n  {axis}\n")
    return folder / f"{name}.yaml"


def test_counts_of_a_shipped_table(known_inputs):
    made = plan([load_space("E7")], "small", 3, None, DataPaths())
    expected = {"cells": 8, "seeds": 3, "runs": 24, "unique": 24, "done": 0, "to_run": 24, "missing_input": 0}
    assert made.counts() == expected
    assert tuple(vars(describe(made)))[: len(PLAN_COLUMNS)] == PLAN_COLUMNS
    first = made.runs[0]
    assert (first.cell, first.seed, first.sweep) == ({"method.dup_rate": 0.08}, 0, "E7")
    assert first.run.options.dup_rate == 0.08


def test_only_done_runs_are_reused(known_inputs):
    runs = plan([load_space("E7")], "small", 3, None, DataPaths()).runs
    states = dict(
        zip((r.signature for r in runs), ("done", "done", "stopped", "failed", "running", "lost"), strict=False)
    )
    made = plan([load_space("E7")], "small", 3, FakeLedger(states), DataPaths())
    assert (made.counts()["done"], made.counts()["to_run"]) == (2, 22)
    assert made.spaces[0].done == {run.signature for run in runs[:2]}
    other = plan([load_space("E7")], "small", 3, FakeLedger(states), DataPaths(), overrides={"train.examples": 640})
    assert other.counts()["done"] == 0


def test_tables_that_share_a_cell_run_it_once(known_inputs, tmp_path):
    grid(tmp_path, "A", "method.dup_rate: {grid: [0.1, 0.32]}")
    grid(tmp_path, "B", "method.queue_multiple: {grid: [1, 2.5]}")
    made = plan(load_spaces(tmp_path), "small", None, None, DataPaths())
    expected = {"cells": 4, "seeds": 2, "runs": 8, "unique": 6, "done": 0, "to_run": 6, "missing_input": 0}
    assert made.counts() == expected
    assert [one.runs for one in describe(made).spaces] == [4, 4]
    shared = {r.signature for r in made.spaces[0].runs} & {r.signature for r in made.spaces[1].runs}
    ledger = FakeLedger(dict.fromkeys(shared, "done"))
    again = plan(load_spaces(tmp_path), "small", None, ledger, DataPaths()).counts()
    assert (again["unique"], again["done"], again["to_run"]) == (6, 2, 4)


def test_a_search_counts_its_most_and_stands_apart(known_inputs, tmp_path):
    grid(tmp_path, "A", "method.dup_rate: {grid: [0.1, 0.32]}")
    path = grid(tmp_path, "B", "train.learning_rate: {loguniform: [1e-5, 1e-3]}")
    path.write_text(path.read_text() + "search: {num_samples: 10}\n")
    alone = plan([load_space(path)], "small", None, None, DataPaths())
    expected = {"cells": 10, "seeds": 2, "runs": 20, "unique": 20, "done": 0, "to_run": 20, "missing_input": 0}
    assert alone.counts() == expected
    both = describe(plan(load_spaces(tmp_path), "small", None, None, DataPaths()))
    assert (both.runs, both.searches[0].runs) == (4, 20)


def test_missing_inputs_still_count_but_cannot_run():
    made = plan([load_space("E7")], "small", 1, None, DataPaths())
    assert made.counts()["unique"] == 8
    assert any("--data" in line for line in made.absent)
    with pytest.raises(ConfigError, match="--data"):
        plan([load_space("E7")], "small", 1, None, DataPaths(), need_inputs=True)


def test_without_data_a_finished_run_is_recognised_by_its_settings(known_inputs, monkeypatch):
    space, wanted = load_space("E7"), plan([load_space("E7")], "small", 2, None, DataPaths()).runs[:3]
    rows = [done_row(run.run, run.identity | {"corpus": "another"}) for run in wanted]
    monkeypatch.setattr(signatures, "_corpus", lambda *given: lacking("missing data: corpus; give --data DIR"))
    made = plan([space], "small", 2, FakeLedger(rows=rows), DataPaths())
    assert (made.counts()["done"], made.counts()["to_run"]) == (3, 13)
    stale = [dataclasses.replace(rows[0], signature="0" * 24), *rows[1:]]
    assert plan([space], "small", 2, FakeLedger(rows=stale), DataPaths()).counts()["done"] == 2
    with pytest.raises(ConfigError, match="missing data"):
        plan([space], "small", 2, FakeLedger(rows=rows[:2]), DataPaths(), need_inputs=True)


def lacking(line):
    raise ConfigError([line])


def done_row(run, identity):
    about = {"owner": "me", "folder": None, "reason": None, "created": 0.0, "updated": 0.0, "live": False}
    numbers = {"examples": 64, "best": 50.0, "best_examples": 64, "seconds": 1.0, "attempt": 1}
    of = {"method": run.method, "seed": run.train.seed, "config": run.flat(), "identity": identity}
    return RunRow(signatures.signature(run, identity), RunState.DONE, **of, **about, **numbers)


@pytest.mark.parametrize("seeds", [0, [], [-1]])
def test_no_seeds_is_the_users_mistake(seeds):
    with pytest.raises(ConfigError, match="no seeds"):
        plan([load_space("E7")], None, seeds, None, DataPaths())


def planned(signature, seed=0):
    return SimpleNamespace(signature=signature, seed=seed)


class Cells:
    """A search that reads from a list and remembers what it observed."""

    def __init__(self, *answers):
        self.answers, self.observed = list(answers), []

    def propose(self):
        return self.answers.pop(0)

    def observe(self, *what):
        self.observed.append(what)


def test_a_grid_hands_out_each_distinct_run_once():
    source = ListSource([planned("a"), planned("b"), planned("a")])
    assert [source.ask().signature, source.ask().signature, source.ask()] == ["a", "b", None]
    assert source.exhausted()


def test_a_list_gives_the_runs_that_come_next_in_another_order():
    source = ListSource(planned(name) for name in "abcd")
    source.ask()
    ahead = source.ahead(2)
    source.reorder(ahead[::-1])
    assert [source.ask().signature for _ in range(3)] == ["c", "b", "d"]


def test_a_search_hands_out_every_seed_of_a_cell_and_observes_what_came_out():
    cells = Cells("cell", None)
    source = SearchSource(cells, lambda cell: [planned(f"{cell}{seed}", seed) for seed in (0, 1)])
    first, second = source.ask(), source.ask()
    assert not source.exhausted()
    source.observe(second, "done", 7.0, 128)
    source.observe(first, "failed", None, None)
    assert cells.observed == [("cell", 1, 7.0, "done", 128), ("cell", 0, None, "failed", None)]
    assert source.ask() is None and source.exhausted() and source.ask() is None
