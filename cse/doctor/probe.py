"""`cse doctor --probe` and `--try`: short runs, which show how many fit at once, and whether a script sets its seed."""

import contextlib
import dataclasses
import json
import math
import os
import shlex
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil

from analysis.ledger import Ledger
from cluster.plan.cost import ENCODER_SHAPES
from cluster.plan.plan import PlannedRun
from cluster.runtime.background import background
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import CUDA_GB, Node, slots_that_fit, this_machine
from cluster.sweep.run_sweep import run_sweep
from cse.doctor.card_peak import TRAIN, read_peak
from cse.doctor.checks import Finding
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.encoder.folders import locate
from cse_train.fields import ConfigError
from cse_train.reading import MachineFault
from cse_train.results import Point
from cse_train.training.program import ProgramFailed, train
from search_spaces.catalog import space_name
from search_spaces.cell_names import cell_name
from search_spaces.cells import ResolvedSpace
from search_spaces.identity.missing_inputs import Inputs
from search_spaces.identity.signature import examples_in, signature

MEMORY_SHARE = 0.9
"""Share of the free memory, main or GPU, that concurrent runs may take."""
SHARED_LINE = (
    "runs that share a GPU take turns on it, and lengthen each other's steps; NVIDIA's MPS lets them compute side by "
    "side: nvidia-cuda-mps-control -d before Ray starts, on each node"
)
STEPS, PROBE_EVALUATIONS = 200, 2
"""Steps and evaluations of the probe's run, unless --set train.examples is given."""
SAMPLE_SECONDS = 0.5
WORKER_TITLE = "ray::"
"""Prefix of a worker's process title in Ray."""
NO_WORKERS = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Prefixes of process titles of Ray's own workers, which belong to no worker group."""
_GB = 1024**3


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Memory and time that one run took."""

    group_gb: float
    """Peak main memory of the worker group's processes in GiB."""
    gpu_gb: float = 0.0
    """Peak GPU memory of one rank in GiB; 0 without a GPU."""
    gpu_size_gb: float = 0.0
    seconds: float
    """Seconds of training."""
    examples: int


@dataclass(frozen=True)
class Packing:
    """Suggested options for a sweep of runs like the measured one."""

    max_concurrent: int
    gpus_per_worker: float = 0.0

    def __str__(self) -> str:
        gpus = f" --gpus-per-worker {self.gpus_per_worker:g}" if self.gpus_per_worker else ""
        return f"--max-concurrent {self.max_concurrent}{gpus}"


def packing(measured: Measurement, options: SweepOptions, node: Node) -> Packing:
    """Returns how many runs to start at once, limited by cores, free memory and GPUs.

    A rank has whole GPUs, or shares one with as many others as its memory and the cores allow; the shares are fractions
    of one GPU. Raises ConfigError if no run fits.
    """
    gpus = options.gpus_per_worker
    if gpus and options.workers == 1 and measured.gpu_gb:
        cores = node.cpus / options.cpus_per_worker / max(1.0, node.gpus)
        parts = min(int(MEMORY_SHARE * measured.gpu_size_gb / measured.gpu_gb), int(cores))
        # Ray counts ten-thousandths of a GPU; rounded down, all parts fit on one.
        gpus = math.floor(1e4 / parts) / 1e4 if parts > 1 else 1.0
    unpacked = dataclasses.replace(options, gpus_per_worker=gpus, max_concurrent=None)
    by_memory = int(MEMORY_SHARE * node.memory_gb / measured.group_gb)
    return Packing(max(1, min(slots_that_fit(unpacked, [node]), by_memory)), gpus)


def probe(
    resolved: ResolvedSpace, paths: DataPaths, options: SweepOptions, examples: int | None = None
) -> list[Finding]:
    """Trains and measures the largest cell that lacks no input; a `stop` finding if there is none, or if its run fails.

    The run has whole GPUs, even if the options give runs a part of one.
    """
    node = this_machine()
    try:
        run, full_examples = largest_run(resolved, paths, options.workers, examples)
        gpus = math.ceil(options.gpus_per_worker)
        measured = measure(run, paths, dataclasses.replace(options, max_concurrent=1, gpus_per_worker=gpus))
        advice = packing(measured, options, node)
    except ConfigError as error:
        return [Finding("stop", "probe", line) for line in error.problems]
    gpu = f", {measured.gpu_gb:.1f} of {measured.gpu_size_gb:.0f} GB on the GPU" if measured.gpu_gb else ""
    command = shlex.join(["cse", "run", space_name(resolved.space.file)])
    usage = f"{measured.examples} examples in {measured.seconds:.1f} s, at most {measured.group_gb:.1f} GB{gpu}"
    seconds = measured.seconds * full_examples / measured.examples
    return [
        Finding("fine", "probe", f"{cell_name(run.cell)}: {usage}"),
        Finding("fine", "probe", f"a whole run at this speed, alone on the machine: about {seconds:.0f} s"),
        Finding("note", "probe", f"packing for {node}; {command} {advice}"),
        *([Finding("note", "probe", SHARED_LINE)] if 0 < advice.gpus_per_worker < 1 else []),
    ]


