"""What must hold once the sweep has ended, for every fault that it took, compared with an undisturbed sweep."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from analysis.ledger import Claim, CurvePoint, LostClaim
from analysis.run_folder import RunFolder
from benchmarks.faults.sweep import RUNS, Sweep
from cse_train.checkpoint import read_best

Curves = Mapping[str, list[CurvePoint]]


@dataclass(frozen=True)
class Before:
    """The ledger at the moment of a fault."""

    done: dict[str, int]
    """Signature -> attempt of finished runs."""
    held: dict[str, Claim]
    curves: Curves


def before(sweep: Sweep) -> Before:
    rows = sweep.rows()
    held = {r.signature: Claim(r.signature, r.attempt, r.owner) for r in rows if r.live}
    return Before({r.signature: r.attempt for r in rows if r.state == "done"}, held, sweep.curves())


def after(sweep: Sweep, then: Before) -> list[str]:
    """Returns a line for each way in which the sweep differs from what this fault should have left."""
    return [*_once(sweep, then), *_continued(sweep, then), *late_writes(sweep, then)]


def whole(sweep: Sweep, reference: Sweep) -> list[str]:
    """Returns a line for each way in which an ended sweep differs from the undisturbed one."""
    return [*_ledger(sweep), *_results(sweep, reference), *_files(sweep), *_study(sweep.study())]


def _ledger(sweep: Sweep) -> list[str]:
    rows = {row.signature: row for row in sweep.rows()}
    problems = [f"{name} is {row.state}: {row.reason}" for name, row in rows.items() if row.state != "done"]
    return problems + ([f"{len(rows)} runs in the ledger, not {RUNS}"] if len(rows) != RUNS else [])


def _once(sweep: Sweep, then: Before) -> list[str]:
    now = {row.signature: row.attempt for row in sweep.rows()}
    again = [name for name, attempt in then.done.items() if now.get(name) != attempt]
    return [f"{name} was finished and trained again" for name in again]


def plain(curves: Curves) -> dict[str, list[tuple[Any, ...]]]:
    """Curves without the clock."""
    return {name: [(p.examples, p.best, p.best_examples, p.metrics) for p in curve] for name, curve in curves.items()}


def _results(sweep: Sweep, reference: Sweep) -> list[str]:
    ours, wanted = plain(sweep.curves()), plain(reference.curves())
    problems = [f"{name} has other metrics" for name in wanted if ours.get(name) != wanted[name]]
    folders = {row.signature: row.folder for row in sweep.rows()}
    rows = reference.rows()
    return problems + [
        f"{r.signature} has other weights" for r in rows if weights(folders[r.signature]) != weights(r.folder)
    ]


def weights(folder: str | None) -> str | None:
    """Digest of a run's best tensors, the file's header (clock times) left out."""
    if folder is None or not RunFolder(Path(folder)).best.is_dir():
        return None
    total = hashlib.sha256()
    for name, tensor in sorted(read_best(Path(folder))[2].items()):
        total.update(name.encode() + tensor.numpy().tobytes())
    return total.hexdigest()


def _continued(sweep: Sweep, then: Before) -> list[str]:
    """Returns a line for each interrupted run that did not resume: its points before the fault have other seconds."""
    now = sweep.curves()
    half = {name: curve for name, curve in then.curves.items() if name in then.held and curve}
    return [
        f"{name} began anew"
        for name, curve in half.items()
        if [p.seconds for p in curve] != [p.seconds for p in now.get(name, [])[: len(curve)]]
    ]


def _files(sweep: Sweep) -> list[str]:
    finals = sweep.storage.glob("runs/*/final*/**/.*")
    return [f"half-written file {path.relative_to(sweep.folder)}" for path in finals if path.is_file()]


def _study(url: str) -> list[str]:
    study = optuna.load_study(study_name="faults", storage=url)
    states = [trial.state.name for trial in study.get_trials(deepcopy=False)]
    return [] if states == ["COMPLETE"] * RUNS else [f"the study has {states}"]


def late_writes(sweep: Sweep, then: Before) -> list[str]:
    """Play the orphans of the fault: what they held must be refused now."""
    ledger, rows = sweep.ledger(), {row.signature: row for row in sweep.rows()}
    end = {"examples": 1, "best": 999.0, "best_examples": 1, "seconds": 1.0, "folder": "orphan"}
    problems = []
    for name, claim in then.held.items():
        if rows[name].attempt == claim.attempt:
            continue
        try:
            ledger.finish(claim, "done", **end)  # type: ignore[arg-type]
            problems.append(f"{name}: an orphan's late write was taken")
        except LostClaim:
            pass
    ledger.close()
    return problems + ([] if {row.signature: row for row in sweep.rows()} == rows else ["a late write changed a row"])
