"""What `train.precision` comes to on a run's device, and the scale of the loss that fp16 needs."""

import functools
import logging
from dataclasses import replace

import torch

from cse_train import distributed
from cse_train.config import RunConfig
from cse_train.fields import ConfigError
from cse_train.numerics import has_bf16

log = logging.getLogger(__name__)
TENSOR_CORES = (7, 0)
"""The first compute capability whose cards multiply in fp16 many times as fast as in fp32."""


def settle_precision(run: RunConfig, device: torch.device) -> RunConfig:
    """The run with what `train.precision: auto` is on this device: bf16 where every rank's card has it, else fp32.

    Raises ConfigError for bf16 on a card that emulates it, and for fp16 on a CPU, which would be another arithmetic
    under that name. fp32 on a card that can do better is told once in the log.
    """
    asked, able = run.train.precision, has_bf16(device)
    if asked == "auto":
        every = distributed.is_agreed(int(able)) and able
        return replace(run, train=replace(run.train, precision="bf16" if every else "fp32"))
    if asked == "fp16" and device.type == "cpu":
        raise ConfigError(["no fp16: train.precision=fp16 on a CPU; set it to fp32 or auto, or train on a GPU"])
    if device.type == "cuda":
        if asked == "bf16" and not able:
            line = f"no bf16: train.precision=bf16 on {torch.cuda.get_device_name(device)}, which emulates it slowly"
            raise ConfigError([f"{line}; set it to fp16"])
        if asked == "fp32" and torch.cuda.get_device_capability(device) >= TENSOR_CORES and distributed.rank() == 0:
            _say_slow(torch.cuda.get_device_name(device), "auto (bf16) or tf32" if able else "fp16")
    return run


@functools.cache
def _say_slow(card: str, better: str) -> None:
    """Once in a process, whatever it trains."""
    log.warning("slow arithmetic: train.precision=fp32 on %s; %s is several times as fast there", card, better)


def loss_scaler(device: torch.device, precision: str) -> torch.amp.GradScaler:
    """What scales the loss of fp16, whose small gradients would be 0, and skips updates that overflow.

    Of any other arithmetic it leaves all as it is.
    """
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")


def count_every_update(optimiser: torch.optim.Optimizer, step: int) -> None:
    """Let AdamW count the updates that a scale skipped too, as the schedule and `set_step` do; `step` from 0.

    Torch's own count leaves them out, and whether one was skipped only the card knows.
    """
    counts = [state["step"] for state in optimiser.state.values() if "step" in state]
    if counts:
        torch._foreach_zero_(counts)
        torch._foreach_add_(counts, float(step))
