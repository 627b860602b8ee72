"""Whether a run's worker group fits the machine or the cluster, and how many fit at once: CPUs, GPUs and RAM alike."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.options import SweepOptions
from cse_train.fields import ConfigError

GROUP_GB = 0.6
"""RAM of a slot without its ranks: the slot, Train's controller and its helpers, the mailbox; most pages are shared."""
WORKER_GB = 1.2
"""RAM of one rank, measured at L4 H128 and batch 64 (0.8 for a near-empty run); a group of 2 takes about 3 GB."""
_GB = 1024**3


@dataclass(frozen=True, kw_only=True)
class Node:
    """What one machine offers to worker groups."""

    cpus: float
    gpus: float
    memory_gb: float


def check_options(options: SweepOptions) -> None:
    """ConfigError for settings that no machine could run."""
    found = []
    for name in ("workers", "cpus_per_worker", "recycle_after"):
        if getattr(options, name) <= 0:
            found.append(f"out of range: {name}={getattr(options, name)}; give a number > 0")
    if options.max_concurrent is not None and options.max_concurrent < 1:
        found.append(f"out of range: max_concurrent={options.max_concurrent}; give 1 or more, or leave it out")
    gpus = options.gpus_per_worker
    if 0 < gpus < 1 and options.workers > 1:
        found.append(
            f"two ranks on one card: workers={options.workers} gpus_per_worker={gpus}; "
            "NCCL refuses that: give gpus_per_worker=1, or workers=1"
        )
    if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
        found.append(f"out of range: gpus_per_worker={gpus}; give 0, a fraction below 1, or a whole number")
    if found:
        raise ConfigError(found)


def slots_that_fit(options: SweepOptions, nodes: Sequence[Node]) -> int:
    """Worker groups that fit at once, at most `max_concurrent`; ConfigError when not even one does."""
    check_options(options)
    ranks = sum(_ranks_on(node, options) for node in nodes)
    memory = sum(node.memory_gb for node in nodes)
    fit = min(ranks // options.workers, int(memory / group_memory_gb(options)))
    if fit < 1:
        raise ConfigError([_misfit(options, nodes)])
    return min(fit, options.max_concurrent or fit)


def group_memory_gb(options: SweepOptions) -> float:
    """RAM that a warm worker group takes."""
    return GROUP_GB + WORKER_GB * options.workers


def this_machine() -> Node:
    """CPUs this process may use, NVIDIA cards, and RAM that is free now, within the container's limits."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Node(cpus=cpus, gpus=_cards(), memory_gb=_free_memory() / _GB)


def cluster_nodes() -> list[Node]:
    """The alive nodes of the Ray cluster that this process is connected to, as they are when idle."""
    import ray

    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [Node(cpus=r.get("CPU", 0), gpus=r.get("GPU", 0), memory_gb=r.get("memory", 0) / _GB) for r in alive]


def _ranks_on(node: Node, options: SweepOptions) -> int:
    by_cpu = int(node.cpus / options.cpus_per_worker + 1e-9)
    if not options.gpus_per_worker:
        return by_cpu
    return min(by_cpu, int(node.gpus / options.gpus_per_worker + 1e-9))


def _misfit(options: SweepOptions, nodes: Sequence[Node]) -> str:
    asked = (
        f"workers={options.workers} x (cpus_per_worker={options.cpus_per_worker:g}, "
        f"gpus_per_worker={options.gpus_per_worker:g}) and {group_memory_gb(options):.1f} GB of RAM"
    )
    there = "; ".join(f"{n.cpus:g} CPUs, {n.gpus:g} GPUs, {n.memory_gb:.1f} GB free" for n in nodes) or "no node"
    return f"a run does not fit: {asked}; there: {there}; ask for fewer or smaller workers"


def _cards() -> int:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([card for card in visible.split(",") if card.strip() not in ("", "-1")])
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*"))) if Path("/proc/driver/nvidia/gpus").is_dir() else 0


def _free_memory() -> float:
    """Bytes; the least of what the kernel calls available and what is left of the control group's limit."""
    free = [_available()]
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
        free.append(float(text) - float(used.read_text()))
    return min(free)


def _available() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").exists() else ():
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024
    return float("inf")
