"""A ledger with finished runs of published tables, without any training: what the site and its tests are made from."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cluster.plan.plan import PlannedRun
from cluster.plan.planner import plan_all
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import ResolvedSpace, resolve
from search_spaces.identity.method_code import facts
from tests.run_values import point_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
POINTS = 8
Score = Callable[[PlannedRun], float | None]
"""A run's best dev score; None leaves it out."""


def train(
    ledger: Ledger, resolved: ResolvedSpace, seeds: int, score: Score, sweep: str | None = None, *, idle: bool = False
) -> None:
    """A sweep of the space whose runs end with these scores, each with a curve that rises to its best; of idle runs one
    that falls from its first evaluation on."""
    (space,) = plan_all([(resolved, tuple(range(seeds)))], ledger, DataPaths(), need_inputs=False).spaces
    runs = [(run, value) for run in space.runs if (value := score(run)) is not None]
    name = sweep or resolved.space.id
    overrides = dict(resolved.overrides)
    spec = {"title": resolved.space.title, "space": resolved.space.id, "file": str(resolved.space.file.resolve())}
    spec |= {"profile": resolved.profile.name, "encoder": str(resolved.profile.train["train.encoder"])}
    spec |= {"yaml": dict(resolved.space.written)} if resolved.own_loop else {}
    ledger.record_sweep(name, SweepSpec(spec | {"set": overrides, "seeds": list(range(seeds))}))
    ledger.link(name, [(run.signature, run.cell, run.seed) for run in space.runs])
    for run, value in runs:
        _finish(ledger, run, value, 1 if idle else POINTS - 2)


def _finish(ledger: Ledger, run: PlannedRun, best: float, peak: int) -> None:
    about = {"method": run.run.method, "seed": run.seed, "identity": run.identity}
    provenance = {"commit": COMMIT, "host": "lab", "versions": {"torch": "2.13.0"}, **facts(run.run)}
    claim = ledger.claim(run.signature, run.run.flat(), owner="tests", provenance=provenance, **about)
    if claim is None:  # another table has it too
        return
    ledger.running(claim, None)
    total = run.examples or 25_600
    at = total * peak // POINTS
    dev = str(run.run.flat()["train.dev"])
    for place in range(1, POINTS + 1):
        examples = total * place // POINTS
        value = best - 9.0 * math.exp(-0.7 * place) - (0.4 if place > peak else 0.0)
        value = best if place == peak else value
        reached = {"best": best, "best_examples": at} if place >= peak else {"best": value, "best_examples": examples}
        metrics = {dev: value, "loss": 1.0 / place}
        point = point_of(examples, step=examples // 64, seconds=20.0 * place, metrics=metrics, **reached)
        ledger.add_points(claim, [point])
    ledger.finish(claim, "done", examples=total, best=best, best_examples=at, seconds=160.0, folder="gone")


def small(name: str, overrides: Mapping[str, Any] | None = None) -> ResolvedSpace:
    return resolve(load_space(name), "small", overrides or {})


def noise(run: PlannedRun, spread: float) -> float:
    """A number of the run's own, of about that deviation."""
    return spread * (int(run.signature[:6], 16) / 2**24 - 0.5) * math.sqrt(12)


def filled(path: Path) -> Ledger:
    """E7 at two scales that contradict each other, E8 in part and at the paper's scale, S3 with every word, and runs of
    a space of our own."""
    ledger = Ledger.open(path)
    train(ledger, small("E7"), 3, lambda run: 60 + 20 * float(run.cell["method.dup_rate"]) + noise(run, 0.02))
    shorter = small("E7", {"train.examples": 640})
    against = "E7 train.examples=640"
    train(ledger, shorter, 3, lambda run: 50 - 20 * float(run.cell["method.dup_rate"]) + noise(run, 0.02), against)
    train(ledger, small("E8"), 3, lambda run: 61.0 + noise(run, 0.8) if run.seed < 2 else None)
    at_scale = {0.5: 82.0, 1.0: 84.9, 1.5: 83.9, 2.0: 84.0, 2.5: 84.8}
    paper = resolve(load_space("E8"), "paper")
    train(ledger, paper, 3, lambda run: at_scale.get(_queue(run), 84.0) + noise(run, 0.2), "E8@paper")
    train(ledger, small("S3"), 5, _dropout)
    train(ledger, small("systems"), 1, lambda run: 55.0 if run.run.method in ("ct", "simcse") else None)
    return ledger


def _queue(run: PlannedRun) -> float:
    return float(run.cell["method.queue_multiple"])


def _dropout(run: PlannedRun) -> float:
    """Rows of S3: some fall as in the paper, some rise, some tie with its default row, some are too noisy to say."""
    dropout, fixed = float(run.cell["train.dropout"]), run.cell["method.fixed_dropout"]
    level = 40.0 if fixed else {0.0: 50.0, 0.05: 61.5, 0.15: 60.05, 0.2: 59.9}.get(dropout, 60.0)
    return level + noise(run, 3.0 if dropout == 0.01 else 0.05)
