"""AdamW is the release's, and clipping torch's, where it clips, where it does not and where a gradient is no number."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cse_train import random_streams
from cse_train.config import TrainConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.training.loop import Session
from cse_train.training.optimiser import clip_gradients, learning_rate, optimiser_of, set_step


def with_gradients(scale: float) -> list[nn.Parameter]:
    """Three parameters, the last without a gradient."""
    generator = torch.Generator().manual_seed(0)
    parameters = [nn.Parameter(torch.zeros(size)) for size in (5, 7, 2)]
    for parameter in parameters[:2]:
        parameter.grad = scale * torch.randn(parameter.shape, generator=generator)
    return parameters


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 100.0, float("inf"), float("nan")])
def test_clipping_equals_torch(scale: float) -> None:
    ours, theirs = with_gradients(scale), with_gradients(scale)
    clip_gradients(iter(ours), 1.0)
    nn.utils.clip_grad_norm_(theirs, 1.0)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=0, atol=0, equal_nan=True)


def test_nothing_to_clip_is_no_error() -> None:
    clip_gradients([nn.Parameter(torch.zeros(2))], 1.0)


class Released:
    """transformers 4.2.1's AdamW.step (optimization.py) over a model, in fp32, one tensor after the other.

    The Trainer's groups: everything but biases and LayerNorm decays.
    """

    def __init__(self, model: nn.Module, config: TrainConfig, correct_bias: bool) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.moments: list[tuple[Tensor, Tensor]] = [(p * 0, p * 0) for p in self.parameters]
        self.config, self.correct_bias, self.steps = config, correct_bias, 0

    @torch.no_grad()
    def step(self, lr: float) -> None:
        self.steps += 1
        beta1, beta2 = self.config.adam_beta1, self.config.adam_beta2
        for p, (exp_avg, exp_avg_sq) in zip(self.parameters, self.moments, strict=True):
            assert p.grad is not None
            exp_avg.mul_(beta1).add_(p.grad, alpha=1.0 - beta1)
            exp_avg_sq.mul_(beta2).addcmul_(p.grad, p.grad, value=1.0 - beta2)
            size = lr
            if self.correct_bias:
                size = size * math.sqrt(1.0 - beta2**self.steps) / (1.0 - beta1**self.steps)
            p.addcdiv_(exp_avg, exp_avg_sq.sqrt() + self.config.adam_epsilon, value=-size)
            if p.ndim > 1 and self.config.weight_decay > 0:
                p.add_(p, alpha=-lr * self.config.weight_decay)


STEPS = 8


def trained(session: Session, released: Released | None) -> dict[str, Tensor]:
    """Weights after whole steps: batch, dropout, loss, clipping, update."""
    session.model.train()
    for step in range(STEPS):
        if released is None:
            session.update()
        else:
            random_streams.seed_dropout(session.run.train.seed, step, 0)
            session.model(session.batches[step]).loss.backward()
            nn.utils.clip_grad_norm_(session.model.parameters(), 1.0)
            released.step(learning_rate(session.run.train, step))
            session.model.zero_grad()
        session.step += 1
    return session.model.state_dict()


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("esimcse", {}),
        ("declutr", {"train_adamw": "uncorrected", "train_weight_decay": 0.1, "train_adam_epsilon": 1e-6}),
        ("simcse", {"train_weight_decay": 0.1, "train_warmup_ratio": 0.2}),
    ],
)
def test_eight_whole_steps_are_the_release_s(
    method: str, changes: dict, tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path
) -> None:
    """ESimCSE and SimCSE run the Trainer's AdamW, DeCLUTR that with correct_bias false."""
    run = parse_run(tiny_settings(method, train_learning_rate=3e-5, **changes))
    session, other = (Session.open(run, DataPaths(train_file=text_file), tmp_path) for _ in range(2))
    ours = trained(session, None)
    theirs = trained(other, Released(other.model, run.train, run.train.adamw == "transformers"))
    furthest = max((ours[n] - theirs[n]).abs().max().item() for n in theirs if theirs[n].is_floating_point())
    assert furthest <= 1e-6


