"""A synthetic ledger of many finished runs: what tables, listings and reports cost at size.

One sweep `rows`: a grid of ESimCSE (learning rate, temperature, repetition rate, queue) under real signatures, with a
made-up dev score: a parabola over the learning rate, small effects of the others, seed noise of one point. Runs go
into the tables in bulk, as `Ledger` itself would write them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert

from analysis.ledger import Ledger, schema
from analysis.ledger.database import connect, transaction
from analysis.sweep_spec import SweepSpec
from search_spaces.catalog import load_space
from search_spaces.cells import Cell, resolve
from search_spaces.identity.signature import signature

SWEEP = "rows"
SEEDS = 5
SPACE = f"""version: 1
id: {SWEEP}
title: A synthetic grid
method: esimcse
profile: small
seeds: {SEEDS}
set: {{train.examples: 12800, train.evaluations: 20}}
evaluate: [sts_dev]
space:
  train.learning_rate: {{grid: [1.0e-05, 2.0e-05, 5.0e-05, 1.0e-04, 2.0e-04, 5.0e-04, 1.0e-03, 2.0e-03]}}
  method.temperature: {{grid: [0.01, 0.02, 0.05, 0.1, 0.2]}}
  method.dup_rate: {{grid: [0.04, 0.08, 0.12, 0.16, 0.2, 0.24, 0.28, 0.32, 0.36, 0.4]}}
  method.queue_multiple: {{grid: [1, 1.5, 2, 2.5, 3]}}
"""
MORE = "  train.warmup_ratio: {grid: [0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18]}\n"
"""One axis more where the first four have too few cells; it does nothing to the made-up score."""
PLAIN = 10_000
"""Runs of the first four axes."""
IDENTITY = {name: name[0] * 64 for name in ("corpus", "dev", "encoder", "tokenizer")}
PROTOCOL = {"suite": "sts_dev", "split": "dev", "data_hash": IDENTITY["dev"], "aggregation": "all"}
DETAILS = {"commit": "0" * 40, "host": "synthetic", "python": "3.11", "cpus": 2, "versions": {"torch": "2.13.0"}}
FAILED = 500
"""One run in this many failed."""
BEGAN = 1.7e9


@dataclass(frozen=True)
class SyntheticRun:
    """One run with its curve, in the words of the ledger."""

    signature: str
    cell: Cell
    seed: int
    order: int
    curve: list[dict[str, Any]]
    """Points as `Ledger.add_points` takes them."""

    @property
    def state(self) -> str:
        return "failed" if self.order % FAILED == FAILED - 1 else "done"

    @property
    def end(self) -> dict[str, Any]:
        """The run's numbers as `Ledger.finish` takes them."""
        return {name: self.curve[-1][name] for name in ("examples", "best", "best_examples", "seconds")}


def write(folder: Path, runs: int = 10_000, points: int = 20, ledger: str | None = None) -> str | Path:
    """Writes `rows.yaml` into `folder`, and the runs into its `ledger.db` or into `ledger`, a URL; returns where they
    are. At most 100,000 runs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.yaml").write_text(SPACE + MORE * (runs > PLAIN), encoding="utf8")
    made = list(synthetic(folder / "rows.yaml", runs, points))
    where = ledger or folder / "ledger.db"
    opened = Ledger.open(where)
    spec = {"title": "A synthetic grid", "space": SWEEP, "file": str(folder / "rows.yaml")}
    opened.record_sweep(SWEEP, SweepSpec(spec))
    opened.link(SWEEP, ((run.signature, run.cell.key, run.seed) for run in made))
    opened.close()
    _insert(where, made)
    return where


def synthetic(space: Path, runs: int, points: int) -> Iterator[SyntheticRun]:
    """The first `runs` runs of the grid, all seeds of a cell together."""
    generator = np.random.default_rng(0)
    cells = resolve(load_space(space)).cells()
    assert runs <= len(cells) * SEEDS
    for order in range(runs):
        cell, seed = cells[order // SEEDS], order % SEEDS
        level = truth(cell.key) + generator.normal()
        yield SyntheticRun(signature(cell.run(seed), IDENTITY), cell, seed, order, _curve(level, points, generator))


def truth(key: Mapping[str, Any]) -> float:
    """The score of a cell without seed noise."""
    rate, temperature = math.log10(key["train.learning_rate"] / 2e-4), math.log10(key["method.temperature"] / 0.05)
    return (
        62.0 - 3.0 * rate**2 - 2.0 * temperature**2 + 2.0 * key["method.dup_rate"] + 0.1 * key["method.queue_multiple"]
    )


def _curve(level: float, points: int, generator: np.random.Generator) -> list[dict[str, Any]]:
    """A rise towards `level` with noise, and the geometry that goes with it."""
    share = np.arange(1, points + 1) / points
    scores = level - 10.0 * np.exp(-4.0 * share) + 0.3 * generator.normal(size=points)
    best = np.maximum.accumulate(scores)
    examples = (share * 12_800).astype(int)
    return [
        {
            "examples": int(examples[i]),
            "step": i + 1,
            "seconds": 3.0 * (i + 1),
            "best": float(best[i]),
            "best_examples": int(examples[np.argmax(scores[: i + 1])]),
            "metrics": {
                "sts_dev": float(scores[i]),
                "alignment": float(1.0 - 0.3 * share[i]),
                "uniformity": float(-2.0 - share[i]),
            },
        }
        for i in range(points)
    ]


def _insert(path: str | Path, made: Sequence[SyntheticRun]) -> None:
    engine = connect(path, create=False)
    with transaction(engine, writes=True) as connection:
        connection.execute(insert(schema.runs), [_run_row(run) for run in made])
        curves = [{"signature": run.signature, "attempt": 1, **point} for run in made for point in run.curve]
        connection.execute(insert(schema.curves), curves)
        connection.execute(insert(schema.provenance), [_provenance_row(run) for run in made])
        connection.execute(insert(schema.scores), [_score_row(run) for run in made if run.state == "done"])
    engine.dispose()


def _run_row(run: SyntheticRun) -> dict[str, Any]:
    at = BEGAN + 60.0 * run.order
    return {
        "signature": run.signature,
        "state": run.state,
        "attempt": 1,
        "owner": "synthetic",
        "lease_until": at,
        "method": "esimcse",
        "seed": run.seed,
        "config": run.cell.run(run.seed).flat(),
        "identity": IDENTITY,
        **run.end,
        "folder": f"/synthetic/{run.signature}",
        "reason": "loss is nan after 6400 examples; lower train.learning_rate" if run.state == "failed" else None,
        "created": at,
        "updated": at + 60.0,
    }


def _provenance_row(run: SyntheticRun) -> dict[str, Any]:
    cost = {name: run.end[name] for name in ("examples", "seconds")}
    return {"signature": run.signature, "attempt": 1, "details": DETAILS, "at": BEGAN + 60.0 * run.order, **cost}


def _score_row(run: SyntheticRun) -> dict[str, Any]:
    return {
        "signature": run.signature,
        "suite": "sts_dev",
        "protocol_hash": schema.digest(PROTOCOL),
        "value": run.end["best"],
        "protocol": PROTOCOL,
        "at": BEGAN + 60.0 * run.order + 60.0,
    }
