"""Which rows are runs of a space: by settings and today's signature, on the newest inputs or on any."""

import dataclasses
import json
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from analysis import matching
from analysis.ledger import Ledger, RunRow
from analysis.matching import RunMatcher, add_versions, match, match_on
from analysis.run_state import RunState
from cse_train import methods
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import Cell, ResolvedSpace, resolve
from search_spaces.identity.signature import signature
from search_spaces.profiles import Profile
from tests import synthetic_ledger

INPUTS = {"encoder": "e", "tokenizer": "t", "corpus": "c", "dev": "d"}
OTHER = INPUTS | {"corpus": "another"}
FINITE = "method.dup_rate: {grid: [0.1, 0.2]}"
ENDLESS = "train.learning_rate: {loguniform: [1e-5, 1e-2]}\nsearch: {num_samples: 3}"


def space(folder: Path, axes: str) -> ResolvedSpace:
    (folder / "t.yaml").write_text(f"version: 1\nid: T\nmethod: esimcse\nspace:\n  {axes}\n", encoding="utf8")
    return resolve(load_space(folder / "t.yaml"), Profile("p", {"train.examples": 64}))


def row(cell: Cell, seed: int, updated: float, state: str = "done", identity: dict[str, str] = INPUTS) -> RunRow:
    run = cell.run(seed)
    about = {"owner": "me", "folder": None, "reason": None, "created": 0.0, "updated": updated, "live": False}
    numbers = {"examples": 64, "best": 50.0 + seed, "best_examples": 64, "seconds": 1.0, "attempt": 1}
    of = {"method": run.method, "seed": seed, "config": run.flat(), "identity": identity}
    return RunRow(signature(run, identity), RunState(state), **of, **about, **numbers)


@pytest.fixture
def resolved(tmp_path: Path) -> ResolvedSpace:
    return space(tmp_path, FINITE)


def test_the_newest_inputs_count_and_finished_runs_come_first(resolved: ResolvedSpace) -> None:
    first, second = resolved.cells()
    rows = [
        row(first, 0, 5.0),
        row(first, 0, 9.0, "running", OTHER),
        row(second, 0, 1.0),
        row(second, 1, 2.0),
        row(second, 1, 3.0, identity=OTHER),
    ]
    assert [m.run.updated for m in match(resolved, rows)] == [5.0, 1.0, 2.0]
    assert [m.run for m in match(resolved, rows, any_inputs=True)] == rows
    assert [m.planned for m in match(resolved, rows, seeds=[0])] == [
        ({"method.dup_rate": 0.1}, rows[0].signature, 0),
        ({"method.dup_rate": 0.2}, rows[2].signature, 0),
    ]


