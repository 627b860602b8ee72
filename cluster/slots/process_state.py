"""Sets and restores everything that a job may change in its process, so that a slot's 50th run equals its first.

Covers jobs of this project's code and its libraries; after a job that runs code from outside, `WorkerGroup` ends the
process.
"""

import contextlib
import functools
import logging
import os
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cluster.runtime.resources import CUDA_GB, memory_bytes

_ONEDNN: Any = getattr(torch.backends.mkldnn, "matmul")  # noqa: B009
"""oneDNN's settings of matrix products, which torch's type hints lack."""


def limit_card_memory(share: float) -> None:
    """Limits a rank to its fraction of a GPU, less what CUDA takes, so that it cannot fill its neighbour's."""
    if 0 < share < 1 and torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        torch.cuda.set_per_process_memory_fraction(share - min(memory_bytes(CUDA_GB) / memory, share / 2))


@contextlib.contextmanager
def process_settings(threads: int, seed: int) -> Iterator[None]:
    """Context manager with fixed settings and random states inside; restores the earlier ones at exit."""
    before = [(put, take()) for take, put in _KNOBS]
    environment = dict(os.environ)
    with warnings.catch_warnings(), contextlib.chdir(Path.cwd()):
        try:
            torch.set_num_threads(threads)
            torch.set_float32_matmul_precision("highest")
            torch.set_grad_enabled(True)
            torch.set_default_dtype(torch.float32)
            torch.use_deterministic_algorithms(False)
            torch.backends.cudnn.benchmark = False
            torch.set_flush_denormal(False)
            torch.manual_seed(seed)
            # NumPy takes seeds of 32 bits only.
            np.random.seed(seed % 2**32)
            random.seed(seed)
            yield
        finally:
            for put, value in before:
                put(value)
            for name in set(os.environ) - set(environment):
                del os.environ[name]
            os.environ.update(environment)


def _cuda_states() -> list[torch.Tensor]:
    return torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []


def _put_cuda_states(states: list[torch.Tensor]) -> None:
    if states:
        torch.cuda.set_rng_state_all(states)


Knob = tuple[Callable[[], Any], Callable[[Any], object]]


def _attribute(owner: Any, name: str) -> Knob:
    return functools.partial(getattr, owner, name), functools.partial(setattr, owner, name)


_KNOBS: list[Knob] = [
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    _attribute(_ONEDNN, "fp32_precision"),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    *(_attribute(torch.backends.cudnn, name) for name in ("benchmark", "deterministic", "allow_tf32")),
    (torch.get_rng_state, torch.set_rng_state),
    (_cuda_states, _put_cuda_states),
    (np.random.get_state, np.random.set_state),
    (random.getstate, random.setstate),
]


LOG_CHARACTERS = 64_000_000
"""Maximum number of characters of a log; a longer one keeps its first half and its newest lines."""


class LimitedLog:
    """Text file opened for append that is cut where it grows too long; other attributes are the file's own."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._size = stream, os.fstat(stream.fileno()).st_size

    def write(self, text: str) -> int:
        half = LOG_CHARACTERS // 2
        if self._size + len(text) > LOG_CHARACTERS:
            self._stream.truncate(half)
            self._size = half
            self._stream.write(f"\n... cut here: a log has {LOG_CHARACTERS} characters at most ...\n")
        self._size += len(text[-half:])
        self._stream.write(text[-half:])
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def job_log(path: Path) -> Iterator[None]:
    """Context manager in which logging, prints and warnings of a job go to the file `path` and not to the console."""
    path.parent.mkdir(parents=True, exist_ok=True)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    with path.open("a", encoding="utf-8", buffering=1) as file:
        stream: Any = LimitedLog(file)
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root.handlers = [handler]
        root.setLevel(logging.INFO)
        try:
            with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
                yield
        finally:
            root.handlers = handlers
            root.setLevel(level)
