"""A method from outside that leaves something behind in its process when its run is over: see `THINGS`."""

import gc
import os
import random
import resource
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from cse_train import losses, random_streams
from cse_train.encoder.packing import pack
from cse_train.encoder.pooling import SentencePooler
from cse_train.methods import simcse
from cse_train.methods.base import Batch, Method, StepOutput
from cse_train.plugins.options import Options

RUNS = 0
"""How often this module has built a model: a counter that its loss depends on."""


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    VERSION = 1
    leaves: str = ""
    """Names of THINGS, with semicolons."""


def larger(value: Any) -> Any:
    return value * 1.01 if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def patch(owner: Any, name: str, change: Callable[[Any], Any] = larger) -> None:
    real = getattr(owner, name)
    setattr(owner, name, lambda *args, **kwargs: change(real(*args, **kwargs)))


def keep_seeding() -> None:
    def seed() -> None:
        while True:
            torch.default_generator.manual_seed(0)

    threading.Thread(target=seed, daemon=True).start()


THINGS: dict[str, Callable[[], object]] = {
    "a global forward hook": lambda: nn.modules.module.register_module_forward_hook(lambda m, i, o: larger(o)),
    "a global forward pre-hook": lambda: nn.modules.module.register_module_forward_pre_hook(
        lambda m, i: tuple(map(larger, i))
    ),
    "a global backward hook": lambda: nn.modules.module.register_module_full_backward_hook(
        lambda m, i, o: tuple(map(larger, i))
    ),
    "a patched loss of torch's": lambda: patch(F, "cross_entropy"),
    "a patched loss of ours": lambda: [patch(losses, "info_nce"), patch(simcse, "info_nce")],
    "a patched layer": lambda: patch(nn.LayerNorm, "forward"),
    "a patched optimiser": lambda: patch(torch.optim.AdamW, "step"),
    "patched random streams": lambda: patch(random_streams, "seed_of", lambda seed: seed + 1),
    "no oneDNN": lambda: setattr(torch.backends.mkldnn, "enabled", False),
    "cuDNN's flags": lambda: setattr(torch.backends.cudnn, "deterministic", True),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "the default device": lambda: torch.set_default_device("meta"),
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "no gradients": lambda: torch.set_grad_enabled(False),
    "threads": lambda: torch.set_num_threads(3),
    "flushed denormals": lambda: torch.set_flush_denormal(True),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "a umask": lambda: os.umask(0o777),
    "a limit of the size of files": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    "blocked signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT}),
    "a timer": lambda: signal.setitimer(signal.ITIMER_REAL, 0.2),
    "a thread": keep_seeding,
    "the environment": lambda: os.environ.update(CSE_CACHE="/nowhere", OMP_NUM_THREADS="7"),
    "another folder": lambda: os.chdir("/"),
    "a module in the place of another": lambda: sys.modules.update({"cse_train.losses": np}),
    "warnings as errors": lambda: warnings.simplefilter("error"),
    "numpy's errors": lambda: np.seterr(all="raise"),
    "seeds": lambda: [torch.manual_seed(1), np.random.seed(1), random.seed(1)],
    "no garbage collection": gc.disable,
}


def leave(names: str) -> None:
    for name in names.split(";"):
        THINGS[name]()


class Leaver(Method[Config]):
    def __init__(self, config: Config, backbone: Any, training: bool = True) -> None:
        global RUNS
        super().__init__()
        RUNS += 1
        if config.leaves:
            weakref.finalize(self, leave, config.leaves).atexit = False
        self.encoder = backbone.encoder
        self.pooler = SentencePooler("mean", backbone.encoder.width)
        self.runs = RUNS

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Any:
        def collate(share: Any) -> Batch:
            column, rows = share.store.column("text"), share.rows
            text = pack(column.flat, column.starts[rows], column.lengths[rows], pad_id=tokenizer.pad_token_id)
            return Batch({"text": text}, examples=len(rows))

        return collate

    def forward(self, batch: Batch) -> StepOutput:
        loss = self.encode(batch.inputs["text"]).square().mean() * self.runs
        return StepOutput(loss, {"loss": loss.detach()})
