"""What a plug-in leaves behind in a process changes no other run: no run shares a process with code from outside."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from analysis.ledger import Ledger
from cluster.plan.plan import PlannedRun
from cluster.runtime.options import SweepOptions
from cluster.sweep.run_sweep import run_sweep
from cse_train.checkpoint import read_best
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.plugins import registry
from tests.cluster.slots.leaver import THINGS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
LEAVER = Path(__file__).with_name("leaver.py")
SETTINGS = {
    "train.encoder": "words-l1-h64",
    "train.corpus": "generated",
    "train.dev": "generated_dev:12",
    "train.examples": 32,
    "train.batch_size": 8,
    "train.evaluations": 2,
}
Ended = dict[str, Any]
"""Of a run: its state, its curve without the clock, the tensors of its best model, and how it was retried."""


@pytest.fixture(scope="module", autouse=True)
def leaver() -> Iterator[None]:
    registry.use([LEAVER])
    yield
    registry.forget()


def planned(signature: str, method: str, **options: str) -> PlannedRun:
    settings = {"method": method, **SETTINGS, **{f"method.{name}": value for name, value in options.items()}}
    return PlannedRun(signature=signature, run=parse_run(settings), identity={}, cell={}, seed=0, sweep="s")


def swept(folder: Path, runs: list[PlannedRun]) -> dict[str, Ended]:
    """Signature -> how a run ended; one slot takes them, one after the other."""
    retried: dict[str, str] = {}

    def listen(event: Any) -> None:
        if event.kind == "retried":
            retried[event.signature] = event.reason

    options = SweepOptions(storage=folder / "runs", max_concurrent=1)
    outcome = run_sweep(runs, folder / "ledger.db", DataPaths(), options, listen)
    assert not outcome.failures, outcome.failures
    ledger, ended = Ledger.open(folder / "ledger.db"), {}
    for run in runs:
        row = ledger.run(run.signature)
        assert row is not None and row.folder is not None
        points = [replace(point, seconds=None) for point in ledger.curve(run.signature)]
        tensors = read_best(Path(row.folder), run.signature)[2]
        ended[run.signature] = {"points": points, "tensors": tensors, "retried": retried.get(run.signature)}
    ledger.close()
    return ended


def same(one: Ended, other: Ended) -> bool:
    tensors, others = one["tensors"], other["tensors"]
    equal = tensors.keys() == others.keys() and all(torch.equal(tensors[name], others[name]) for name in tensors)
    return equal and one["points"] == other["points"] and one["retried"] is other["retried"] is None


def test_a_run_after_a_plug_ins_equals_the_one_before_it(ray_cluster: None, tmp_path: Path) -> None:
    """The plug-in leaves nothing that stops its process, and a counter on which its own loss depends."""
    left = [planned(f"left {n}", "leaver", leaves="a global forward hook") for n in range(2)]
    ended = swept(tmp_path, [planned("before", "simcse"), *left, planned("after", "simcse")])
    assert same(ended["before"], ended["after"])
    assert same(ended["left 0"], ended["left 1"]), "a plug-in's second run is its first"


BATCHES = [[*THINGS][first::4] for first in range(4)]
"""Seven things each: every start of processes takes seconds."""


@pytest.fixture(scope="module")
def after(ray_cluster: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Each batch is left by a run of its own, and followed by the same run of SimCSE."""
    runs = [planned("clean", "simcse")]
    for number, names in enumerate(BATCHES):
        runs += [planned(f"left {number}", "leaver", leaves=";".join(names)), planned(f"after {number}", "simcse")]
    return swept(tmp_path_factory.mktemp("after"), runs)


@pytest.mark.parametrize("number", range(len(BATCHES)), ids=lambda number: ", ".join(BATCHES[number]))
def test_nothing_that_a_plug_in_leaves_changes_the_next_run(number: int, after: dict[str, Ended]) -> None:
    assert same(after[f"after {number}"], after["clean"])