def test_all_seeds_of_a_cell_in_a_ledger_are_matched_by_one_payload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work of a table by counts: settings read, settings compared, payloads of signatures, hashes of inputs."""
    counts: Counter[str] = Counter()

    def counted(module: ModuleType, name: str) -> None:
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **more: (counts.update([name]), function(*given, **more))[1])

    ledger = Ledger.open(synthetic_ledger.write(tmp_path, 100, 1))
    counted(json, "loads")
    rows = ledger.runs()
    assert len(rows) == 100
    assert counts["loads"] == 20 + 1, "cells, and the one set of inputs"
    counted(matching, "_settings")
    counted(matching, "seed_signature")
    counted(matching, "contents")
    matches, _ = match_on(resolve(load_space(tmp_path / "rows.yaml")), rows)
    assert [m.run for m in matches] == rows
    assert counts["_settings"] == 2_000 + 20
    assert counts["seed_signature"] == 20
    assert counts["contents"] <= 20 + 2
    ledger.close()


def test_a_table_is_of_one_data_set_and_says_what_stands_aside(resolved: ResolvedSpace) -> None:
    """Two cells on two corpora are not compared: one name stands for one content."""
    first, second = resolved.cells()
    rows = [row(first, 0, 1.0), row(second, 0, 2.0), row(second, 1, 3.0, identity=OTHER)]
    newest, notes = match_on(resolved, rows)
    assert [m.run.updated for m in newest] == [3.0]
    (note,) = notes
    assert note == "2 runs on other inputs or by other code: not shown (corpus c); --data-hash c shows them"
    older, notes = match_on(resolved, rows, data_hash="c")
    assert [m.run.updated for m in older] == [1.0, 2.0]
    assert notes[0].endswith("by other code: not shown (corpus another); --data-hash another shows them")
    with pytest.raises(ConfigError, match="no such data: --data-hash=zz; the runs have code released, corpus an"):
        match_on(resolved, rows, data_hash="zz")


def test_runs_by_edited_code_stand_aside_from_those_of_the_release(resolved: ResolvedSpace) -> None:
    first, _ = resolved.cells()
    edited = INPUTS | {"code": "0123456789abcdef01"}
    kept, notes = match_on(resolved, [row(first, 0, 1.0), row(first, 1, 2.0, identity=edited)])
    assert [m.run.seed for m in kept] == [1]
    assert notes[0].endswith("by other code: not shown (code released); --data-hash released shows them")


def test_the_version_of_a_row_is_the_one_that_gives_its_signature(
    resolved: ResolvedSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = resolved.cells()
    old = row(first, 0, 1.0)
    options = methods.config_class("esimcse")
    monkeypatch.setattr(options, "VERSION", options.VERSION + 1)
    new, other = row(first, 1, 2.0), dataclasses.replace(old, signature="0" * 24)
    versions = [run.identity["version"] for run in add_versions([old, new, other])]
    assert versions == [options.VERSION - 1, options.VERSION, "unknown"]


def test_other_settings_and_another_signature_are_no_runs_of_the_space(resolved: ResolvedSpace) -> None:
    cell = resolved.cells()[0]
    longer = dataclasses.replace(cell, settings={**cell.settings, "train.examples": 128})
    by_old_code = dataclasses.replace(row(cell, 0, 1.0), signature="0" * 24)
    assert match(resolved, [row(longer, 0, 1.0), by_old_code]) == []


def test_cells_of_an_endless_space_are_recognised_by_their_axes(tmp_path: Path) -> None:
    resolved = space(tmp_path, ENDLESS)
    cell = resolved.cell({"train.learning_rate": 1e-3})
    outside = resolved.cell({"train.learning_rate": 1.0})
    (matched,) = match(resolved, [row(cell, 2, 1.0), row(outside, 0, 1.0)])
    assert matched.planned[0] == {"train.learning_rate": 1e-3} and matched.run.seed == 2


def test_with_the_inputs_at_hand_a_run_on_others_is_not_one_of_the_search(resolved: ResolvedSpace) -> None:
    cell = resolved.cells()[0]
    signed: list[int] = []

    def sign(run):  # type: ignore[no-untyped-def]
        signed.append(run.train.seed)
        return signature(run, INPUTS)

    matcher = RunMatcher(resolved, sign)
    rows = [row(cell, 0, 1.0), row(cell, 1, 1.0, identity=OTHER)]
    for _ in range(2):
        assert [(seen.seed, seen.value) for seen in matcher.observations(rows)] == [(0, 50.0)]
    assert signed == [0, 1], "each row is looked at once"


def without_adamw(cell: Cell) -> RunRow:
    """A row of a ledger that is older than the setting; its run used torch's."""
    kept = row(cell, 0, 1.0)
    return dataclasses.replace(kept, config={k: v for k, v in kept.config.items() if k != "train.adamw"})


def test_a_row_that_is_older_than_a_setting_is_a_run_of_what_was_done_before_it(tmp_path: Path) -> None:
    text = "version: 1\nid: T\nmethod: esimcse\nspace:\n  train.adamw: {grid: [torch, transformers]}\n"
    (tmp_path / "t.yaml").write_text(text, encoding="utf8")
    asked = resolve(load_space(tmp_path / "t.yaml"), Profile("p", {"train.examples": 64}))
    before, today = asked.cells()
    old = without_adamw(before)
    assert [m.cell for m in match(asked, [old])] == [before]
    assert match(asked, [without_adamw(today)]) == [], "its signature is not that of torch's"
    signing = RunMatcher(asked, lambda run: signature(run, INPUTS))
    assert list(signing.cells(old)) == [before]
