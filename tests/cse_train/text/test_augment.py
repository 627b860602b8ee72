import numpy as np
import pytest
from scipy.stats import chisquare

from cse_train.text.augment import repeat_subwords

CLS, SEP = 101, 102


def sentence(length: int) -> np.ndarray:
    """Distinct ids, so that whatever is doubled can be told."""
    return np.array([CLS, *range(1000, 1000 + length - 2), SEP])


def added(length: int, rate: float, rule: str, draws: int = 6000) -> np.ndarray:
    rng = np.random.default_rng(5)
    ids = sentence(length)
    return np.array([len(repeat_subwords(ids, rate, rng, rule)) - length for _ in range(draws)])


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_T17_undoing_the_doubling_recovers_the_sentence(rule: str) -> None:
    rng = np.random.default_rng(1)
    ids = sentence(32)
    for _ in range(300):
        view = repeat_subwords(ids, 0.32, rng, rule)
        assert np.array_equal(view[np.append(True, view[1:] != view[:-1])], ids)
        assert (view == CLS).sum() == (view == SEP).sum() == 1
        assert view[0] == CLS and view[-1] == SEP
        assert np.unique(view, return_counts=True)[1].max() <= 2


@pytest.mark.parametrize(
    ("rule", "length", "rate", "largest"),
    [
        ("paper", 8, 0.32, 2),  # int(.32 * 6) = 1, but at least 2
        ("paper", 32, 0.32, 9),  # int(.32 * 30)
        ("paper", 32, 0.08, 2),
        ("released", 8, 0.32, 1),  # int(.32 * 8) - 1
        ("released", 32, 0.32, 9),  # min(10, int(.32 * 32)) - 1
        ("released", 64, 0.32, 9),  # ... is capped
        ("released", 32, 0.08, 1),
    ],
)
def test_T17_number_of_doubled_subwords_is_uniform(rule: str, length: int, rate: float, largest: int) -> None:
    counts = np.bincount(added(length, rate, rule), minlength=largest + 1)
    assert len(counts) == largest + 1
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(
    ("length", "rate", "released", "paper"),
    [(8, 0.32, 0.5, 1.0), (16, 0.32, 2.0, 2.0), (32, 0.32, 4.5, 4.5), (16, 0.08, 0.0, 1.0), (32, 0.08, 0.5, 1.0)],
)
def test_T17_means_of_both_rules(length: int, rate: float, released: float, paper: float) -> None:
    """The table that was computed from the authors' code and the paper's equation (reference_spec A3)."""
    assert added(length, rate, "released").mean() == pytest.approx(released, abs=0.15)
    assert added(length, rate, "paper").mean() == pytest.approx(paper, abs=0.15)


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_T17_every_subword_is_equally_likely(rule: str) -> None:
    rng = np.random.default_rng(2)
    ids = sentence(14)
    doubled = np.zeros(2000, dtype=int)
    for _ in range(5000):
        values, times = np.unique(repeat_subwords(ids, 0.4, rng, rule), return_counts=True)
        doubled[values[times == 2]] += 1
    assert chisquare(doubled[1000:1012]).pvalue > 1e-3
    assert doubled.sum() == doubled[1000:1012].sum()


def test_short_sentences_and_rate_zero() -> None:
    rng = np.random.default_rng(3)
    assert repeat_subwords(np.array([CLS, SEP]), 0.3, rng).tolist() == [CLS, SEP]
    lengths = {len(repeat_subwords(np.array([CLS, 7, SEP]), 0.3, rng)) for _ in range(50)}
    assert lengths == {3, 4}
    assert repeat_subwords(sentence(32), 0.0, rng).tolist() == sentence(32).tolist()


def test_same_generator_same_view() -> None:
    views = [repeat_subwords(sentence(30), 0.32, np.random.default_rng(9)).tolist() for _ in range(2)]
    assert views[0] == views[1]
