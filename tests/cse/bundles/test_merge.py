"""From one ledger through a file into another: nothing is lost, equal rows give equal bytes, results never mix."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from analysis.bundles import Bundle
from analysis.ledger import Ledger, LedgerError
from analysis.ledger.exchange.merge import Merged, RecordSource, merge
from analysis.sweep_spec import SweepSpec
from analysis.tables.pair_cosines import column_cosines, read_cosines
from analysis.tables.spec import TableError
from cse.bundles.contents import gather, write
from tests.cse.bundles.conftest import train
from tests.run_values import score_of

ENDED = ["done0", "done1", "failed1", "lost3", "stopped2"]


def taken(ledger: Ledger, file: Path) -> Merged:
    bundle = Bundle(file)
    return merge(ledger, bundle.records(), RecordSource(file.name, bundle.header.sha256))


def bundled(ledger: Ledger, file: Path, sweeps: set[str] | None = None) -> Path:
    write(file, gather(ledger, sweeps))
    return file


def everything(ledger: Ledger) -> dict[str, Any]:
    """All that a ledger gives to those who ask, but for owners and folders."""
    runs = [dataclasses.replace(run, owner="", folder=None) for run in ledger.runs() if run.signature in ENDED]
    history = {name: [(row.attempt, row.state, row.at, row.reason) for row in ledger.history(name)] for name in ENDED}
    return {
        "runs": runs,
        "history": history,
        "curves": {name: points for name, points in ledger.curves(ENDED).items() if name in ENDED},
        "scores": ledger.scores(ENDED),
        "provenance": ledger.provenance(ENDED),
        "sweeps": [(row.id, row.spec, row.created, row.updated, row.runs) for row in ledger.sweeps()],
        "cells": {sweep: ledger.cells(sweep) for sweep in ("A", "B")},
        "looks": [dataclasses.asdict(look) for look in ledger.looks("A")],
        "baselines": [
            json.dumps([b.key, dict(b.inputs), dict(b.rows)]) for b in ledger.baselines() if b.encoder == "e"
        ],
        "untrained": sorted((dataclasses.asdict(score) for score in ledger.untrained_scores()), key=str),
    }


def test_everything_arrives_and_a_second_import_changes_nothing(lab: Ledger, ledger: Ledger, tmp_path: Path) -> None:
    file = bundled(lab, tmp_path / "lab.jsonl.gz")
    assert taken(ledger, file) == Merged(added=5, sweeps=2)
    first = everything(ledger)
    assert first == everything(lab)
    assert [run.state for run in first["runs"]] == ["done", "failed", "done", "stopped", "lost"]
    assert ledger.run("running4") is None and ledger.sweeps()[0].states["unclaimed"] == 2
    assert taken(ledger, file) == Merged(there=5)
    assert everything(ledger) == first


def test_a_sweep_of_the_same_name_that_is_another_is_named(lab: Ledger, ledger: Ledger, tmp_path: Path) -> None:
    file = bundled(lab, tmp_path / "lab.jsonl.gz")
    spec = next(row.spec for row in lab.sweeps() if row.id == "A")
    ledger.record_sweep("A", SweepSpec({**spec.stored, "set": {"train.examples": 64}}))
    ledger.record_sweep(
        "B", SweepSpec({**next(row.spec for row in lab.sweeps() if row.id == "B").stored, "spent": ["1"]})
    )
    merged = taken(ledger, file)
    assert merged.other_sweeps == ["A"]


def test_the_file_of_an_imported_ledger_has_the_same_bytes(lab: Ledger, ledger: Ledger, tmp_path: Path) -> None:
    file = bundled(lab, tmp_path / "lab.jsonl.gz")
    again = bundled(lab, tmp_path / "again.jsonl.gz")
    taken(ledger, file)
    for npz in tmp_path.glob("*.npz"):
        npz.unlink()
    imported = bundled(ledger, tmp_path / "other.jsonl.gz")
    assert file.read_bytes() == again.read_bytes() == imported.read_bytes()


def test_the_order_of_sentence_pairs_arrives_without_their_files(lab: Ledger, ledger: Ledger, tmp_path: Path) -> None:
    planned, keys = [({"seed": seed}, f"done{seed}", seed) for seed in range(2)], [{"seed": 0}, {"seed": 1}]
    before = column_cosines(lab, planned, keys, "sts_dev")
    taken(ledger, bundled(lab, tmp_path / "lab.jsonl.gz"))
    for npz in tmp_path.glob("*.npz"):
        npz.unlink()
    after = column_cosines(ledger, planned, keys, "sts_dev")
    assert before is not None and after is not None
    assert before.means == after.means and after.problems == ()
    assert list(before.gold) == list(after.gold)
    ranks = after.rows[0][0]
    assert sorted(set(ranks)) == list(range(len(set(before.rows[0][0])))), "equal cosines have one rank"
    assert gather(lab).without_pairs == 2


def test_a_sweep_is_taken_alone(lab: Ledger, ledger: Ledger, tmp_path: Path) -> None:
    contents = gather(lab, {"B"})
    assert [run["signature"] for run in contents.runs] == ["done1", "stopped2"] and contents.unended == 0
    assert gather(lab, {"A"}).unended == 2
    assert [entry["encoder"] for entry in contents.baselines] == ["e"]
    taken(ledger, bundled(lab, tmp_path / "b.jsonl.gz", {"B"}))
    assert [sweep.id for sweep in ledger.sweeps()] == ["B"]
    assert taken(ledger, bundled(lab, tmp_path / "a.jsonl.gz", {"A"})) == Merged(added=2, there=1, sweeps=1)


def test_imported_runs_say_where_they_come_from_until_they_are_trained_here(
    lab: Ledger, ledger: Ledger, tmp_path: Path
) -> None:
    taken(ledger, bundled(lab, tmp_path / "lab.jsonl.gz"))
    imported = ledger.imports()
    assert sorted(imported) == ENDED and ledger.imports(["nobody"]) == {}
    line = imported["done0"].line()
    assert line.startswith("imported from lab.jsonl.gz (")
    assert line.endswith(f"); its checkpoint lies at lab:{tmp_path}/done0/best")
    assert all(run.folder is None and not run.live for run in ledger.runs())
    claim = ledger.claim("lost3", {}, method="simcse", seed=3, owner="me", identity={}, provenance={})
    assert claim is not None and claim.attempt == 2 and claim.previous_folders == ()
    assert "lost3" not in ledger.imports()


def test_two_results_of_one_run_are_a_conflict_and_nothing_is_written(
    lab: Ledger, ledger: Ledger, tmp_path: Path
) -> None:
    train(ledger, "done1", "done", 61.0, tmp_path)
    train(ledger, "done0", "done", 0.1 + 0.2, tmp_path)
    ledger.add_score("done0", score_of("sts_dev", 0.3, {"pooler": "cls"}))
    before = ledger.runs(), ledger.scores(["done0", "done1"])
    with pytest.raises(LedgerError) as refused:
        taken(ledger, bundled(lab, tmp_path / "lab.jsonl.gz"))
    assert str(refused.value) == (
        "two results: signature=done0 seed=0 has sts_dev=0.3 here and 0.30000000000000004 in lab.jsonl.gz "
        "(and 1 more); nothing was imported, give the file a ledger of its own with --ledger and compare the two"
    )
    assert (ledger.runs(), ledger.scores(["done0", "done1"])) == before
    assert ledger.sweeps() == [] and ledger.baselines() == []


def test_a_finished_run_takes_the_place_of_one_without_a_result(lab: Ledger, ledger: Ledger, tmp_path: Path) -> None:
    train(ledger, "done0", "failed", None, tmp_path / "here")
    train(ledger, "stopped2", "done", 49.0, tmp_path)
    train(ledger, "done1", "running", 1.0, tmp_path)
    merged = taken(ledger, bundled(lab, tmp_path / "lab.jsonl.gz"))
    assert merged == Merged(added=2, replaced=1, there=1, held=1, sweeps=2)
    run = ledger.run("done0")
    assert run is not None and (run.state, run.best, run.reason) == ("done", 0.1 + 0.2, None)
    assert [row.state for row in ledger.history("done0")] == ["claimed", "running", "done"]
    assert {row.signature: row.state for row in ledger.runs()}["stopped2"] == "done"
    assert "stopped2" not in ledger.imports() and "done0" in ledger.imports()


def test_scores_that_are_lacking_here_are_added(lab: Ledger, ledger: Ledger, tmp_path: Path) -> None:
    taken(ledger, bundled(lab, tmp_path / "lab.jsonl.gz"))
    lab.add_score("done0", score_of("mr", 70.0, {"pooler": "cls"}))
    lab.add_score("done0", score_of("sts_dev", 2.0, {"pooler": "mean"}))
    lab.add_score("lost3", score_of("mr", 3.0, {}))
    lab.store_baselines([dataclasses.replace(lab.baselines()[0], rows={"word counts": 1.0})])
    lab.store_untrained([dataclasses.replace(score, value=1.0) for score in lab.untrained_scores()[:1]])
    merged = taken(ledger, bundled(lab, tmp_path / "more.jsonl.gz"))
    assert merged == Merged(there=5, scores=2, other_baselines=["sts_dev", "sts12"])
    assert [(s.suite, s.value) for s in ledger.scores(["done0"])] == [
        ("sts_dev", 0.1 + 0.2),
        ("mr", 70.0),
        ("sts_dev", 2.0),
    ]
    assert ledger.scores(["lost3"]) == []


def test_a_look_at_a_run_that_nobody_has_is_refused(lab: Ledger, ledger: Ledger, tmp_path: Path) -> None:
    contents = gather(lab, {"A"})
    lonely = dataclasses.replace(contents, runs=[run for run in contents.runs if run["signature"] != "done1"])
    write(tmp_path / "lonely.jsonl.gz", lonely)
    with pytest.raises(LedgerError, match="unknown run: sweep=A has a look at signature=done1"):
        taken(ledger, tmp_path / "lonely.jsonl.gz")
    assert ledger.runs() == []


@pytest.mark.parametrize("path", ["/dev/zero", "fifo", "/"])
def test_a_file_of_cosines_that_is_none_is_not_read(lab: Ledger, tmp_path: Path, path: str) -> None:
    if path == "fifo":
        os.mkfifo(tmp_path / "fifo")
    score = dataclasses.replace(lab.scores(["done0"])[0], cosines_file=str(tmp_path / path))
    with pytest.raises(TableError, match="cosines not readable: file="):
        read_cosines(score)
