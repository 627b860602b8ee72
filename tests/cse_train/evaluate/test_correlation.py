"""What cosines rank: rounding decides no order, and a column that is one value, or rounding alone, has no score."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.pooling import make_pooled
from cse_train.evaluate.correlation import constant, find_unranked, round_cosines, spearman
from cse_train.evaluate.embedding import StsEvaluator, evaluating
from cse_train.evaluate.pairs import Pairs
from cse_train.evaluate.vectors import EmbeddedPairs

RATED = 60


def of_equal_texts(change: str) -> EmbeddedPairs:
    """Sentences of many lengths beside themselves, as `change` writes them, with ratings of no meaning."""
    left = tuple(f"a river {'runs by the old town ' * (place % 9)}{place}" for place in range(RATED))
    right = tuple(getattr(text, change)() for text in left)
    gold = np.random.default_rng(0).uniform(0, 5, RATED)
    encoder = load_backbone("words-l4-h128")
    evaluator = StsEvaluator(Pairs("same", left, right, gold, "0"), encoder.tokenizer)
    with evaluating(encoder.encoder):
        return evaluator(make_pooled(encoder.encoder, "mean"))


@pytest.mark.parametrize("change", ["strip", "upper", "title"])
def test_texts_that_are_equal_for_the_encoder_have_no_score_and_a_reason(change: str) -> None:
    """Equal as text, or in two places of a batch: the cosines are 1, 1 - 1e-16 or 1 - 1e-7, in the order of chance."""
    found = of_equal_texts(change)
    assert math.isnan(found.value) and set(found.cosines) == {1.0}
    assert found.unscored == f"the cosines of its {RATED} pairs are all equal, within rounding"


def test_rounding_noise_ranks_nothing_and_a_difference_beyond_it_does() -> None:
    gold = np.arange(50.0)
    noise = np.random.default_rng(1).normal(0, 1e-7, 50)
    for level in (1.0, 0.1234565, 0.0, -0.5):
        assert math.isnan(spearman(round_cosines(level + noise), gold)), "also at the edge of a rounded digit"
    assert spearman(round_cosines(0.5 + 1e-5 * gold), gold) == pytest.approx(100)
    assert find_unranked(round_cosines(0.5 + 1e-5 * gold), gold) == ""


def test_cosines_that_differ_by_rounding_are_tied_among_others() -> None:
    rng = np.random.default_rng(2)
    exact, gold = rng.uniform(-1, 1, 200).round(3), rng.uniform(0, 5, 200)
    seen = {spearman(round_cosines(exact + rng.normal(0, 5e-8, 200)), gold) for _ in range(5)}
    assert seen == {spearman(exact, gold)}
    assert seen.pop() == pytest.approx(100 * spearmanr(exact, gold).statistic, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_ratings_that_are_equal_but_for_their_last_digit_are_constant_on_any_scale(scale: float) -> None:
    assert constant(np.array([0.1 + 0.2, 0.3, 0.3]) * scale) and constant(np.zeros(3))
    assert not constant(np.array([0.3, 0.3, 0.300001]) * scale)
    assert find_unranked(np.arange(3.0), np.array([2.0, 2.0, 2.0])) == "the ratings of its 3 pairs are all equal"
