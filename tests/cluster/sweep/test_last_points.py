"""Points that come with a run's end are stored with it, in one transaction; points before it at once."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import event

from analysis.ledger import Claim, Ledger, LostClaim
from cluster.plan.plan import PlannedRun
from cluster.runtime.options import SweepOptions
from cluster.sweep.recorder import ClaimedRun, Recorder
from cse_train.results import Point
from tests.cluster.jobs import run_of, slot_result
from tests.run_values import outcome_of, point_of

END = {"examples": 64, "best": 2.0, "best_examples": 64, "seconds": 1.0}


def point(examples: int) -> Point:
    return point_of(examples, 2.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    opened = Ledger.open(tmp_path / "ledger.db")
    yield opened
    opened.close()


def claim_of(ledger: Ledger, owner: str = "me") -> Claim:
    given = {"method": "simcse", "seed": 0, "owner": owner, "identity": {}, "provenance": {}}
    claim = ledger.claim("s" * 64, {}, **given)
    assert claim is not None
    return claim


def recording(ledger: Ledger, folder: Path) -> tuple[Recorder, ClaimedRun]:
    source = SimpleNamespace(observe=lambda *facts: None)
    recorder = Recorder(source, ledger, SweepOptions(storage=folder), "me", lambda event: None)  # type: ignore[arg-type]
    attempt = folder / "runs" / ("s" * 64) / "attempt-1"
    attempt.mkdir(parents=True)
    planned = PlannedRun("s" * 64, run_of(), {}, {}, 0, "t")
    return recorder, ClaimedRun(planned, attempt, claim_of(ledger), ())  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["done", "running", "failed"])
def test_the_last_result_is_one_commit_and_all_its_points_are_there(ledger: Ledger, tmp_path: Path, state: str) -> None:
    recorder, claimed = recording(ledger, tmp_path)
    recorder.progressed(claimed, slot_result(points=[point(32)]))
    assert [each.examples for each in ledger.curve("s" * 64)] == [32]
    commits: list[object] = []
    event.listen(ledger._engine, "commit", lambda connection: commits.append(connection))
    last = slot_result(state=state, points=[point(64)], outcome=outcome_of(**END), reason="nan", done=True)
    recorder.progressed(claimed, last)
    assert commits == [] and len(ledger.curve("s" * 64)) == 1
    before = len(commits)
    recorder.ended(claimed, last)
    writes = len(commits) - before - (state == "done")  # publishing reads the row once
    run = ledger.run("s" * 64)
    assert run is not None and run.state == {"running": "stopped"}.get(state, state) and run.best == 2.0
    assert [each.examples for each in ledger.curve("s" * 64)] == [32, 64] and writes == 1


def test_the_end_changes_the_row_once_and_publishing_asks_for_the_state_alone(ledger: Ledger, tmp_path: Path) -> None:
    recorder, claimed = recording(ledger, tmp_path)
    recorder.started(claimed)
    last = slot_result(state="done", points=[point(64)], outcome=outcome_of(**END), done=True)
    recorder.progressed(claimed, last)
    asked: list[str] = []
    event.listen(ledger._engine, "before_cursor_execute", lambda *what: asked.append(" ".join(what[2].split()[:2])))
    recorder.ended(claimed, last)
    words = [statement for statement in asked if not statement.startswith(("BEGIN", "COMMIT"))]
    assert words == ["SELECT cse_runs.state", "UPDATE cse_runs", *["INSERT INTO"] * 2, "UPDATE cse_provenance"]


def test_the_end_of_a_run_that_another_took_over_stores_nothing(ledger: Ledger) -> None:
    mine = claim_of(ledger)
    ledger.release(mine)
    claim_of(ledger, "other")
    with pytest.raises(LostClaim):
        ledger.finish(mine, "done", folder=None, points=[point(64)], **END)
    assert list(ledger.curve("s" * 64)) == []


@pytest.mark.parametrize(("asked", "noted"), [("auto", {"train.precision": "bf16"}), ("fp32", {})])
@pytest.mark.parametrize("state", ["done", "running"])
def test_a_run_that_leaves_its_arithmetic_to_the_device_is_noted_with_it(
    ledger: Ledger, tmp_path: Path, state: str, asked: str, noted: dict[str, str]
) -> None:
    """Also one that the scheduler ends, of which there are points alone."""
    recorder, claimed = recording(ledger, tmp_path)
    train = replace(claimed.planned.run.train, precision=asked)
    claimed = replace(claimed, planned=replace(claimed.planned, run=replace(claimed.planned.run, train=train)))
    outcome = outcome_of(**END, precision="bf16") if state == "done" else None
    last = slot_result(state=state, points=[point_of(64, 2.0, precision="bf16")], outcome=outcome, done=True)
    recorder.progressed(claimed, last)
    recorder.ended(claimed, last)
    assert ledger.provenance(["s" * 64])["s" * 64][0].details == noted
