"""IS-BERT's estimate three ways: literal, loop oracle, frozen value; two ranks are test_distributed.py."""

import math

import pytest
import torch

from cse_train.losses import jensen_shannon


def softplus(x: float) -> float:
    return math.log(1 + math.exp(x))


def loop_oracle(tokens, sentences, own) -> float:
    """Minus E[-sp(-T(own))] - E[sp(T(other))], both sides less log 2 (Deep InfoMax), in fp64."""
    positive, negative = [], []
    for vector, index in zip(tokens.double(), own.tolist(), strict=True):
        scores = [float(vector @ sentence) for sentence in sentences.double()]
        positive.append(math.log(2) - softplus(-scores[index]))
        negative += [softplus(score) - math.log(2) for j, score in enumerate(scores) if j != index]
    return sum(negative) / len(negative) - sum(positive) / len(positive)


def draws() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    tokens, sentences = torch.randn(9, 4, generator=generator), torch.randn(3, 4, generator=generator)
    return tokens, sentences, torch.tensor([2, 0, 0, 1, 2, 1, 1, 1, 0])


def loss_of(tokens, sentences, own) -> float:
    total, count = jensen_shannon(tokens, sentences, own)
    return float(total / count)


def test_two_sentences_and_three_tokens_by_hand() -> None:
    """Dot products with the own sentence 2, 0, -1 and with the other one 1, 3, 0."""
    sentences = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    tokens, own = torch.tensor([[2.0, 1.0], [0.0, 3.0], [0.0, -1.0]]), torch.tensor([0, 0, 1])
    positive, negative = softplus(-2) + softplus(0) + softplus(1), softplus(1) + softplus(3) + softplus(0)
    expected = (positive + negative) / 3 - 2 * math.log(2)
    assert loss_of(tokens, sentences, own) == pytest.approx(expected, abs=1e-6)


def test_equals_the_loop() -> None:
    assert loss_of(*draws()) == pytest.approx(loop_oracle(*draws()), rel=1e-5)


def test_vectors_that_tell_nothing_cost_nothing() -> None:
    tokens, sentences, own = draws()
    assert loss_of(torch.zeros_like(tokens), sentences, own) == pytest.approx(0.0, abs=1e-6)


def test_frozen_value() -> None:
    """Provenance: the fp64 loop oracle above on torch.Generator seed 3, first recorded with torch 2.13."""
    assert loss_of(*draws()) == pytest.approx(FROZEN, rel=1e-5)


FROZEN = 0.4008106
