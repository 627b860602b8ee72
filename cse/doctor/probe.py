"""One short run of a space in a Ray of its own: what it takes, and how many such runs fit at once."""

import contextlib
import dataclasses
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from analysis.ledger import Ledger
from cluster.plan.missing_inputs import Inputs
from cluster.plan.plan import PlannedRun
from cluster.plan.signature import examples_in, signature
from cluster.runtime.background import background
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import Node, slots_that_fit, this_machine
from cluster.sweep.run_sweep import run_sweep
from cse.doctor.checks import Finding
from cse.doctor.memory import MemoryWatch
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from search_spaces.cell_names import cell_name
from search_spaces.cells import ResolvedSpace

MEMORY_SHARE = 0.9
"""Part of what is free that a packing may take."""
STEPS, PROBE_EVALUATIONS = 200, 2
"""Of a probe's run, where --set train.examples does not say."""
_GB = 1024**3


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one run took."""

    group_gb: float
    """Peak main memory of the worker group's processes."""
    gpu_gb: float = 0.0
    """Peak memory on a GPU, of all ranks together."""
    gpu_size_gb: float = 0.0
    seconds: float
    """Of training."""
    examples: int


@dataclass(frozen=True)
class Packing:
    """How to run a sweep of such runs."""

    max_concurrent: int
    gpus_per_worker: float = 0.0

    def __str__(self) -> str:
        gpus = f" --gpus-per-worker {self.gpus_per_worker:g}" if self.gpus_per_worker else ""
        return f"--max-concurrent {self.max_concurrent}{gpus}"


def packing(measured: Measured, options: SweepOptions, node: Node) -> Packing:
    """As many runs at once as cores, free memory and GPUs hold. A rank has whole GPUs, or shares one with as many
    others as its memory allows and as there are cores for; parts divide the GPU. ConfigError where none fits."""
    gpus = options.gpus_per_worker
    if gpus and options.workers == 1 and measured.gpu_gb:
        cores = node.cpus / options.cpus_per_worker / max(1.0, node.gpus)
        parts = min(int(MEMORY_SHARE * measured.gpu_size_gb / measured.gpu_gb), int(cores))
        gpus = math.floor(1e4 / parts) / 1e4 if parts > 1 else 1.0
    free = dataclasses.replace(options, gpus_per_worker=gpus, max_concurrent=None)
    by_memory = int(MEMORY_SHARE * node.memory_gb / measured.group_gb)
    return Packing(max(1, min(slots_that_fit(free, [node]), by_memory)), gpus)


def probe(
    resolved: ResolvedSpace, paths: DataPaths, options: SweepOptions, examples: int | None = None
) -> list[Finding]:
    """Train the first cell that lacks no input and measure it; a stop where there is none, or where its run fails."""
    node = this_machine()
    try:
        run, whole = first_run(resolved, paths, options.workers, examples)
        measured = measure(run, paths, dataclasses.replace(options, max_concurrent=1))
        advice = packing(measured, options, node)
    except ConfigError as error:
        return [Finding("stop", "probe", line) for line in error.problems]
    gpu = f", {measured.gpu_gb:.1f} of {measured.gpu_size_gb:.0f} GB on the GPU" if measured.gpu_gb else ""
    took = f"{measured.examples} examples in {measured.seconds:.1f} s, at most {measured.group_gb:.1f} GB{gpu}"
    seconds = measured.seconds * whole / measured.examples
    return [
        Finding("fine", "probe", f"{cell_name(run.cell)}: {took}"),
        Finding("fine", "probe", f"a whole run at this speed, alone on the machine: about {seconds:.0f} s"),
        Finding("note", "probe", f"packing for {node}; cse run {resolved.space.id} {advice}"),
    ]


def first_run(resolved: ResolvedSpace, paths: DataPaths, workers: int, examples: int | None) -> tuple[PlannedRun, int]:
    """A short run of the first cell that lacks no input, and the examples of a whole one; ConfigError with the
    reasons where every cell lacks one. `examples` None: STEPS steps."""
    inputs, lines = Inputs(paths, workers), []
    for cell in resolved.cells():
        whole = cell.run(0)
        hashes, missing, _ = inputs.of(whole)
        lines += [gap.line for gap in missing]
        if not missing:
            length = examples or STEPS * whole.train.batch_size
            train = dataclasses.replace(whole.train, examples=length, evaluations=PROBE_EVALUATIONS)
            run = dataclasses.replace(whole, train=train)
            planned = PlannedRun(signature(run, hashes), run, hashes, dict(cell.key), 0, "probe")
            return planned, examples_in(whole, hashes) or length
    raise ConfigError(list(dict.fromkeys(lines)))


def measure(run: PlannedRun, paths: DataPaths, options: SweepOptions) -> Measured:
    """Train the run in folders that are gone afterwards; ConfigError with the run's reason where it fails."""
    with tempfile.TemporaryDirectory(prefix="cse-probe-") as folder:
        file = Path(folder, "ledger.db")
        settings = dataclasses.replace(options, storage=Path(folder, "storage"))
        watch = MemoryWatch(os.getpid(), gpus=bool(options.gpus_per_worker))
        with background(watch.sample_until):
            outcome = run_sweep([run], file, paths, settings)
        if not outcome.done:
            reason = outcome.failures[0].reason if outcome.failures else "interrupted"
            raise ConfigError([f"probe failed: {reason}; cse train {run.run.method} --debug shows where"])
        with contextlib.closing(Ledger.open(file)) as ledger:
            row = ledger.run(run.signature)
    assert row is not None and row.seconds is not None and row.examples is not None
    gigabytes = {"group_gb": watch.peak, "gpu_gb": watch.gpu_peak, "gpu_size_gb": watch.gpu_size}
    return Measured(
        **{name: size / _GB for name, size in gigabytes.items()}, seconds=row.seconds, examples=row.examples
    )
