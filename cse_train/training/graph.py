"""What `train.graph` comes to on a run's device."""

import functools
import importlib.util
import logging
import os
import shutil

import torch
from torch import nn

from cse_train import distributed
from cse_train.encoder.layer import compile_layers

log = logging.getLogger(__name__)


def settle_graph(model: nn.Module, device: torch.device, asked: str) -> None:
    """Compile the layers of `model` where it trains on a card that kernels can be made for, and `auto` is asked for.

    Where they cannot be made it is told once in the log, and the layers are computed as they are.
    """
    if asked != "auto" or device.type != "cuda":
        return
    if lacking := _find_lacking():
        if distributed.rank() == 0:
            _say_eager(lacking)
        return
    compile_layers(model)


def _find_lacking() -> str:
    """What torch.compile needs for a card and does not find; empty where all is there."""
    if importlib.util.find_spec("triton") is None:
        return "the package triton"
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    return "" if any(name and shutil.which(name) for name in compilers) else "a C compiler"


@functools.cache
def _say_eager(lacking: str) -> None:
    """Once in a process, whatever it trains."""
    log.warning("nothing compiled: train.graph=auto needs %s; steps are computed without it", lacking)
