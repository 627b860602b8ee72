"""What a training step logs about its embeddings, and the means of it between two evaluations."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from cse_train import distributed


@dataclass
class Window:
    """Sums of the step metrics since the last evaluation; stays on the device."""

    steps: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, metrics: dict[str, Tensor]) -> None:
        self.steps += 1
        for name, value in metrics.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value.detach().clone()

    def means(self) -> dict[str, float]:
        """Means over steps and ranks; empties the window."""
        names = sorted(self.sums)
        joined = distributed.average(torch.stack([self.sums[name].float() for name in names]) / self.steps).tolist()
        self.steps, self.sums = 0, {}
        return dict(zip(names, joined, strict=True))
