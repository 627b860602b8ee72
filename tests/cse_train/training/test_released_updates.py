"""An epoch of updates with the settings of profile `paper` is the release's own, on the same gradients.

The oracles are written from the formulas, in float64, and frozen by what the releases' own code gave once.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from cse_train.config import TrainConfig, steps_in
from cse_train.fields import make
from cse_train.training.optimiser import clip_gradients, learning_rate, optimiser_of, set_step
from search_spaces.profiles import load_profile

LONGEST = 1000
"""Updates of a test: of a longer epoch a shorter one is taken, with the same schedule."""
FROZEN = {
    "flow": (-0.026029622, -0.04899519),
    "isbert": (0.006941615186324596, -6.133025450106056e-05),
    "consert": (0.00691916496236496, -1.5326309400278698e-05),
    "sgopt": (0.006844526891227006, -0.0012533055979902813),
    "ct": (0.0068252673, -3.8404316e-05),
    "sbert": (0.007210878492099986, -0.0006130523760111491),
}
"""The first weight and the first bias after these updates by the releases' own code: AdamWeightDecayOptimizer at
bohanli/BERT-flow 7fa8f6d and Keras's RMSprop (tf_keras 2.21, the legacy class) in float32; else the AdamW that
yym6472/ConSERT 03c9e8f brings along, which is that of transformers 3.5.1, in float64."""
Update = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float, float], np.ndarray]


def paper(method: str) -> TrainConfig:
    """The settings of a run in profile `paper`, at most LONGEST updates long."""
    settings = load_profile("paper").settings(method)
    given = {key.removeprefix("train."): value for key, value in settings.items() if key.startswith("train.")}
    if not isinstance(given["examples"], int):
        given["examples"] = 3108  # BERT-flow on STS12: one epoch
    given["examples"] = min(given["examples"], LONGEST * given["batch_size"])
    return make(TrainConfig, given)


def gradients(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Those of a matrix [steps, 3, 4] and of a bias [steps, 4], of sizes between 1e-7 and 10."""
    draws = np.random.default_rng(0)
    sizes = 10.0 ** draws.uniform(-7, 1, size=(3, 4))
    return draws.normal(size=(steps, 3, 4)) * sizes, draws.normal(size=(steps, 4)) * sizes[0]


def start() -> tuple[np.ndarray, np.ndarray]:
    """The weights before the first update; the bias begins at 0."""
    return np.random.default_rng(1).normal(0, 0.02, size=(3, 4)), np.zeros(4)


def ours(config: TrainConfig) -> tuple[np.ndarray, np.ndarray]:
    """A linear layer's weight and bias after the epoch, by what a run calls."""
    model, steps = nn.Linear(4, 3).double(), steps_in(config)
    model.bias = nn.Parameter(torch.zeros(4, dtype=torch.float64))
    model.weight.data = torch.from_numpy(start()[0])
    optimiser = optimiser_of(model, config)
    for step, (weight, bias) in enumerate(zip(*gradients(steps), strict=True)):
        model.weight.grad, model.bias.grad = torch.from_numpy(weight), torch.from_numpy(bias.copy())
        if config.max_grad_norm is not None:
            clip_gradients(model.parameters(), config.max_grad_norm)
        set_step(optimiser, config, step)
        optimiser.step()
    return model.weight.detach().numpy(), model.bias.detach().numpy()


def decays_afterwards(p: np.ndarray, m: np.ndarray, v: np.ndarray, lr: float, decay: float, eps: float) -> np.ndarray:
    """transformers 3.5.1, AdamW.step with correct_bias=False (optimization.py:295-322 in ConSERT's copy)."""
    p = p - lr * m / (np.sqrt(v) + eps)
    return p - lr * decay * p


def decays_at_once(p: np.ndarray, m: np.ndarray, v: np.ndarray, lr: float, decay: float, eps: float) -> np.ndarray:
    """AdamWeightDecayOptimizer.apply_gradients (BERT-flow's optimization_bert_flow.py:145-167)."""
    return p - lr * (m / (np.sqrt(v) + eps) + decay * p)


