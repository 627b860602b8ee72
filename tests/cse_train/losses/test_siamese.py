"""SBERT's objectives and InferSent's features three ways: literal, loop oracle, frozen value.

Two ranks equal one: test_joined_losses.py, test_distributed.py.
"""

import math

import pytest
import torch

from cse_train.losses import classification, pair_features, product_features, triplet
from tests.cse_train.losses.draws import draws


def test_features_and_classification_by_hand() -> None:
    features = pair_features(torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 0.5]]))
    assert features.tolist() == [[1.0, -2.0, 3.0, 0.5, 2.0, 2.5]]
    assert product_features(torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 0.5]])).tolist() == [
        [1.0, -2.0, 3.0, 0.5, 2.0, 2.5, 3.0, -1.0]
    ]
    logits = torch.tensor([[0.0, 0.0, 0.0], [math.log(2), 0.0, 0.0]])
    expected = (math.log(3) + math.log(2)) / 2
    assert classification(logits, torch.tensor([1, 0])).item() == pytest.approx(expected, abs=1e-6)


def test_triplet_by_hand() -> None:
    """|a - p| = 5 and |a - n| = 2 cost 4; 1 and 13 cost nothing; 0 and 0 cost the margin, with a finite gradient."""
    anchors = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], requires_grad=True)
    positives = torch.tensor([[3.0, 4.0], [1.0, 2.0], [2.0, 2.0]])
    negatives = torch.tensor([[0.0, 2.0], [6.0, 13.0], [2.0, 2.0]])
    loss = triplet(anchors, positives, negatives)
    assert loss.item() == pytest.approx((4 + 0 + 1) / 3, abs=1e-6)
    loss.backward()
    assert torch.isfinite(anchors.grad).all()


@pytest.mark.parametrize("margin", [0.0, 1.0, 2.5])
def test_triplet_equals_the_loop(margin: float) -> None:
    anchors, positives, negatives = draws((6, 4), (6, 4), (6, 4))
    total = 0.0
    for a, p, n in zip(anchors.tolist(), positives.tolist(), negatives.tolist(), strict=True):
        total += max(math.dist(a, p) - math.dist(a, n) + margin, 0.0)
    assert triplet(anchors, positives, negatives, margin).item() == pytest.approx(total / 6, abs=1e-6)


@pytest.mark.parametrize("products", [False, True], ids=["sbert", "infersent"])
def test_classification_equals_the_loop(products: bool) -> None:
    left, right, weight = draws((6, 4), (6, 4), (3, 16 if products else 12))
    labels, total = [0, 2, 1, 1, 0, 2], 0.0
    for u, v, label in zip(left.tolist(), right.tolist(), labels, strict=True):
        read = [*u, *v, *(abs(a - b) for a, b in zip(u, v, strict=True))]
        read += [a * b for a, b in zip(u, v, strict=True)] if products else []
        powers = [math.exp(sum(w * x for w, x in zip(row, read, strict=True))) for row in weight.tolist()]
        total -= math.log(powers[label] / sum(powers))
    features = product_features if products else pair_features
    ours = classification(features(left, right) @ weight.T, torch.tensor(labels))
    assert ours.item() == pytest.approx(total / 6, abs=1e-5)


def test_frozen_values() -> None:
    """Provenance: the loops above on torch.Generator seed 3, first recorded with torch 2.13."""
    left, right, third, weight = draws((6, 4), (6, 4), (6, 4), (3, 12))
    labels = torch.tensor([0, 2, 1, 1, 0, 2])
    assert triplet(left, right, third).item() == pytest.approx(FROZEN_TRIPLET, abs=1e-5)
    assert classification(pair_features(left, right) @ weight.T, labels).item() == pytest.approx(
        FROZEN_LABELS, abs=1e-5
    )


FROZEN_TRIPLET, FROZEN_LABELS = 1.3022369, 2.5915172
