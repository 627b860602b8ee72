"""Writes checkpoints behind the training steps: an evaluation copies the state, and a `Saver` writes the copy."""

import copy
import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cse_train import checkpoint, distributed
from cse_train.checkpoint import State
from cse_train.config import RunConfig
from cse_train.fields import Json
from cse_train.methods.base import Method
from cse_train.results import Point
from cse_train.training.saver import Saver

WAIT_SECONDS = 1.0
"""Longest time that a rank waits for its own writes before it joins the next collective, in seconds."""
RANK_FILES_SECONDS, RANK_FILES_POLL_SECONDS = 30.0, 0.05
"""Seconds that rank 0 waits for other ranks' parts of a state, and seconds between two looks for them."""
log = logging.getLogger(__name__)


@dataclass
class BestWeights:
    """Weights of the best evaluation so far, kept in memory until they are on disk."""

    tensors: dict[str, Tensor]
    facts: Json
    written: bool = False


@dataclass
class Checkpoints:
    """Writes the checkpoints of a running training run; rank 0 writes the state that all ranks share."""

    folder: Path
    run: RunConfig
    signature: str
    saver: Saver
    best: BestWeights | None = None

    def take(self, step: int, state: State, rank_state: State, model: Method[Any], improved: Point | None) -> None:
        """Takes the state of an evaluation, to be written now if a write is due, else later unless a newer one comes.

        `rank_state`: what this rank alone has, where ranks differ. `improved`: the point of this evaluation if it is
        the best so far. A state names its best model, so both are written together.
        """
        is_due = self.saver.is_due
        if rank_state:
            is_due = distributed.is_agreed(int(is_due)) and is_due  # all ranks write the same step's
        best = checkpoint.select_kept(model) if improved and state else {}
        ready = None
        if not self.saver.is_waited_for:
            (state, rank_state, best), ready = _copy(state, rank_state, best)
        if improved and state:
            self.best = BestWeights(best, asdict(improved))
        if state or rank_state:
            self.saver.hand_over(_Snapshot(self, step, state, rank_state, self.best, ready).write, is_due)

    def finish(self) -> None:
        """Returns when every rank's newest state is on disk; no rank waits in a collective meanwhile."""
        is_written = False
        while not is_written:
            is_written = self.saver.wait(WAIT_SECONDS)
            is_written = distributed.is_agreed(int(is_written)) and is_written


@dataclass(frozen=True)
class _Snapshot:
    """State of one evaluation, ready to be written."""

    checkpoints: Checkpoints
    step: int
    state: State
    """State that all ranks share; empty on every rank but the first."""
    rank_state: State
    best: BestWeights | None
    ready: torch.cuda.Event | None
    """CUDA event after which the copies in main memory are complete; None if nothing is copied by a GPU."""

    def write(self) -> None:
        """Writes the state in an order in which a kill at any point leaves a state to resume from.

        First come the ranks' parts, then the new best model beside the old one, then the state that names it.
        """
        folder, best = self.checkpoints.folder, self.best
        if self.ready is not None:
            self.ready.synchronize()
        if self.rank_state:
            checkpoint.save_rank(folder, self.step, self.rank_state)
        if not self.state or not self._ranks_are_there():
            return
        if best is None or best.written:
            checkpoint.save_last(folder, self.state)
        else:  # the old best stays in its place until the state that names the new one is on disk
            run, signature = self.checkpoints.run, self.checkpoints.signature
            checkpoint.write_model(folder / checkpoint.WAITING, run, best.tensors, best.facts, signature)
            checkpoint.save_last(folder, self.state)
            checkpoint.publish_best(folder)
            best.written, best.tensors = True, {}
        if self.rank_state:
            checkpoint.forget_earlier(folder, self.step)

    def _ranks_are_there(self) -> bool:
        deadline = time.monotonic() + RANK_FILES_SECONDS
        while self.rank_state and not checkpoint.has_ranks(self.checkpoints.folder, self.step):
            if time.monotonic() > deadline:
                log.warning("the state of step %d is not saved: a rank has not written its part", self.step)
                return False
            time.sleep(RANK_FILES_POLL_SECONDS)
        return True


def _copy(*states: State) -> tuple[list[State], torch.cuda.Event | None]:
    """Copies states into main memory, pinned where they come from a GPU; tensors that share memory still share it.

    Also returns the CUDA event after which the copies are complete, None on a CPU. The GPU copies behind what it
    computes now, and before what comes next.
    """
    copies: dict[tuple[Any, ...], Tensor] = {}
    copied_states = [_copy_value(state, copies) for state in states]
    on_card = distributed.device().type == "cuda"
    return copied_states, torch.cuda.current_stream().record_event() if on_card else None


def _copy_value(value: Any, copies: dict[tuple[Any, ...], Tensor]) -> Any:
    """Copies one value for `_copy`, recursively.

    It is no closure in `_copy`: one that calls itself would hold all copies until Python's garbage collector runs.
    """
    if isinstance(value, dict):
        mapping = copy.copy(value)  # a state dict has its modules' versions as an attribute
        mapping.update((name, _copy_value(item, copies)) for name, item in value.items())
        return mapping
    if type(value) in (list, tuple):
        return type(value)(_copy_value(item, copies) for item in value)
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    place = (value.data_ptr() or id(value), value.shape, value.stride(), value.dtype)
    if place not in copies:
        host = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.device.type == "cuda")
        copies[place] = host.copy_(value, non_blocking=True)
    return copies[place]
