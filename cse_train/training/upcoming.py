"""The next batch, made and copied while a card computes the step before it."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from cse_train.methods.base import Batch
from cse_train.training.batches import Batches


@dataclass
class UpcomingBatches:
    """Batches on the device of a run.

    A batch is a pure function of seed and step, so that the order in which a thread makes batches changes nothing. On a
    CPU no thread helps: its cores belong to the step.
    """

    source: Batches
    device: torch.device
    steps: int
    """Of the whole run; behind the last one none is made."""
    made: dict[int, Future[Batch]] = field(default_factory=dict)
    """Step -> the batch that the thread was asked for."""

    def __post_init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "batches") if self.device.type == "cuda" else None

    def __getitem__(self, step: int) -> Batch:
        """The batch of a step. Raises what making it raised."""
        if self.thread is None:
            return self._make(step)
        batch = self.made.pop(step, None) or self.thread.submit(self._make, step)
        self.made = {step + 1: self.thread.submit(self._make, step + 1)} if step + 1 < self.steps else {}
        return batch.result()

    def _make(self, step: int) -> Batch:
        return self.source[step].to(self.device)
