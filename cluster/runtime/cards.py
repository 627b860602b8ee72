"""Kinds of GPUs: what this machine and a cluster have, and what is asked of them that they cannot do."""

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
"""Memory of a card that is left to CUDA and its libraries for each process, beside torch's tensors."""
KIND = "accelerator_type:"
"""How the resource begins by which Ray says what GPUs a node has: `accelerator_type:A100`."""
PART_OF_KIND = 0.001
"""What a rank takes of it, as Ray's guide does: a node has 1, whatever its number of GPUs."""
BEFORE_AMPERE = ("K80", "P4", "P100", "V100", "T4")
"""Kinds of GPUs that do not multiply in bf16, of those that Ray names."""
QUERY = ("nvidia-smi", "--query-gpu=index,uuid,name,compute_cap,mig.mode.current", "--format=csv,noheader")


@dataclass(frozen=True)
class GpuKind:
    """A kind of GPU."""

    name: str
    """Of the whole card, its words joined by dashes, or as Ray names its kind."""
    has_bf16: bool = True
    mig: bool = False
    """Whether it is divided into MIG instances."""

    def is_of(self, kind: str) -> bool:
        """Whether this is what Ray means by A100, RTX-PRO-6000 or GeForce-RTX-5090."""
        return f"-{kind}-".lower() in f"-{self.name}-".lower()


def check_cards(options: SweepOptions, kinds: Sequence[GpuKind], precisions: Collection[str] = ()) -> None:
    """ConfigError where GPUs cannot do what is asked; `kinds`: those that there are, none where nobody says them.

    `precisions`: what `train.precision` asks for in the runs. Parts of different cards are different shares of memory.
    """
    gpus, wanted = options.gpus_per_worker, options.accelerator_type
    if "fp16" in precisions and not gpus:
        raise ConfigError(["no fp16: train.precision=fp16 without GPUs; give --gpus-per-worker 1, or set it to fp32"])
    if wanted and not gpus:
        line = f"a kind of GPU for runs without one: accelerator_type={wanted} gpus_per_worker=0"
        raise ConfigError([f"{line}; give --gpus-per-worker 1, or leave --accelerator-type out"])
    cards = [card for card in kinds if not wanted or card.is_of(wanted)] if gpus else []
    if gpus and kinds and not cards:
        line = f"no such GPU: accelerator_type={wanted}; there: {_list_cards(kinds)}"
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
    """The problem of a part of a MIG instance."""
    line = f"part of a MIG instance: gpus_per_worker={gpus:g} on {card}, which MIG has divided already"
    return f"{line}; give --gpus-per-worker 1, and each instance's UUID in CUDA_VISIBLE_DEVICES"


def keep_kind(options: SweepOptions, kinds: Sequence[GpuKind]) -> SweepOptions:
    """The options, bound to the one kind of GPU that there is where runs share one: others may join meanwhile."""
    names = {card.name for card in kinds}
    if not 0 < options.gpus_per_worker < 1 or options.accelerator_type or len(names) != 1:
        return options
    return replace(options, accelerator_type=names.pop())


def _list_cards(cards: Sequence[GpuKind]) -> str:
    return ", ".join(dict.fromkeys(card.name for card in cards))


def local_kinds(options: SweepOptions) -> list[GpuKind]:
    """Of this machine's visible GPUs, where some are asked for; none where the driver does not answer."""
    return read_cards(ask_driver(), os.environ.get("CUDA_VISIBLE_DEVICES")) if options.gpus_per_worker else []


def is_wsl() -> bool:
    """Whether this is Linux inside of Windows (WSL2), whose cards are Windows' own."""
    return Path("/dev/dxg").exists()


@functools.cache
def ask_driver() -> str:
    """What nvidia-smi says of this machine's GPUs, a line for each; empty where it does not answer."""
    try:
        return subprocess.run(QUERY, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def read_cards(table: str, visible: str | None = None) -> list[GpuKind]:
    """Of nvidia-smi's table (QUERY) the GPUs that CUDA_VISIBLE_DEVICES names; a field may be `[N/A]`."""
    names = None if visible is None else [name.strip() for name in visible.split(",") if name.strip()]
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
    """Whether a GPU of this name is known to multiply in bf16 by emulation alone."""
    return any(GpuKind(name).is_of(kind) for kind in BEFORE_AMPERE)