def warm_up(peak: float, steps: int) -> list[float]:
    """WarmupLinear with a tenth (SentenceTransformer.py, _get_scheduler)."""
    up = math.ceil(0.1 * steps)
    return [peak * (t / up if t < up else (steps - t) / (steps - up)) for t in range(steps)]


def stepwise(steps: int) -> list[float]:
    """CT's Training.py:13-15 at the length of a run: a value holds up to and with its boundary."""
    values, edges = [1e-5, 8e-6, 6e-6, 4e-6, 2e-6], [steps * k / 10 for k in (1, 2, 3, 4)]
    return [values[sum(t > edge for edge in edges)] for t in range(steps)]


def released(method: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias after the epoch, by the release's rule."""
    beta1, beta2, eps, decay, clip, corrected, everything = 0.9, 0.999, 1e-6, 0.01, 1.0, False, False
    update: Update = decays_afterwards
    if method == "flow":  # optimization_bert_flow.py:73-91: no name of the flow says bias or LayerNorm
        update, rates, everything = decays_at_once, [1e-3] * steps, True
    elif method == "isbert":  # SentenceTransformer.py:460-465
        rates, eps = warm_up(2e-6, steps), 1e-7
    elif method == "consert":  # main.py:284-293, unsup-consert-base.sh
        rates = warm_up(5e-7, steps)
    elif method == "sbert":  # v0.2.0, SentenceTransformer.py:230-231
        rates = warm_up(2e-5, steps)
    elif method == "sgopt":  # training.py:126, modules.py:185-222
        rates, beta2, corrected = warm_up(5e-5, steps), 0.9, True
    else:  # ct: Keras's RMSprop, rho 0.9, epsilon 1e-7, no momentum (Training.py:11-16)
        rates, beta1, beta2, eps, decay, clip = stepwise(steps), 0.0, 0.9, 1e-7, 0.0, math.inf
    after = list(start())
    moments = [[np.zeros_like(p), np.zeros_like(p)] for p in after]
    for t, given in enumerate(zip(*gradients(steps), strict=True)):
        norm = math.sqrt(sum(float((g**2).sum()) for g in given))
        for at, g in enumerate(given):
            m, v = moments[at]
            g = g * min(1.0, clip / norm)
            m[:], v[:] = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            rate = rates[t]
            if corrected:  # sqrt(1 - beta2^t) / (1 - beta1^t), and the decay by the bare rate
                size = math.sqrt(1 - beta2 ** (t + 1)) / (1 - beta1 ** (t + 1))
                after[at] = after[at] - rate * size * m / (np.sqrt(v) + eps)
                after[at] = after[at] - rate * (decay if at == 0 else 0.0) * after[at]
            else:
                after[at] = update(after[at], m, v, rate, decay if at == 0 or everything else 0.0, eps)
    return after[0], after[1]


@pytest.mark.parametrize("method", ["flow", "isbert", "consert", "sgopt", "ct", "sbert"])
def test_an_epoch_of_updates_is_the_release_s(method: str) -> None:
    config = paper(method)
    weight, bias = ours(config)
    for mine, theirs in zip((weight, bias), released(method, steps_in(config)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=0)
    assert (weight[0, 0], bias[0]) == pytest.approx(FROZEN[method], rel=1e-5)


def test_contrastive_tension_s_rates_add_up_to_the_release_s() -> None:
    """501 updates at 1e-5, 500 each at 8e-6, 6e-6 and 4e-6, and 2,999 at 2e-6."""
    config = paper("ct").__class__(**{**vars(paper("ct")), "examples": 80000})
    rates = [learning_rate(config, step) for step in range(steps_in(config))]
    assert len(rates) == 5000
    assert sum(rates) == pytest.approx(501 * 1e-5 + 500 * (8e-6 + 6e-6 + 4e-6) + 2999 * 2e-6, rel=1e-12)
    assert [rates[t] for t in (500, 501, 1000, 1001, 2000, 2001)] == pytest.approx([1e-5, 8e-6, 8e-6, 6e-6, 4e-6, 2e-6])
