"""Decides the arithmetic of a run from `train.precision` and its device, and scales the loss for fp16."""

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
"""First compute capability of GPUs that multiply in fp16 many times as fast as in fp32."""


def settle_precision(run: RunConfig, device: torch.device) -> RunConfig:
    """Returns the run with `train.precision: auto` replaced: bf16 if every rank's GPU has it, else fp32.

    Raises ConfigError for bf16 on a GPU that emulates it, and for fp16 on a CPU, which would be another arithmetic
    under that name. fp32 on a GPU that can do better is logged once.
    """
    setting, is_able = run.train.precision, has_bf16(device)
    if setting == "auto":
        is_shared = distributed.is_agreed(int(is_able)) and is_able  # a collective: every rank must reach it
        return replace(run, train=replace(run.train, precision="bf16" if is_shared else "fp32"))
    if setting == "fp16" and device.type == "cpu":
        raise ConfigError(["no fp16: train.precision=fp16 on a CPU; set it to fp32 or auto, or train on a GPU"])
    if device.type == "cuda":
        if setting == "bf16" and not is_able:
            line = f"no bf16: train.precision=bf16 on {torch.cuda.get_device_name(device)}, which emulates it slowly"
            raise ConfigError([f"{line}; set it to fp16"])
        if setting == "fp32" and torch.cuda.get_device_capability(device) >= TENSOR_CORES and distributed.rank() == 0:
            _say_slow(torch.cuda.get_device_name(device), "auto (bf16) or tf32" if is_able else "fp16")
    return run


@functools.cache
def _say_slow(card: str, better: str) -> None:
    """Logs once per process that fp32 is slow on this GPU, however many runs the process trains."""
    log.warning("slow arithmetic: train.precision=fp32 on %s; %s is several times as fast there", card, better)


def loss_scaler(device: torch.device, precision: str) -> torch.amp.GradScaler:
    """Returns the scaler of the loss for fp16, whose small gradients would be 0; it skips updates that overflow.

    For any other precision it is disabled and changes nothing.
    """
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")


def count_every_update(optimiser: torch.optim.Optimizer, step: int) -> None:
    """Sets AdamW's step count to `step` (from 0), so that updates that a loss scaler skipped count too.

    The schedule and `set_step` count them as well. Torch's own count leaves them out, and whether one was skipped only
    the GPU knows.
    """
    counts = [state["step"] for state in optimiser.state.values() if "step" in state]
    if counts:
        torch._foreach_zero_(counts)
        torch._foreach_add_(counts, float(step))
