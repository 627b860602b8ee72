"""Says which GPUs, CPUs and RAM a machine or a cluster has, and how many worker groups fit."""

import bisect
import functools
import math
import os
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from cluster.runtime.options import SweepOptions
from cluster.runtime.ray_internals import HEAD_RESOURCE
from cse_train.fields import ConfigError

CUDA_GB = 0.6
"""GB of GPU memory that each process leaves to CUDA and its libraries, in addition to torch's tensors."""
KIND_PREFIX = "accelerator_type:"
"""Prefix of the Ray resource that names a node's kind of GPU, as in `accelerator_type:A100`."""
PART_OF_KIND = 0.001
"""Amount of the `accelerator_type:` resource that a rank requests; a node has 1, whatever its number of GPUs."""
BEFORE_AMPERE = ("K80", "P4", "P100", "V100", "T4")
"""GPU kinds, by Ray's names, that lack native bf16 multiplication."""
# read_cards expects these five columns in this order.
QUERY = ("nvidia-smi", "--query-gpu=index,uuid,name,compute_cap,mig.mode.current", "--format=csv,noheader")


@dataclass(frozen=True)
class GpuKind:
    name: str
    """Name of the whole card with its words joined by dashes, or Ray's name of its kind."""
    has_bf16: bool = True
    mig: bool = False
    """True if the card is divided into MIG instances."""

    def is_of(self, kind: str) -> bool:
        """Tells whether Ray's accelerator type `kind` (A100, RTX-PRO-6000, GeForce-RTX-5090) names this GPU."""
        return f"-{kind}-".lower() in f"-{self.name}-".lower()


def check_cards(options: SweepOptions, kinds: Sequence[GpuKind], precisions: Collection[str] = ()) -> None:
    """Raises ConfigError where GPUs of `kinds` cannot do what `options` and `precisions` ask for.

    `kinds`: GPUs of the machine or cluster, empty where unknown. `precisions`: values of `train.precision` in the runs.
    A fraction of a GPU is refused on mixed kinds, since it would be a different share of memory on each.
    """
    gpus, kind = options.gpus_per_worker, options.accelerator_type
    if "fp16" in precisions and not gpus:
        raise ConfigError(["no fp16: train.precision=fp16 without GPUs; give --gpus-per-worker 1, or set it to fp32"])
    if kind and not gpus:
        line = f"a kind of GPU for runs without one: accelerator_type={kind} gpus_per_worker=0"
        raise ConfigError([f"{line}; give --gpus-per-worker 1, or leave --accelerator-type out"])
    cards = [card for card in kinds if not kind or card.is_of(kind)] if gpus else []
    if gpus and kinds and not cards:
        line = f"no such GPU: accelerator_type={kind}; there: {_list_cards(kinds)}"
        raise ConfigError([f"{line}; give one of these, or leave --accelerator-type out"])
    problems = []
    if 0 < gpus < 1 and any(card.mig for card in cards):
        problems.append(describe_mig(gpus, _list_cards([card for card in cards if card.mig])))
    if 0 < gpus < 1 and len({card.name for card in cards}) > 1:
        line = f"parts of different GPUs: gpus_per_worker={gpus:g} on {_list_cards(cards)}"
        problems.append(f"{line}; give --accelerator-type with one of them, or --gpus-per-worker 1")
    if "bf16" in precisions and (old := [card for card in cards if not card.has_bf16]):
        line = f"no bf16: train.precision=bf16 on {_list_cards(old)}, before Ampere; set it to fp16"
        problems.append(line if len(old) == len(cards) else f"{line}, or give --accelerator-type with another")
    if problems:
        raise ConfigError(problems)


def describe_mig(gpus: float, card: str) -> str:
    """Returns the one-line problem of a fractional `gpus_per_worker` on a MIG instance."""
    line = f"part of a MIG instance: gpus_per_worker={gpus:g} on {card}, which MIG has divided already"
    return f"{line}; give --gpus-per-worker 1, and each instance's UUID in CUDA_VISIBLE_DEVICES"


def keep_kind(options: SweepOptions, kinds: Sequence[GpuKind]) -> SweepOptions:
    """Binds options of runs that share a GPU to the only kind there is: on another kind their share would differ."""
    names = {card.name for card in kinds}
    if not 0 < options.gpus_per_worker < 1 or options.accelerator_type or len(names) != 1:
        return options
    return replace(options, accelerator_type=names.pop())


