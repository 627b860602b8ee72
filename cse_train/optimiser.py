"""AdamW over what a run trains."""

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
