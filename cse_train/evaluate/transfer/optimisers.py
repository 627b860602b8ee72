"""Adam and RMSprop with torch's default settings for a batch of models, which can drop models that have finished."""

import math

import torch
from torch import Tensor


class Adam:
    """Adam for a batch of models that are all at one step (Kingma & Ba, 2015, algorithm 1)."""

    rate, beta1, beta2, epsilon = 1e-3, 0.9, 0.999, 1e-8

    def __init__(self, weights: Tensor) -> None:
        self.mean, self.square = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = 0

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        """Updates all models' `weights` in place by one step."""
        self.steps += 1
        self.mean.lerp_(gradient, 1 - self.beta1)
        self.square.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        scale = self.square.sqrt().div_(math.sqrt(1 - self.beta2**self.steps)).add_(self.epsilon)
        weights.addcdiv_(self.mean, scale, value=-self.rate / (1 - self.beta1**self.steps))

    def keep(self, kept: Tensor) -> None:
        """Drops the state of models, along the first axis, where `kept` is False."""
        self.mean, self.square = self.mean[kept], self.square[kept]


class RMSprop:
    """RMSprop for a batch of models (Tieleman & Hinton, 2012, lecture 6.5), with epsilon outside the root."""

    rate, smoothing, epsilon = 1e-2, 0.99, 1e-8

    def __init__(self, weights: Tensor) -> None:
        self.square = torch.zeros_like(weights)

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        """Updates all models' `weights` in place by one step."""
        self.square.mul_(self.smoothing).addcmul_(gradient, gradient, value=1 - self.smoothing)
        weights.addcdiv_(gradient, self.square.sqrt().add_(self.epsilon), value=-self.rate)

    def keep(self, kept: Tensor) -> None:
        """Drops the state of models, along the first axis, where `kept` is False."""
        self.square = self.square[kept]


OPTIMISERS: dict[str, type[Adam] | type[RMSprop]] = {"adam": Adam, "rmsprop": RMSprop}
