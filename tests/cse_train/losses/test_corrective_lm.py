"""Corrective LM by hand, by a loop, and against a frozen value."""

import math

import pytest
import torch

from cse_train.losses import corrective_lm


def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits, copy = torch.randn(6, 5, generator=generator), torch.randn(6, generator=generator)
    return logits, copy, torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([0, 1, 4, 3, 0, 0])


def test_by_hand() -> None:
    """Two tokens, two words of equal probability, c = 1/2: copied 1/2 + 1/4, replaced 1/4."""
    total, count = corrective_lm(torch.zeros(2, 2), torch.zeros(2), torch.tensor([0, 0]), torch.tensor([0, 1]))
    assert total.item() == pytest.approx(-math.log(3 / 4) - math.log(1 / 4), abs=1e-6)
    assert count.item() == 2


def test_equals_a_loop_in_probabilities() -> None:
    logits, copy, edited, source = drawn()
    expected = 0.0
    for i in range(6):
        c = 1 / (1 + math.exp(-copy[i].item()))
        p = (1 - c) * logits[i].double().softmax(0)[source[i]].item() + (c if edited[i] == source[i] else 0.0)
        expected -= math.log(p)
    assert corrective_lm(logits, copy, edited, source)[0].item() == pytest.approx(expected, abs=1e-5)


def test_frozen_value() -> None:
    """Written down from the first version that agreed with the loop above."""
    assert corrective_lm(*drawn())[0].item() == pytest.approx(6.961184, abs=1e-5)


def test_sure_of_the_copy_and_right_costs_nothing_and_stays_finite_when_wrong() -> None:
    logits, one = torch.zeros(1, 4, requires_grad=True), torch.tensor([1])
    sure = torch.tensor([200.0], requires_grad=True)
    assert corrective_lm(logits, sure, one, one)[0].item() == 0.0
    total, _ = corrective_lm(logits, sure, one, torch.tensor([2]))
    total.backward()
    assert total.item() == pytest.approx(200 + math.log(4), abs=1e-3)
    assert torch.isfinite(logits.grad).all() and sure.grad.item() == pytest.approx(1.0)
