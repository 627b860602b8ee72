"""What `train.graph` comes to on a run's device."""

import functools
import logging

import torch
from torch import nn

from cse_train import distributed
from cse_train.encoder.card.compilers import find_lacking
from cse_train.encoder.layer import compile_layers

log = logging.getLogger(__name__)


def settle_graph(model: nn.Module, device: torch.device, asked: str) -> None:
    """Compile the layers of `model` where it trains on a card that kernels can be made for, and `auto` is asked for.

    Where they cannot be made it is told once in the log, and the layers are computed as they are.
    """
    if asked != "auto" or device.type != "cuda":
        return
    if lacking := find_lacking():
        if distributed.rank() == 0:
            _say_eager(lacking)
        return
    compile_layers(model)


@functools.cache
def _say_eager(lacking: str) -> None:
    """Once in a process, whatever it trains."""
    log.warning("nothing compiled: train.graph=auto needs %s; steps are computed without it", lacking)
