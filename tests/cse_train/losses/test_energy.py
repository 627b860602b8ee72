"""Energy hinge three ways: literal, loop oracle, frozen value; two ranks equal one is test_joined_losses.py."""

import pytest
import torch

from cse_train.losses import energy_hinge
from tests.cse_train.losses.draws import draws


def loop_oracle(anchors, positives, hard=None, margin=0.2) -> float:
    """The released models.py:247-259 in words: the worst of what is not the own positive."""

    def cosine(a, b) -> float:
        return float(a @ b) / (float(a.norm()) * float(b.norm()))

    anchors, positives = anchors.double(), positives.double()
    total = 0.0
    for i in range(len(anchors)):
        negatives = [cosine(anchors[i], p) for j, p in enumerate(positives) if j != i]
        negatives += [] if hard is None else [cosine(anchors[i], h) for h in hard.double()]
        total += max(0.0, margin - cosine(anchors[i], positives[i]) + max(negatives))
    return total / len(anchors)


def test_two_by_two_by_hand() -> None:
    """Anchor 1: own 1, other 0.8, hard 0 and 0.6 -> 0; anchor 2: own 0.6, other 0, hard 1 (its own) and 0.8 -> 0.6."""
    anchors = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    positives = torch.tensor([[3.0, 0.0], [0.8, 0.6]])
    hard = torch.tensor([[0.6, 0.8], [0.0, 1.0]])
    assert energy_hinge(anchors, positives, hard, margin=0.2).item() == pytest.approx((0 + 0.6) / 2, abs=1e-6)


@pytest.mark.parametrize("margin", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("with_hard", [True, False])
def test_equals_the_loop(with_hard: bool, margin: float) -> None:
    anchors, positives, hard = draws((5, 4), (5, 4), (5, 4))
    given = hard if with_hard else None
    expected = loop_oracle(anchors, positives, given, margin)
    assert energy_hinge(anchors, positives, given, margin).item() == pytest.approx(expected, abs=1e-6)


def test_a_lone_pair_has_no_negative() -> None:
    anchors, positives = (v.requires_grad_() for v in draws((1, 4), (1, 4)))
    loss = energy_hinge(anchors, positives)
    assert loss.item() == 0
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, [anchors, positives]))


def test_frozen_value() -> None:
    """Provenance: the fp64 loop oracle above on torch.Generator seed 3, first recorded with torch 2.13."""
    anchors, positives, hard = draws((5, 4), (5, 4), (5, 4))
    assert energy_hinge(anchors, positives, hard).item() == pytest.approx(FROZEN, abs=1e-5)


FROZEN = 1.1106798
