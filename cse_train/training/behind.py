"""Checkpoints behind the step: a state is copied at an evaluation, and a `Saver` writes the copy when it is time."""

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

BEAT_S = 1.0
"""Seconds that a rank stands in a collective at most while another writes."""
RANKS_S, RANKS_LOOK_S = 30.0, 0.05
"""Seconds that a joined state waits for what other ranks add to it, and between two looks."""
log = logging.getLogger(__name__)


@dataclass
class BestWeights:
    """That of the best evaluation so far, until it is on the disk."""

    tensors: dict[str, Tensor]
    facts: Json
    written: bool = False


@dataclass
class Checkpoints:
    """Those of a run that trains. Rank 0 writes what all ranks have in common."""

    folder: Path
    run: RunConfig
    signature: str
    saver: Saver
    best: BestWeights | None = None

    def take(self, step: int, state: State, rank_state: State, model: Method[Any], improved: Point | None) -> None:
        """What there is at an evaluation: it is written now, or when it is next due and nothing newer has come.

        `rank_state`: what this rank alone has, where ranks differ. `improved`: the point, where it is the best so far:
        a state names its best model, and both are written together.
        """
        now = self.saver.is_due
        if rank_state:
            now = distributed.is_agreed(int(now)) and now  # all ranks write the same step's
        best = checkpoint.select_kept(model) if improved and state else {}
        ready = None
        if not self.saver.is_waited_for:
            (state, rank_state, best), ready = _copy(state, rank_state, best)
        if improved and state:
            self.best = BestWeights(best, asdict(improved))
        if state or rank_state:
            self.saver.hand_over(_Taken(self, step, state, rank_state, self.best, ready).write, now)

    def finish(self) -> None:
        """Return when what every rank took last is on the disk; no rank stands in a collective meanwhile."""
        written = False
        while not written:
            written = self.saver.wait(BEAT_S)
            written = distributed.is_agreed(int(written)) and written


@dataclass(frozen=True)
class _Taken:
    """Of one evaluation."""

    checkpoints: Checkpoints
    step: int
    state: State
    """Empty on every rank but the first."""
    rank_state: State
    best: BestWeights | None
    ready: torch.cuda.Event | None
    """When the card has copied all."""

    def write(self) -> None:
        """In such an order that a kill leaves a state to go on from, with its ranks' parts and its best model."""
        folder, best = self.checkpoints.folder, self.best
        if self.ready is not None:
            self.ready.synchronize()
        if self.rank_state:
            checkpoint.save_rank(folder, self.step, self.rank_state)
        if not self.state or not self._ranks_are_there():
            return
        if best is None or best.written:
            checkpoint.save_last(folder, self.state)
        else:
            checkpoint.write_waiting(folder, self.checkpoints.run, best.tensors, best.facts, self.checkpoints.signature)
            checkpoint.save_last(folder, self.state)
            checkpoint.publish_best(folder)
            best.written, best.tensors = True, {}
        if self.rank_state:
            checkpoint.forget_earlier(folder, self.step)

    def _ranks_are_there(self) -> bool:
        until = time.monotonic() + RANKS_S
        while self.rank_state and not checkpoint.has_ranks(self.checkpoints.folder, self.step):
            if time.monotonic() > until:
                log.warning("the state of step %d is not saved: a rank has not written its part", self.step)
                return False
            time.sleep(RANKS_LOOK_S)
        return True


def _copy(*states: State) -> tuple[list[State], torch.cuda.Event | None]:
    """The same in main memory, pinned where it comes from a card, and when it is there; what shares memory still does.

    The card copies it behind what it computes now, and before what comes next.
    """
    copies: dict[tuple[Any, ...], Tensor] = {}
    made = [_copied(state, copies) for state in states]
    on_card = distributed.device().type == "cuda"
    return made, torch.cuda.current_stream().record_event() if on_card else None


def _copied(value: Any, copies: dict[tuple[Any, ...], Tensor]) -> Any:
    """No closure in `_copy`: one that calls itself would hold all copies until Python looks for circles."""
    if isinstance(value, dict):
        made = copy.copy(value)  # a state dict has its modules' versions as an attribute
        made.update((name, _copied(each, copies)) for name, each in value.items())
        return made
    if type(value) in (list, tuple):
        return type(value)(_copied(each, copies) for each in value)
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    place = (value.data_ptr() or id(value), value.shape, value.stride(), value.dtype)
    if place not in copies:
        host = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.device.type == "cuda")
        copies[place] = host.copy_(value, non_blocking=True)
    return copies[place]
