"""AdamW for K runs at once, each with the numbers of its own configuration, and clipping of each run's gradient.

Shape suffixes: K runs, P numbers of a run.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cse_train.config import TrainConfig
from cse_train.training.optimiser import step_numbers


class FusedAdamW:
    """Torch's AdamW over leaves [K, ...] of which the last holds the vectors, each run at its own rate.

    `step_numbers` brings the variant of `train.adamw` into torch's formula, as for a single run.
    """

    def __init__(self, leaves: Sequence[nn.Parameter], configs: Sequence[TrainConfig]) -> None:
        self.leaves, self.configs = leaves, configs
        self.means = [torch.zeros_like(leaf) for leaf in leaves]
        self.squares = [torch.zeros_like(leaf) for leaf in leaves]

    @torch.no_grad()
    def step(self, step: int) -> None:
        """Update `step` (from 0), and forget the gradients."""
        matrices, others = self._numbers(step)
        beta1, beta2 = self.configs[0].adam_beta1, self.configs[0].adam_beta2
        correction1, correction2 = 1 - beta1 ** (step + 1), 1 - beta2 ** (step + 1)
        last = len(self.leaves) - 1
        for at, (leaf, mean, square) in enumerate(zip(self.leaves, self.means, self.squares, strict=True)):
            assert leaf.grad is not None
            lr, eps, kept = (row.view(-1, *[1] * (leaf.ndim - 1)) for row in (others if at == last else matrices))
            if any(config.weight_decay for config in self.configs):
                leaf.mul_(kept)
            mean.lerp_(leaf.grad, 1 - beta1)
            square.mul_(beta2).addcmul_(leaf.grad, leaf.grad, value=1 - beta2)
            below = (square / correction2).sqrt_().add_(eps)
            leaf.sub_((mean / below).mul_(lr / correction1))
            leaf.grad = None

    def _numbers(self, step: int) -> tuple[Tensor, Tensor]:
        """Rate, epsilon and what a decay leaves, each [K]: for matrices and for vectors."""
        numbers = [step_numbers(config, step) for config in self.configs]
        rows = [
            [[of["lr"] for of in kind], [of["eps"] for of in kind], [1 - of["lr"] * of["weight_decay"] for of in kind]]
            for kind in zip(*numbers, strict=True)
        ]
        both = torch.tensor(rows, dtype=self.leaves[0].dtype).to(self.leaves[0].device)
        return both[0], both[1]


@torch.no_grad()
def clip_each(leaves: Sequence[nn.Parameter], largest: Sequence[float | None]) -> None:
    """`clip_gradients` run by run: a norm over all leaves, and a factor of at most 1; None leaves a run alone."""
    if all(most is None for most in largest):
        return
    squares_K = torch.stack([_required(leaf).flatten(1).square().sum(1) for leaf in leaves]).sum(0)
    limits = [float("inf") if most is None else most for most in largest]
    limits_K = torch.tensor(limits, dtype=squares_K.dtype).to(squares_K.device)
    factors_K = (limits_K / (squares_K.sqrt() + 1e-6)).clamp(max=1.0)
    for leaf in leaves:
        _required(leaf).mul_(factors_K.view(-1, *[1] * (leaf.ndim - 1)))


def _required(leaf: nn.Parameter) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad
