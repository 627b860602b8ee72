"""A small ledger with everything that a bundle takes along, on SQLite; imports go into SQLite and PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from analysis.ledger import Baselines, Ledger, UntrainedScore
from analysis.ledger.selection_log import Look
from analysis.sweep_spec import SweepSpec
from cse_train.evaluate.score import save_cosines
from cse_train.results import Protocol
from tests.analysis.conftest import ledger, ledger_url
from tests.run_values import claim_run, point_of, score_of

__all__ = ["ledger", "ledger_url"]

GOLD = np.linspace(0, 5, 40)
IDENTITY = {"corpus": "c" * 64, "workers": 2}
ROWS = {"word counts": 56.5, "idf bag of words": float("nan")}


def train(ledger: Ledger, name: str, end: str, best: float | None, folder: Path, *, owner: str = "me") -> None:
    """One attempt of a run that ends so; a done one with a score and its cosines."""
    config = {"method": "simcse", "train.encoder": "e", "train.corpus": "wiki", "train.dev_max_length": 512}
    about = {"identity": IDENTITY, "provenance": {"host": "lab", "cpus": 2}}
    claim = claim_run(ledger, name, config, seed=int(name[-1]), owner=owner, **about)
    ledger.running(claim, folder / name)
    point = point_of(64, best, seconds=0.1, metrics={"sts_dev": best, "loss": float("nan")})
    ledger.add_points(claim, [point])
    if end == "running":
        return
    numbers = {"examples": 64, "best": best, "best_examples": 64, "seconds": 0.3}
    ledger.finish(claim, end, **numbers, folder=folder / name, reason=None if end == "done" else "loss is ∞")
    if end == "done":
        file = folder / f"{name}.npz"
        noise = np.random.default_rng(len(name)).normal(0, 1, len(GOLD)).round(1)
        ledger.add_score(
            name, score_of("sts_dev", best or 0.0, {"pooler": "cls"}, file, save_cosines(file, GOLD + noise, GOLD))
        )


def filled(folder: Path) -> Ledger:
    """Two done runs, one failed, stopped, lost and running; two sweeps, one look, rows without training."""
    ledger = Ledger.open(folder / "lab.db")
    train(ledger, "done0", "done", 0.1 + 0.2, folder)
    train(ledger, "failed1", "failed", None, folder)
    train(ledger, "failed1", "failed", 7.25, folder)
    train(ledger, "done1", "done", 61.123456789012345, folder)
    for name, end in {"stopped2": "stopped", "lost3": "lost", "running4": "running"}.items():
        train(ledger, name, end, 50.0, folder)
    for sweep, names in {"A": ["done0", "done1", "failed1", "running4", "nobody5"], "B": ["stopped2", "done1"]}.items():
        ledger.record_sweep(sweep, SweepSpec({"space": sweep.lower(), "file": f"/lab/{sweep}.yaml", "seeds": [0, 1]}))
        ledger.link(sweep, [(name, {"rate": 0.5, "name": name}, int(name[-1])) for name in names])
    ledger.add_look(Look("A", "mean", 2, "done1", ("mr",), {"mr": 70.5}))
    ledger.store_baselines([Baselines("sts_dev", "e", "wiki", 512, {"suite": "b"}, ROWS)])
    ledger.store_baselines([Baselines("sts_dev", "other", "wiki", 512, {}, ROWS)])
    for value, suite in ((62.5, "sts12"), (float("nan"), "sts13")):
        ledger.store_untrained(
            [UntrainedScore("e", "a" * 64, "mean", suite, "d" * 64, value, Protocol.read({"pooler": "mean"}))]
        )
    return ledger


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Ledger]:
    ledger = filled(tmp_path)
    yield ledger
    ledger.close()
