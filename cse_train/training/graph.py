"""Applies `train.graph` on a run's device: compiles the layers, or logs why it cannot."""

import functools
import logging

import torch
from torch import nn

from cse_train import distributed
from cse_train.encoder.card.compilers import find_lacking
from cse_train.encoder.layer import compile_layers

log = logging.getLogger(__name__)


def settle_graph(model: nn.Module, device: torch.device, setting: str) -> None:
    """Compiles the layers of `model` if `train.graph` is auto and it trains on a CUDA GPU with a working compiler.

    Without a compiler this is logged once, and the layers are computed eagerly.
    """
    if setting != "auto" or device.type != "cuda":
        return
    if missing := find_lacking():
        if distributed.rank() == 0:
            _say_eager(missing)
        return
    compile_layers(model)


@functools.cache
def _say_eager(missing: str) -> None:
    """Logs once per process that nothing is compiled, however many runs it trains."""
    log.warning("nothing compiled: train.graph=auto needs %s; steps are computed without it", missing)