def _list_cards(cards: Sequence[GpuKind]) -> str:
    return ", ".join(dict.fromkeys(card.name for card in cards))


def local_kinds(options: SweepOptions) -> list[GpuKind]:
    """Returns the kinds of this machine's visible GPUs; none where `options` asks for no GPUs."""
    return read_cards(ask_driver(), os.environ.get("CUDA_VISIBLE_DEVICES")) if options.gpus_per_worker else []


def is_wsl() -> bool:
    """Tells whether this is Linux inside Windows (WSL2), where Windows' driver serves the GPUs."""
    return Path("/dev/dxg").exists()


@functools.cache
def ask_driver() -> str:
    """Returns nvidia-smi's CSV table of this machine's GPUs (`QUERY`), one line each; empty where nvidia-smi fails."""
    try:
        return subprocess.run(QUERY, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def read_cards(table: str, visible: str | None = None) -> list[GpuKind]:
    """Parses nvidia-smi's table (`QUERY`) into the GPUs that CUDA_VISIBLE_DEVICES names.

    `visible` is the value of CUDA_VISIBLE_DEVICES, None where it is unset. A compute capability of `[N/A]` is replaced
    by what the GPU's name says of bf16.
    """
    names = None if visible is None else [name.strip() for name in visible.split(",") if name.strip()]
    # MIG UUIDs name instances, not the GPUs that nvidia-smi lists: all GPUs then count as visible and divided.
    divided = any(name.startswith("MIG-") for name in names or ())
    cards = []
    for line in table.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 5:
            continue
        index, uuid, name, capability, mig = fields
        name = re.sub(r"\W+", "-", name).strip("-")
        measured = re.fullmatch(r"\d+\.\d+", capability)
        bf16 = float(capability) >= 8 if measured else not _is_old(name)
        if names is None or divided or any(each == index or uuid.startswith(each) for each in names):
            cards.append(GpuKind(name, bf16, divided or mig == "Enabled"))
    return cards


def _is_old(name: str) -> bool:
    """Tells whether a GPU of this name is known to emulate bf16 (kinds before Ampere)."""
    return any(GpuKind(name).is_of(kind) for kind in BEFORE_AMPERE)


GROUP_GB = 0.6
"""GB of RAM of a slot without its ranks: slot, Ray Train's controller and helpers, mailbox."""
WORKER_GB = 1.2
"""GB of RAM of one rank, measured at 4 layers of width 128 and batch 64.

A near-empty run takes 0.8; a group of 2 ranks takes about 3.
"""
SLOT = "trial_slot"
"""Ray resource of nodes on which slots may live."""
AMPLE_AMOUNT = 1e6
"""Amount of a resource that no cluster has, for asking which resource limits the number of slots."""
NODES_NAMED = 4
_GB = 1024**3


@dataclass(frozen=True, kw_only=True)
class Node:
    """CPUs, GPUs, RAM and places for slots that one machine offers to worker groups."""

    cpus: float
    gpus: float
    memory_gb: float
    name: str = "this machine"
    head: bool = False
    slots: float = 0
    """Slots that may live on this node, in addition to the slots of the head."""
    cards: tuple[GpuKind, ...] = ()
    """Kinds of the node's GPUs; empty where Ray does not report them."""

    def __str__(self) -> str:
        return f"{self.name} {self.cpus:g} CPUs, {self.gpus:g} GPUs, {self.memory_gb:.1f} GB free"


def check_options(options: SweepOptions) -> None:
    """Raises ConfigError for settings that no machine could run, such as GPU fractions that do not divide 1."""
    numbers = {name: getattr(options, name) for name in ("workers", "cpus_per_worker", "recycle_after")}
    wrong = {name: value for name, value in numbers.items() if not 0 < value < math.inf}
    problems = [f"out of range: {name}={value:g}; give a number > 0" for name, value in wrong.items()]
    if options.max_concurrent is not None and options.max_concurrent < 1:
        problems.append(f"out of range: max_concurrent={options.max_concurrent}; give 1 or more, or leave it out")
    if not 0 <= options.save_minutes < math.inf:
        problems.append(f"out of range: save_minutes={options.save_minutes:g}; give a number of minutes, or 0")
    problems += _gpu_problems(options.gpus_per_worker, options.workers)
    if problems:
        raise ConfigError(problems)


def _gpu_problems(gpus: float, workers: int) -> list[str]:
    if not 0 <= gpus < math.inf or (gpus > 1 and gpus != int(gpus)):
        return [f"out of range: gpus_per_worker={gpus}; give 0, a fraction that divides 1, or a whole number"]
    if gpus == int(gpus):
        return []
    if workers > 1:
        line = f"two ranks on one GPU: workers={workers} gpus_per_worker={gpus}"
        return [f"{line}; NCCL refuses that: give gpus_per_worker=1, or workers=1"]
    runs, parts = int(1 / gpus), round(1 / gpus)
    # Ray keeps four decimals: 0.3333 counts as a third.
    if not 1 - parts * 1e-4 <= parts * gpus <= 1 + 1e-9:
        fractions = " or ".join(f"{int(1e4 / count) / 1e4:g}" for count in (runs, runs + 1))
        fill = f"gpus_per_worker={gpus} lets {runs} run{'s' if runs > 1 else ''} fill {runs * gpus:g} of it"
        return [f"part of a GPU is left over: {fill}; give a fraction that divides 1: {fractions}"]
    return []


def slots_that_fit(options: SweepOptions, nodes: Sequence[Node]) -> int:
    """Returns how many worker groups fit at once, at most `max_concurrent`; raises ConfigError where none fits."""
    check_options(options)
    if fit := slots_that_fit_or_0(options, nodes):
        return fit
    if options.gpus_per_worker and nodes and not any(node.gpus for node in nodes):
        line = f"no GPU: gpus_per_worker={options.gpus_per_worker:g}; there: {_list_nodes(nodes)}"
        line = f"{line}; start Ray on a machine with GPUs (ray start --num-gpus N), or leave --gpus-per-worker out"
        raise ConfigError([line])
    kind = f" of {options.accelerator_type}" if options.accelerator_type else ""
    needs = (
        f"workers={options.workers} x (cpus_per_worker={options.cpus_per_worker:g}, "
        f"gpus_per_worker={options.gpus_per_worker:g}{kind}) and {group_memory_gb(options):.1f} GB of RAM"
    )
    line = f"a run does not fit: {needs}; there: {_list_nodes(nodes)}; ask for fewer or smaller workers"
    raise ConfigError([line])


def slots_that_fit_or_0(options: SweepOptions, nodes: Sequence[Node]) -> int:
    """Returns how many worker groups fit at once, at most `max_concurrent`, for options that were checked.

    Ranks all have one shape, and a group may span nodes: no order of placing groups holds fewer.
    """
    fit = sum(_ranks_on(node, options, slots=0) for node in nodes) // options.workers
    fit = min(fit, options.max_concurrent or fit)
    # Whether n slots fit is monotone in n, so the first n that does not fit is found by bisection.
    return bisect.bisect_left(
        range(1, fit + 1),
        True,
        key=lambda slots: not (fit_on_head(options, nodes, slots) or _fit_anywhere(options, nodes, slots)),
    )


def fit_on_head(options: SweepOptions, nodes: Sequence[Node], slots: int) -> bool:
    """Tells whether `slots` groups fit with all slots on the head: a lost node then costs a slot only its ranks."""
    head = next((node for node in nodes if node.head), nodes[0])
    ranks = sum(_ranks_on(node, options, slots if node is head else 0) for node in nodes)
    return head.memory_gb >= slots * GROUP_GB and ranks >= slots * options.workers


def _fit_anywhere(options: SweepOptions, nodes: Sequence[Node], slots: int) -> bool:
    """Tells whether `slots` groups fit with slots spread over the nodes that take them, in proportion to memory."""
    hosts = [node for node in nodes if node.slots]
    memory, places = sum(node.memory_gb for node in hosts), sum(node.slots for node in hosts)
    if not hosts or places < slots or memory < slots * GROUP_GB:
        return False
    share = slots / memory
    ranks = sum(_ranks_on(node, options, math.ceil(share * node.memory_gb) if node.slots else 0) for node in nodes)
    return ranks >= slots * options.workers


def limit(options: SweepOptions, nodes: Sequence[Node]) -> str:
    """Returns, for a person, what limits the number of slots; raises ConfigError as `slots_that_fit` does."""
    fit, free = slots_that_fit(options, nodes), replace(options, max_concurrent=None)
    if slots_that_fit(free, nodes) > fit:
        return f"--max-concurrent {fit}"
    head = next((node for node in nodes if node.head), nodes[0])
    memory = f"the head's memory ({head.memory_gb:.1f} GB, {GROUP_GB:g} a slot)"
    if not any(node.slots for node in nodes if node is not head):
        memory += "; start the other nodes with places for slots: --resources '{\"trial_slot\": 1024}'"
    more = {
        "GPUs": [replace(node, gpus=AMPLE_AMOUNT) for node in nodes],
        "CPUs": [replace(node, cpus=AMPLE_AMOUNT) for node in nodes],
        memory: [replace(node, memory_gb=AMPLE_AMOUNT) if node is head else node for node in nodes],
        "memory": [replace(node, memory_gb=AMPLE_AMOUNT) for node in nodes],
        "places for slots (trial_slot)": [replace(node, slots=AMPLE_AMOUNT) for node in nodes],
    }
    if len(nodes) == 1:
        del more[memory]
    alone = [name for name, other in more.items() if slots_that_fit_or_0(free, other) > fit]
    return alone[0] if alone else "CPUs, GPUs and memory" if options.gpus_per_worker else "CPUs and memory"


def memory_bytes(gb: float) -> int:
    """Returns GB as whole bytes, the unit of Ray's `memory` resource (1 GB = 1024^3 bytes)."""
    return int(gb * _GB)


def group_memory_gb(options: SweepOptions) -> float:
    return GROUP_GB + WORKER_GB * options.workers


def this_machine() -> Node:
    """Returns this machine's usable CPUs, NVIDIA GPUs, and RAM that is free now within the container's limits."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        gpus = len([gpu for gpu in visible.split(",") if gpu.strip() not in ("", "-1")])
    elif is_wsl():  # without a folder of the driver's
        gpus = len(read_cards(ask_driver()))
    else:
        gpus = len(list(Path("/proc/driver/nvidia/gpus").glob("*")))
    free = [float(psutil.virtual_memory().available)]
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
        free.append(float(text) - float(used.read_text()))
    return Node(cpus=cpus, gpus=gpus, memory_gb=min(free) / _GB)


def cluster_nodes() -> list[Node]:
    """Returns the living nodes of the connected Ray cluster, with their whole resources, used or not."""
    import ray

    return [_node(node) for node in ray.nodes() if node["Alive"]]


def _node(facts: Any) -> Node:
    resources = facts["Resources"]
    kinds = [name.removeprefix(KIND_PREFIX) for name in sorted(resources) if name.startswith(KIND_PREFIX)]
    return Node(
        cpus=resources.get("CPU", 0),
        gpus=resources.get("GPU", 0),
        memory_gb=resources.get("memory", 0) / _GB,
        name=facts.get("NodeManagerHostname") or facts.get("NodeManagerAddress", "a node"),
        head=HEAD_RESOURCE in resources,
        slots=resources.get(SLOT, 0),
        cards=tuple(GpuKind(kind, not _is_old(kind)) for kind in kinds),
    )


def cards_of(nodes: Sequence[Node]) -> list[GpuKind]:
    return sorted({card for node in nodes if node.gpus for card in node.cards}, key=lambda card: card.name)


def _ranks_on(node: Node, options: SweepOptions, slots: int) -> int:
    """Returns how many ranks fit on a node that also hosts `slots` slots."""
    room = [node.cpus / options.cpus_per_worker, (node.memory_gb - slots * GROUP_GB) / WORKER_GB]
    if options.gpus_per_worker:
        kind = options.accelerator_type
        lacks_kind = kind and node.cards and not any(card.is_of(kind) for card in node.cards)
        room.append(0 if lacks_kind else node.gpus / options.gpus_per_worker)
    # 1e-9: quotients such as 0.6 / 0.2 come out just below a whole number.
    return max(0, int(min(room) + 1e-9))


def _list_nodes(nodes: Sequence[Node]) -> str:
    more = [f"and {len(nodes) - NODES_NAMED} more"] if len(nodes) > NODES_NAMED else []
    return "; ".join([*map(str, nodes[:NODES_NAMED]), *more]) or "no node"
