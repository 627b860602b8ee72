"""NT-Xent three ways: literal, loop oracle, frozen value; the fourth, two ranks equal one, is test_joined_losses.py."""

import math

import pytest
import torch

from cse_train.losses import nt_xent
from tests.cse_train.losses.draws import draws


def loop_terms(anchors, positives, temperature=0.05) -> list[float]:
    """-log of each vector's share, term by term in fp64, log-sum-exp by hand."""
    both = torch.cat([anchors, positives]).double()
    n = len(anchors)

    def similar(i, j) -> float:
        return float(both[i] @ both[j]) / float(both[i].norm()) / float(both[j].norm()) / temperature

    terms = []
    for i in range(2 * n):
        others = [similar(i, j) for j in range(2 * n) if j != i]
        top = max(others)
        terms.append(top + math.log(sum(math.exp(s - top) for s in others)) - similar(i, (i + n) % (2 * n)))
    return terms


def test_t2_two_pairs_by_hand() -> None:
    """Unit vectors at 0, 90 (anchors) and 0, 45 degrees (positives): six cosines, four terms."""
    anchors = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    positives = torch.tensor([[3.0, 0.0], [1.0, 1.0]])
    half = math.sqrt(0.5)
    e = math.exp
    first = math.log(e(1) + e(0) + e(half)) - 1  # anchor 1: partner 1, anchor 2, positive 2
    second = math.log(e(half) + e(0) + e(0)) - half  # anchor 2
    third = math.log(e(1) + e(0) + e(half)) - 1  # positive 1
    fourth = math.log(e(half) + e(half) + e(half)) - half  # positive 2
    expected = (first + second + third + fourth) / 4
    assert nt_xent(anchors, positives, temperature=1.0).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 5e-4])
def test_t24_equals_the_loop(temperature: float) -> None:
    anchors, positives = draws((5, 4), (5, 4))
    terms = loop_terms(anchors, positives, temperature)
    assert nt_xent(anchors, positives, temperature).item() == pytest.approx(sum(terms) / len(terms), rel=2e-5)


def test_t2_both_directions() -> None:
    anchors, positives = draws((5, 4), (5, 4))
    assert nt_xent(anchors, positives).item() == pytest.approx(nt_xent(positives, anchors).item(), rel=1e-6)


def test_t2_all_cosines_equal_over_the_other_63_vectors() -> None:
    ones = torch.ones(32, 8)
    assert nt_xent(ones, ones).item() == pytest.approx(4.14313, abs=1e-5)


def test_t24_two_anchors_two_positives_two_documents() -> None:
    """Positives are averaged raw, then the cosine is taken; averaging unit vectors is another loss."""
    anchors, each = draws((4, 6), (8, 6))
    averaged = each.view(4, 2, 6).mean(1)
    terms = loop_terms(anchors, torch.stack([(each[2 * i] + each[2 * i + 1]) / 2 for i in range(4)]))
    assert nt_xent(anchors, averaged).item() == pytest.approx(sum(terms) / 8, rel=2e-5)
    unit = torch.nn.functional.normalize(each, dim=1).view(4, 2, 6).mean(1)
    assert abs(nt_xent(anchors, unit) - nt_xent(anchors, averaged)) > 1e-4


def test_t24_small_temperature_is_finite_in_value_and_gradient() -> None:
    anchors, positives = (v.requires_grad_() for v in draws((5, 4), (5, 4)))
    loss = nt_xent(anchors, positives, temperature=5e-4)
    assert torch.isfinite(loss) and loss > 87  # pytorch-metric-learning's cap in fp32
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, [anchors, positives]))


def test_half_precision_vectors_are_compared_in_fp32() -> None:
    anchors, positives = draws((5, 4), (5, 4))
    assert nt_xent(anchors.bfloat16(), positives.bfloat16()).dtype == torch.float32


def test_frozen_value() -> None:
    """Provenance: the fp64 loop oracle above on torch.Generator seed 3, first recorded with torch 2.13."""
    anchors, positives = draws((5, 4), (5, 4))
    assert nt_xent(anchors, positives).item() == pytest.approx(FROZEN, abs=1e-4)


FROZEN = 16.583457