def largest_run(
    resolved: ResolvedSpace, paths: DataPaths, workers: int, examples: int | None
) -> tuple[PlannedRun, int]:
    """Returns a short run of the largest cell that lacks no input (by `size_of`), and the examples of its full run.

    `examples`: length of the short run; None for STEPS steps. Raises ConfigError with the reasons if every cell lacks
    one.
    """
    inputs, lines = Inputs(paths, workers), list[str]()
    largest: tuple[float, PlannedRun, int] | None = None
    for cell in resolved.cells():
        whole = cell.run(0)
        hashes, missing, _ = inputs.of(whole)
        lines += [gap.line for gap in missing]
        if not missing and (largest is None or size_of(whole) > largest[0]):
            length = examples or STEPS * whole.train.batch_size
            train = dataclasses.replace(whole.train, examples=length, evaluations=PROBE_EVALUATIONS)
            run = dataclasses.replace(whole, train=train)
            planned = PlannedRun(signature(run, hashes), run, hashes, dict(cell.key), 0, "probe")
            largest = size_of(whole), planned, examples_in(whole, hashes) or length
    if largest is None:
        raise ConfigError(list(dict.fromkeys(lines)))
    return largest[1:]


def size_of(run: RunConfig) -> float:
    """Returns a number that grows with a step's memory: tokens of a batch, times the encoder's width and layers."""
    length = getattr(run.options, "max_length", run.train.max_seq_length)  # of spans, where a method reads documents
    layers, width = shape_of(run.train.encoder)
    return float(run.train.batch_size * length * width * layers)


def shape_of(encoder: str) -> tuple[int, int]:
    """Returns layers and width of an encoder; (1, 1) if its folder does not give them, and for word vectors."""
    if encoder in ENCODER_SHAPES:
        return ENCODER_SHAPES[encoder][:2]
    if Path(encoder).is_file():
        return 1, 1
    file = locate(encoder) / "config.json"
    config = json.loads(file.read_text(encoding="utf8")) if file.is_file() else {}
    return config.get("num_hidden_layers", 1), config.get("hidden_size", 1)


def measure(run: PlannedRun, paths: DataPaths, options: SweepOptions) -> Measurement:
    """Trains the run in temporary folders, and returns what it took. Raises ConfigError with the reason if it fails."""
    with tempfile.TemporaryDirectory(prefix="cse-probe-") as folder:
        file = Path(folder, "ledger.db")
        settings = dataclasses.replace(options, storage=Path(folder, "storage"), function=TRAIN)
        watch = MemoryWatch(os.getpid())
        with background(watch.sample_until):
            outcome = run_sweep([run], file, paths, settings)
        if not outcome.done:
            reason = outcome.failures[0].reason if outcome.failures else "interrupted"
            raise ConfigError([f"probe failed: {reason}; cse train {run.run.method} with its settings shows where"])
        with contextlib.closing(Ledger.open(file)) as ledger:
            row = ledger.run(run.signature)
        assert row is not None and row.seconds is not None and row.examples is not None and row.folder is not None
        card = read_peak(Path(row.folder))
    return Measurement(
        group_gb=watch.peak / _GB,
        gpu_gb=card.held / _GB + CUDA_GB if card else 0.0,
        gpu_size_gb=card.size / _GB if card else 0.0,
        seconds=row.seconds,
        examples=row.examples,
    )


class MemoryWatch:
    """Peak main memory of a process's worker groups in bytes (`peak`); shared pages count in part (PSS)."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.peak = 0.0

    def sample(self) -> None:
        """Measures the memory of the worker processes below the watched process once; raises `peak` if it is higher."""
        total = 0.0
        for child in self._process.children(recursive=True):
            with contextlib.suppress(psutil.Error):  # a process that has ended
                title = " ".join(child.cmdline())
                if title.startswith(WORKER_TITLE) and not title.startswith(NO_WORKERS):
                    total += child.memory_full_info().pss
        self.peak = max(self.peak, total)

    def sample_until(self, done: threading.Event) -> None:
        while not done.wait(SAMPLE_SECONDS):
            self.sample()


def try_program(resolved: ResolvedSpace, paths: DataPaths) -> list[Finding]:
    """Runs the first cell's first seed twice, each until its first report; a `stop` finding if a run fails."""
    cell, seed = resolved.cells()[0], resolved.space.seeds[0]
    run, name = cell.run(seed), cell_name(cell.key, seed)
    try:
        first, second = (_report_once(run, paths) for _ in range(2))
    except ConfigError as error:
        return [Finding("stop", "try", line) for line in error.problems]
    except (ProgramFailed, MachineFault) as error:
        return [Finding("stop", "try", f"{name}: {error}")]
    sign = -1 if run.options.TURNED else 1  # the sign in which the user's script reported the score
    share = f"{first.examples / int(str(run.train.examples)):.0%} of the run"
    summary = f"{name}: {run.train.dev}={sign * first.best:.6g} after {first.seconds:.0f} s, {share}"
    if first.best == second.best:
        return [Finding("fine", "try", f"{summary}; the same seed twice gave one score")]
    line = f"your script does not set its seed: the same seed gave {sign * second.best:.6g} the second time"
    return [
        Finding("fine", "try", summary),
        Finding("note", "try", f"{line}; call transformers.set_seed(seed) at first"),
    ]


def _report_once(run: RunConfig, paths: DataPaths) -> Point:
    """Returns the first report of a run, and ends the run with it."""
    points: list[Point] = []

    def stop(point: Point) -> bool:
        points.append(point)
        return True

    with tempfile.TemporaryDirectory() as folder:
        train(run, paths, Path(folder), stop)
    return points[0]