def updated(config: TrainConfig, gradients: list[Tensor]) -> Tensor:
    """A weight matrix of ones after a step with each gradient."""
    model = nn.Linear(2, 2, bias=False)
    nn.init.ones_(model.weight)
    optimiser = optimiser_of(model, config)
    for step, gradient in enumerate(gradients):
        model.weight.grad = gradient.clone()
        set_step(optimiser, config, step)
        optimiser.step()
    return model.weight.detach()


def test_the_first_update_by_hand() -> None:
    """lr 0.1, g 1e-6, eps 1e-6, decay 0.5, one step of three: m = 1e-7, sqrt(v) = sqrt(1e-3) 1e-6."""
    config = TrainConfig(
        learning_rate=0.1, adam_epsilon=1e-6, weight_decay=0.5, examples=6, batch_size=2, adamw="transformers"
    )
    gradient = torch.full((2, 2), 1e-6)
    root = math.sqrt(1e-3)
    expected = {
        "transformers": (1 - 0.1 * root / 0.1 * 1e-7 / (root * 1e-6 + 1e-6)) * 0.95,
        "uncorrected": (1 - 0.1 * 1e-7 / (root * 1e-6 + 1e-6)) * 0.95,
        "uncorrected_bert": 0.95 - 0.1 * 1e-7 / (root * 1e-6 + 1e-6),
        "torch": 0.95 - 0.1 * 1e-6 / (1e-6 + 1e-6),
    }
    for name, value in expected.items():
        given = updated(TrainConfig(**{**vars(config), "adamw": name}), [gradient])
        torch.testing.assert_close(given, torch.full((2, 2), value), rtol=1e-6, atol=0)
    assert len({round(value, 5) for value in expected.values()}) == 4


@pytest.mark.parametrize("adamw", ["transformers", "uncorrected", "uncorrected_bert", "torch"])
def test_vectors_decay_where_all_does(adamw: str) -> None:
    """lr 0.1, no gradient, decay 0.5: 0.95 of what decays is left."""
    config = TrainConfig(
        learning_rate=0.1, weight_decay=0.5, examples=6, batch_size=2, adamw=adamw, schedule="constant"
    )
    for decay_on, left in (("matrices", 1.0), ("all", 0.95)):
        model = nn.Linear(2, 2)
        optimiser = optimiser_of(model, changed := TrainConfig(**{**vars(config), "decay_on": decay_on}))
        for parameter in model.parameters():
            nn.init.ones_(parameter)
            parameter.grad = torch.zeros_like(parameter)
        set_step(optimiser, changed, 0)
        optimiser.step()
        torch.testing.assert_close(model.weight.detach(), torch.full((2, 2), 0.95))
        torch.testing.assert_close(model.bias.detach(), torch.full((2,), left))


def test_torch_s_is_torch_s_to_the_bit() -> None:
    config = TrainConfig(learning_rate=0.1, weight_decay=0.5, examples=16, batch_size=2, adamw="torch")
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(2, 2, generator=generator) for _ in range(8)]
    weight = nn.Parameter(torch.ones(2, 2))
    optimiser = torch.optim.AdamW([weight], weight_decay=0.5, fused=True)
    for step, gradient in enumerate(gradients):
        weight.grad = gradient.clone()
        optimiser.param_groups[0]["lr"] = learning_rate(config, step)
        optimiser.step()
    assert torch.equal(updated(config, gradients), weight)


def test_stochastic_gradient_descent_by_hand() -> None:
    """Weights of 1, rate 0.1, decay 0.5, gradients 1 and 2: w - 0.1 (g + w / 2); the rate is constant."""
    config = TrainConfig(
        optimiser="sgd", schedule="constant", learning_rate=0.1, weight_decay=0.5, examples=4, batch_size=2
    )
    given = updated(config, [torch.ones(2, 2), torch.full((2, 2), 2.0)])
    torch.testing.assert_close(given, torch.full((2, 2), 0.85 - 0.1 * (2 + 0.425)))


def test_a_decay_that_takes_the_whole_weight_leaves_nothing() -> None:
    config = TrainConfig(learning_rate=2.0, weight_decay=0.5, examples=2, batch_size=2)
    assert updated(config, [torch.ones(2, 2)]).abs().max() < 1e-12
