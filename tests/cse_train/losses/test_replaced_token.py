"""Replaced-token detection three ways: literal, loop oracle, frozen value; two ranks are test_joined_losses.py."""

import math

import pytest
import torch

from cse_train.losses import REDUCTIONS, replaced_token


def loss_of(logits, replaced, attended, reduction: str) -> float:
    total, count = replaced_token(logits, replaced, attended, reduction)
    return float(total / count.clamp(min=1))


def loop_oracle(logits, replaced, attended, reduction: str) -> float:
    """D2CSE eq. 2 token by token in fp64; a padded slot counts as an original one where it counts at all."""
    terms = []
    for pair, new, real in zip(logits.double().tolist(), replaced.tolist(), attended.tolist(), strict=True):
        original = 1 / (1 + math.exp(pair[1] - pair[0]))
        if real or reduction == "mean_all":
            terms.append(-math.log(1 - original if new and real else original))
    return sum(terms) if reduction == "sum" else sum(terms) / len(terms)


def draws(slots: int = 11, padding: int = 3) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(slots, 2, generator=generator)
    replaced = torch.rand(slots, generator=generator) < 0.4
    return logits, replaced, torch.arange(slots) < slots - padding


def test_three_tokens_and_a_pad_by_hand() -> None:
    """Certain and right: log(1 + e^-2); certain and wrong: log(1 + e^2); undecided, and the pad: log 2."""
    logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    replaced = torch.tensor([False, True, True, True])
    attended = torch.tensor([True, True, True, False])
    real = math.log(1 + math.exp(-2)) + math.log(1 + math.exp(2)) + math.log(2)
    expected = {"mean_all": (real + math.log(2)) / 4, "mean_attended": real / 3, "sum": real}
    for reduction in REDUCTIONS:
        assert loss_of(logits, replaced, attended, reduction) == pytest.approx(expected[reduction], abs=1e-6)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_equals_the_loop(reduction: str) -> None:
    assert loss_of(*draws(), reduction) == pytest.approx(loop_oracle(*draws(), reduction), abs=1e-5)


def test_t12_padding_dilutes_the_released_mean_only() -> None:
    logits, replaced, attended = draws()
    more = (
        torch.cat([logits, torch.tensor([[4.0, -4.0]] * 6)]),
        *(torch.cat([t, torch.zeros(6, dtype=torch.bool)]) for t in (replaced, attended)),
    )
    before, after = ({r: loss_of(*given, r) for r in REDUCTIONS} for given in ((logits, replaced, attended), more))
    assert after["mean_all"] < before["mean_all"] - 1e-2
    assert after["mean_attended"] == pytest.approx(before["mean_attended"], abs=1e-6)
    assert after["sum"] == pytest.approx(before["sum"], abs=1e-5)


def test_t12_lambda_of_the_sum_is_lambda_of_the_mean_by_the_number_of_tokens() -> None:
    """lambda_sum = lambda_mean / (2B * T): 2B = 6 sequences of T = 5 tokens, nothing padded."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(30, 2, generator=generator, requires_grad=True)
    replaced, attended = torch.rand(30, generator=generator) < 0.3, torch.ones(30, dtype=torch.bool)
    gradients = {}
    for reduction, weight in (("mean_all", 0.005), ("mean_attended", 0.005), ("sum", 0.005 / (6 * 5))):
        total, count = replaced_token(logits, replaced, attended, reduction)
        (gradients[reduction],) = torch.autograd.grad(weight * total / count.clamp(min=1), logits)
    torch.testing.assert_close(gradients["sum"], gradients["mean_all"])
    torch.testing.assert_close(gradients["sum"], gradients["mean_attended"])


def test_t11_what_a_pad_is_labelled_does_not_count() -> None:
    logits, replaced, attended = draws()
    for reduction in REDUCTIONS:
        flipped = loss_of(logits, replaced ^ ~attended, attended, reduction)
        assert flipped == loss_of(logits, replaced, attended, reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_frozen_value(reduction: str) -> None:
    """Provenance: the fp64 loop oracle above on torch.Generator seed 3, first recorded with torch 2.13."""
    assert loss_of(*draws(), reduction) == pytest.approx(FROZEN[reduction], abs=1e-5)


FROZEN = {"mean_all": 1.0073650, "mean_attended": 1.0831404, "sum": 8.6651230}
