"""Makes the next batch in a thread while a GPU computes the present step."""

import logging
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import torch

from cse_train.methods.base import Batch
from cse_train.numerics import is_card
from cse_train.training.batches import Batches

log = logging.getLogger(__name__)


@dataclass
class UpcomingBatches:
    """Batches of a run on its device; on a GPU a thread makes the next one ahead of its step.

    A batch is a pure function of seed and step, so that the order in which a thread makes batches changes nothing.
    torch's global generators belong to the process: a batch that draws from them is made by the caller's thread,
    between two steps. On a CPU no thread helps: its cores belong to the step.
    """

    source: Batches
    device: torch.device
    steps: int
    """Number of steps of the whole run; no batch is made beyond the last one."""
    pending: dict[int, Future[Batch]] = field(default_factory=dict)
    """Step -> the batch that the thread is making for it."""

    def __post_init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "batches", _use, (self.device,)) if is_card(self.device) else None

    def __getitem__(self, step: int) -> Batch:
        """Returns the batch of a step; raises what making it raised."""
        if self.thread is None:
            return self._make(step)
        batch = self.pending.pop(step).result() if step in self.pending else self._make_first(step)
        if self.thread is not None and step + 1 < self.steps:
            self.source.make_ready(step + 1)  # in this thread: it may draw from torch's global generators
            self.pending = {step + 1: self.thread.submit(self._make, step + 1)}
        return batch

    def _make(self, step: int) -> Batch:
        return self.source[step].to(self.device)

    def _make_first(self, step: int) -> Batch:
        """Makes a batch that no thread has prepared, and stops using the thread if a user's method draws from torch."""
        wait(self.pending.values())
        self.source.make_ready(step)
        state = torch.get_rng_state()
        batch = self._make(step)
        if not torch.equal(state, torch.get_rng_state()):
            log.warning("slow batches: make_collate draws from torch's generator; draw from share.rng_of(row)")
            self.thread, self.pending = None, {}
        return batch


def _use(device: torch.device) -> None:
    """Sets a new thread's CUDA device, whose memory it pins: the current device is a thread's own, and begins at 0."""
    if device.type == "cuda" and torch.cuda.is_available():
        torch.cuda.set_device(device)
