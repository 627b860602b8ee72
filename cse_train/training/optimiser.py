"""Builds the optimiser of a run, computes its learning rate, and clips its gradients."""

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch
from torch import nn

from cse_train.config import TrainConfig, steps_in

TINY = 1e-20
"""Replacement for 0 in a division: a decay that takes all of a weight would divide by it."""


def optimiser_of(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Returns AdamW or SGD over the trainable parameters, in two groups: matrices, then vectors.

    `set_step` sets AdamW's variant and the decay before each step.
    """
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if is_matrix == (p.ndim > 1)], "weight_decay": decay}
        for is_matrix, decay in zip((True, False), _decays(config), strict=True)
    ]
    if config.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate)
    betas = (config.adam_beta1, config.adam_beta2)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, eps=config.adam_epsilon, fused=True)


def set_step(optimiser: torch.optim.Optimizer, config: TrainConfig, step: int, scores: Sequence[float] = ()) -> None:
    """Sets the numbers with which torch's fused AdamW computes update `step` (from 0) as `train.adamw` defines it.

    SGD gets its rate and its decay. `scores`: the scores of the dev evaluations so far.

    For update t, m and v the moments, b = 1 - beta^t, torch computes p (1 - lr wd) - lr / b1 * m / (sqrt(v / b2) + eps)
    (Loshchilov & Hutter, ICLR 2019, algorithm 2), transformers 4.2.1 (optimization.py, AdamW.step) (p - lr sqrt(b2) /
    b1 * m / (sqrt(v) + eps)) (1 - lr wd), with correct_bias=False the same without b1 and b2, and BERT
    (optimization.py, AdamWeightDecayOptimizer; BERT-flow's optimization_bert_flow.py:151-170) p (1 - lr wd) - lr m /
    (sqrt(v) + eps).
    """
    lr = learning_rate(config, step, scores)
    for group, decay in zip(optimiser.param_groups, _decays(config), strict=True):
        group |= _numbers(config, step + 1, lr, decay)


def _decays(config: TrainConfig) -> tuple[float, float]:
    """Returns the weight decay of matrices and of vectors."""
    return config.weight_decay, config.weight_decay if config.decay_on == "all" else 0.0


def _numbers(config: TrainConfig, t: int, lr: float, decay: float) -> dict[str, float]:
    """Returns the arguments of torch's formula in `set_step`: `lr`, `weight_decay` and AdamW's `eps`."""
    if config.optimiser == "sgd":
        return {"lr": lr, "weight_decay": decay}
    if config.adamw == "torch":
        return {"lr": lr, "eps": config.adam_epsilon, "weight_decay": decay}
    b1, b2 = 1 - config.adam_beta1**t, 1 - config.adam_beta2**t
    # torch divides by b1 and by sqrt(v / b2) + eps: eps / sqrt(b2) takes b2 out of that sum, and b1 / sqrt(b2) cancels
    # the correction that is left. A decay after the update is one before it with the step scaled by 1 - lr wd.
    scale = 1.0 if config.adamw == "transformers" else b1 / math.sqrt(b2)
    if config.adamw != "uncorrected_bert":
        scale *= (1 - lr * decay) or TINY
    return {"lr": lr * scale, "eps": config.adam_epsilon / math.sqrt(b2), "weight_decay": decay / scale}


def clip_gradients(parameters: Iterable[nn.Parameter], largest: float) -> None:
    """Clips the gradients' norm to `largest`, as `torch.nn.utils.clip_grad_norm_` does.

    torch multiplies every gradient also where it has nothing to clip. On a CPU that pass over all gradients is left
    out; a GPU would have to wait for the norm.
    """
    trained = [parameter for parameter in parameters if parameter.grad is not None]
    norm = nn.utils.get_total_norm(parameter.grad for parameter in trained if parameter.grad is not None)
    if norm.device.type == "cpu" and largest / (norm + 1e-6) >= 1:
        return
    nn.utils.clip_grads_with_norm_(trained, largest, norm)


def linear(step: int, total: int, warmup: int) -> float:
    """Returns the factor of the peak rate: linear, up over `warmup` updates, then down to 0.

    Source: HF `get_linear_schedule_with_warmup`.
    """
    if step < warmup:
        return step / warmup
    return (total - step) / max(1, total - warmup)


def slanted_triangular(step: int, total: int, cut_frac: float = 0.1, ratio: float = 32) -> float:
    """Returns the factor of the peak rate: from 1/ratio to 1 over the first int(cut_frac * total) updates, and back.

    Source: Howard & Ruder, ACL 2018, eq. 3, as allennlp's `SlantedTriangular` computes it for DeCLUTR; no layer is
    frozen or slowed down. DeCLUTR's paper counts one update per training instance, so that its runs would stop within
    the rise: here `total` is the number of optimiser steps, after which the factor is 1/ratio again.
    """
    cut = int(cut_frac * total)
    share = step / cut if step < cut else 1 - (step - cut) / max(1, total - cut)
    return (1 + share * (ratio - 1)) / ratio


def constant(step: int, warmup: int) -> float:
    """Returns the factor of the peak rate: linear, up over `warmup` updates, then 1."""
    return min(1.0, step / warmup) if warmup else 1.0


def five_steps(step: int, total: int) -> float:
    """Returns the factor of the peak rate: 1, then 0.2 less after each of the first four tenths of the run.

    Source: Contrastive Tension's Training.py:13-15 at 75293a8, Keras's PiecewiseConstantDecay over 5,000 updates, which
    keeps a value up to and with its boundary.
    """
    return 1 - 0.2 * sum(10 * step > tenths * total for tenths in range(1, 5))


def plateau(scores: Sequence[float], decay: float = 0.99, shrink: float = 5.0) -> float:
    """Returns the factor of the peak rate after dev evaluations with these scores.

    Each evaluation multiplies it by `decay`, and one without a new best divides it by `shrink`. Source: InferSent
    train_nli.py, decay and lrshrink, which evaluates once an epoch; it ends a run whose rate has fallen below 1e-5,
    from where on almost nothing changes.
    """
    bests = accumulate(scores, max, initial=-math.inf)
    falls = sum(score <= best for score, best in zip(scores, bests, strict=False))
    return decay ** len(scores) / shrink**falls


def learning_rate(config: TrainConfig, step: int, scores: Sequence[float] = ()) -> float:
    """Returns the rate of update `step` (from 0) after dev evaluations with these scores."""
    total = steps_in(config)
    if config.schedule == "slanted_triangular":
        return config.learning_rate * slanted_triangular(step, total)
    warmup = math.ceil(config.warmup_ratio * total)
    if config.schedule == "plateau":
        return config.learning_rate * constant(step, warmup) * plateau(scores)
    if config.schedule == "five_steps":
        return config.learning_rate * constant(step, warmup) * five_steps(step, total)
    factor = constant(step, warmup) if config.schedule == "constant" else linear(step, total, warmup)
    return config.learning_rate * factor
