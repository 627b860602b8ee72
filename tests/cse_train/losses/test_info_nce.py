"""InfoNCE four ways: literal, loop oracle, frozen value; the fourth, two ranks equal one, is test_distributed.py."""

import math

import pytest
import torch

from cse_train.losses import info_nce
from tests.cse_train.losses.draws import draws


def loop_oracle(anchors, positives, negatives=None, hard=None, weight=1.0, temperature=0.05) -> float:
    """The paper's formula, term by term, in fp64."""

    def similar(a, b) -> float:
        return math.exp(float(a @ b) / (float(a.norm()) * float(b.norm())) / temperature)

    anchors, positives = anchors.double(), positives.double()
    total = 0.0
    for i in range(len(anchors)):
        below = sum(similar(anchors[i], p) for p in positives)
        if hard is not None:
            below += sum((weight if j == i else 1.0) * similar(anchors[i], h) for j, h in enumerate(hard.double()))
        if negatives is not None:
            below += sum(similar(anchors[i], n) for n in negatives.double())
        total -= math.log(similar(anchors[i], positives[i]) / below)
    return total / len(anchors)


def test_T1_two_by_two_by_hand() -> None:
    anchors = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    positives = torch.tensor([[3.0, 0.0], [1.0, 1.0]])
    first = math.log(math.exp(1) + math.exp(math.sqrt(0.5))) - 1
    second = math.log(math.exp(0) + math.exp(math.sqrt(0.5))) - math.sqrt(0.5)
    assert info_nce(anchors, positives, temperature=1.0).item() == pytest.approx((first + second) / 2, abs=1e-6)


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("extra", ["none", "hard", "queue", "both"])
def test_T1_T3_equals_the_loop(extra: str, weight: float) -> None:
    anchors, positives, hard, queue = draws((5, 4), (5, 4), (5, 4), (7, 4))
    hard = hard if extra in ("hard", "both") else None
    queue = queue if extra in ("queue", "both") else None
    expected = loop_oracle(anchors, positives, queue, hard, weight)
    assert info_nce(anchors, positives, queue, hard, weight).item() == pytest.approx(expected, abs=2e-5)


def test_T3_weight_on_every_hard_negative_is_another_loss() -> None:
    anchors, positives, hard = draws((5, 4), (5, 4), (5, 4))
    own = info_nce(anchors, positives, hard_negatives_BD=hard, hard_negative_weight=2.0).item()
    everywhere = info_nce(anchors, positives, negatives_ND=torch.cat([hard, hard])).item()
    assert abs(own - everywhere) > 1e-3


@pytest.mark.parametrize(("hard", "queue", "value"), [(0, 0, 4.15888), (1, 0, 4.85203), (0, 160, 5.41165)])
def test_T1_all_cosines_equal(hard: int, queue: int, value: float) -> None:
    ones = torch.ones(64, 8)
    loss = info_nce(ones, ones, torch.ones(queue, 8) if queue else None, ones if hard else None)
    assert loss.item() == pytest.approx(value, abs=1e-5)


def test_T2_one_direction() -> None:
    anchors, positives = draws((5, 4), (5, 4))
    assert abs(info_nce(anchors, positives) - info_nce(positives, anchors)) > 1e-3


def test_frozen_value() -> None:
    """Provenance: the fp64 loop oracle above on torch.Generator seed 3, first recorded with torch 2.13."""
    anchors, positives, hard, queue = draws((5, 4), (5, 4), (5, 4), (7, 4))
    assert info_nce(anchors, positives, queue, hard, 2.0).item() == pytest.approx(19.93583, abs=1e-4)


def test_small_temperature_does_not_overflow() -> None:
    anchors, positives = draws((5, 4), (5, 4))
    assert torch.isfinite(info_nce(anchors, positives, temperature=5e-4))
