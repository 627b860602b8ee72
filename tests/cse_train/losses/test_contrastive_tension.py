"""Contrastive Tension's loss three ways: literal, loop oracle, frozen value; two ranks are test_distributed.py."""

import math

import pytest
import torch

from cse_train.losses import contrastive_tension


def loop_oracle(first, second, same) -> float:
    """-log sigmoid(f1 . f2) of a positive pair, -log(1 - sigmoid(f1 . f2)) of a negative one, in fp64."""
    terms = []
    for left, right, positive in zip(first.double().tolist(), second.double().tolist(), same.tolist(), strict=True):
        share = 1 / (1 + math.exp(-sum(a * b for a, b in zip(left, right, strict=True))))
        terms.append(-math.log(share if positive else 1 - share))
    return sum(terms) / len(terms)


def draws(pairs: int = 8) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    first, second = torch.randn(2, pairs, 4, generator=generator)
    return first, second, torch.arange(pairs) % 4 == 0


def test_one_positive_and_two_negative_pairs_by_hand() -> None:
    """Dot products 2, -1 and 0, not normalised."""
    first, second = torch.tensor([[2.0, 0.0], [1.0, 1.0], [3.0, 0.0]]), torch.tensor([[1.0, 5.0], [0.0, -1.0], [0, 7]])
    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1)) + math.log(2)) / 3
    loss = contrastive_tension(first, second, torch.tensor([True, False, False]))
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_equals_the_loop() -> None:
    assert contrastive_tension(*draws()).item() == pytest.approx(loop_oracle(*draws()), rel=1e-6)


def test_large_products_are_finite_in_value_and_gradient() -> None:
    """Untrained mean vectors have dot products of hundreds: a negative pair then costs its dot product."""
    first = torch.full((2, 4), 20.0, requires_grad=True)
    loss = contrastive_tension(first, torch.full((2, 4), 20.0), torch.tensor([True, False]))
    assert loss.item() == pytest.approx(1600 / 2, rel=1e-6)
    (gradient,) = torch.autograd.grad(loss, first)
    assert gradient[0].abs().max() == 0 and torch.equal(gradient[1], torch.full((4,), 10.0))


def test_frozen_value() -> None:
    """Provenance: the fp64 loop oracle above on torch.Generator seed 3, first recorded with torch 2.13."""
    assert contrastive_tension(*draws()).item() == pytest.approx(FROZEN, rel=1e-5)


FROZEN = 0.8359136
