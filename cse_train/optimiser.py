"""AdamW over what a run trains, and clipping of its gradients."""

from collections.abc import Iterable

import torch
from torch import nn

from cse_train.config import TrainConfig


def optimiser_of(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW over what is trainable; biases and LayerNorm do not decay."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]
    betas = (config.adam_beta1, config.adam_beta2)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, eps=config.adam_epsilon, fused=True)


def clip_gradients(parameters: Iterable[nn.Parameter], largest: float) -> None:
    """`torch.nn.utils.clip_grad_norm_`, which multiplies every gradient also where it has nothing to clip.

    On a CPU that pass over all gradients is left out there; a GPU would have to wait for the norm.
    """
    trained = [parameter for parameter in parameters if parameter.grad is not None]
    norm = nn.utils.get_total_norm(parameter.grad for parameter in trained if parameter.grad is not None)
    if norm.device.type == "cpu" and largest / (norm + 1e-6) >= 1:
        return
    nn.utils.clip_grads_with_norm_(trained, largest, norm)
