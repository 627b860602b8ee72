"""One short run of a space in a Ray of its own: what it takes, and how many such runs fit at once."""

import dataclasses
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.doctor import Finding
from cse_train.fields import ConfigError

if TYPE_CHECKING:
    from cluster.options import SweepOptions
    from cluster.plan import PlannedRun
    from cluster.resources import Node
    from cluster.space import Space
    from cluster.variants import Short

MARGIN = 0.9
"""Part of what is free that a packing may take."""
_GB = 1024**3


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one run took."""

    group_gb: float
    """Peak main memory of the worker group's processes."""
    card_gb: float = 0.0
    """Peak memory on a card, of all ranks together."""
    card_size_gb: float = 0.0
    seconds: float
    """Of training."""
    examples: int


@dataclass(frozen=True)
class Packing:
    """How to run a sweep of such runs."""

    max_concurrent: int
    gpus_per_worker: float = 0.0

    def __str__(self) -> str:
        cards = f" --gpus-per-worker {self.gpus_per_worker:g}" if self.gpus_per_worker else ""
        return f"--max-concurrent {self.max_concurrent}{cards}"


def packing(measured: Measured, options: "SweepOptions", node: "Node") -> Packing:
    """As many runs at once as cores, free memory and cards hold. A rank has whole cards, or shares one with as many
    others as its memory allows and as there are cores for; parts divide the card. ConfigError where none fits."""
    from cluster.resources import slots_that_fit

    gpus = options.gpus_per_worker
    if gpus and options.workers == 1 and measured.card_gb:
        cores = node.cpus / options.cpus_per_worker / max(1.0, node.gpus)
        parts = min(int(MARGIN * measured.card_size_gb / measured.card_gb), int(cores))
        gpus = math.floor(1e4 / parts) / 1e4 if parts > 1 else 1.0
    free = dataclasses.replace(options, gpus_per_worker=gpus, max_concurrent=None)
    by_memory = int(MARGIN * node.memory_gb / measured.group_gb)
    return Packing(max(1, min(slots_that_fit(free, [node]), by_memory)), gpus)


def probe(space: "Space", short: "Short", options: "SweepOptions") -> list[Finding]:
    """Measure the first cell that nothing blocks; a stop where there is none, or where its run fails."""
    from cluster.resources import this_machine

    node = this_machine()
    try:
        run, whole = first_run(space, short)
        measured = measure(run, short, dataclasses.replace(options, max_concurrent=1))
        advice = packing(measured, options, node)
    except ConfigError as error:
        return [Finding("stop", "probe", line) for line in error.problems]
    lines = told(measured, str(run.cell["variant"]), measured.seconds * whole / measured.examples)
    advised = Finding("note", "probe", f"packing for {node}; cse run {space.id} {advice}")
    return [*(Finding("fine", "probe", line) for line in lines), advised]


def told(measured: Measured, cell: str, whole_s: float) -> list[str]:
    """What was measured, in words; `whole_s`: seconds of a whole run at this speed."""
    card = f", {measured.card_gb:.1f} of {measured.card_size_gb:.0f} GB on the card" if measured.card_gb else ""
    return [
        f"{cell}: {measured.examples} examples in {measured.seconds:.1f} s, at most {measured.group_gb:.1f} GB{card}",
        f"a whole run at this speed, alone on the machine: about {whole_s:.0f} s",
    ]


def first_run(space: "Space", short: "Short") -> "tuple[PlannedRun, int]":
    """The short run of the first cell that nothing blocks, and the examples of a whole one; ConfigError with the
    reasons where every cell is blocked."""
    variants = short.variants([space])
    cells = space.resolve(short.profile, short.overrides).cells()
    for cell, variant in zip(cells, variants, strict=False):
        if variant.run is not None:
            return variant.run, cell.run(variant.run.seed).train.examples
    raise ConfigError(list(dict.fromkeys(variant.blocked for variant in variants)))


def measure(run: "PlannedRun", short: "Short", options: "SweepOptions") -> Measured:
    """Train the run in folders that are gone afterwards; ConfigError with the run's reason where it fails."""
    from analysis.ledger import Ledger
    from cluster.memory_watch import MemoryWatch
    from cluster.sweep import run_sweep

    with tempfile.TemporaryDirectory(prefix="cse-probe-") as folder:
        file = Path(folder, "ledger.db")
        own = dataclasses.replace(options, storage=Path(folder, "runs"))
        with MemoryWatch(os.getpid(), cards=bool(options.gpus_per_worker)) as watch:
            outcome = run_sweep([run], file, short.paths, own)
        if not outcome.done:
            reason = outcome.failures[0].reason if outcome.failures else "interrupted"
            raise ConfigError([f"probe failed: {reason}; cse train {run.run.method} --debug shows where"])
        ledger = Ledger.open(file)
        row = ledger.run(run.signature)
        ledger.close()
    assert row is not None and row.seconds is not None and row.examples is not None
    gigabytes = {"group_gb": watch.peak, "card_gb": watch.card_peak, "card_size_gb": watch.card_size}
    return Measured(
        **{name: size / _GB for name, size in gigabytes.items()}, seconds=row.seconds, examples=row.examples
    )
