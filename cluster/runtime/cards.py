"""Kinds of GPUs of this machine or cluster, and checks of requests that those GPUs cannot meet."""

import functools
import os
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.runtime.options import SweepOptions
from cse_train.fields import ConfigError

CUDA_GB = 0.6
"""GB of GPU memory that each process leaves to CUDA and its libraries, in addition to torch's tensors."""
KIND_PREFIX = "accelerator_type:"
"""Prefix of the Ray resource that names a node's kind of GPU, as in `accelerator_type:A100`."""
PART_OF_KIND = 0.001
"""Amount of the `accelerator_type:` resource that a rank requests, as in Ray's guide.

A node has 1 of the resource, whatever its number of GPUs.
"""
BEFORE_AMPERE = ("K80", "P4", "P100", "V100", "T4")
"""GPU kinds, by Ray's names, that lack native bf16 multiplication."""
# read_cards expects these five columns in this order.
QUERY = ("nvidia-smi", "--query-gpu=index,uuid,name,compute_cap,mig.mode.current", "--format=csv,noheader")


@dataclass(frozen=True)
class GpuKind:
    """A kind of GPU: name, bf16 support, and whether MIG divides it."""

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
    """Returns `options` bound to the only kind of GPU present, where runs share one GPU.

    Nodes with another kind may join the cluster later, and a fraction of their GPUs would be another share of memory.
    """
    names = {card.name for card in kinds}
    if not 0 < options.gpus_per_worker < 1 or options.accelerator_type or len(names) != 1:
        return options
    return replace(options, accelerator_type=names.pop())


def _list_cards(cards: Sequence[GpuKind]) -> str:
    return ", ".join(dict.fromkeys(card.name for card in cards))


def local_kinds(options: SweepOptions) -> list[GpuKind]:
    """Returns the kinds of this machine's visible GPUs.

    Empty where `options` asks for no GPUs or the driver does not answer.
    """
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
        bf16 = float(capability) >= 8 if measured else not is_old(name)
        if names is None or divided or any(each == index or uuid.startswith(each) for each in names):
            cards.append(GpuKind(name, bf16, divided or mig == "Enabled"))
    return cards


def is_old(name: str) -> bool:
    """Tells whether a GPU of this name is known to emulate bf16 (kinds before Ampere)."""
    return any(GpuKind(name).is_of(kind) for kind in BEFORE_AMPERE)
