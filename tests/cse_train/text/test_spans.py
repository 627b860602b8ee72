"""T24: DeCLUTR's span sampling, against its distributions and its geometry."""

import numpy as np
import pytest
from scipy.stats import beta, chisquare

from cse_train.text.spans import STRATEGIES, SpanRule, sample_spans


def draw(rule: SpanRule, tokens: int, times: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Anchors [times, A, 2] and positives [times, A, P, 2]."""
    rng = np.random.default_rng(seed)
    drawn = [sample_spans(tokens, rule, rng) for _ in range(times)]
    return np.stack([anchors for anchors, _ in drawn]), np.stack([positives for _, positives in drawn])


@pytest.fixture(scope="module")
def default_draws() -> tuple[np.ndarray, np.ndarray]:
    """10^5 anchors and 10^5 positives of a long document under the paper's settings with P = 1."""
    anchors, positives = draw(SpanRule(positives=1), 6000, 50_000)
    return anchors.reshape(-1, 2), positives.reshape(-1, 2)


def test_T24_mean_lengths_are_352_and_192(default_draws: tuple[np.ndarray, np.ndarray]) -> None:
    """32 + 480 * 4/6 and 32 + 480 * 2/6, less one half for int(); Beta(4, 2) and Beta(2, 4) have variance 8/252."""
    for spans, mean in zip(default_draws, (352, 192), strict=True):
        lengths = spans[:, 1] - spans[:, 0]
        error = 480 * (8 / 252) ** 0.5 / len(lengths) ** 0.5
        assert abs(lengths.mean() - (mean - 0.5)) < 4 * error
        assert lengths.min() >= 32 and lengths.max() < 512


def test_T24_lengths_follow_the_beta_distributions(default_draws: tuple[np.ndarray, np.ndarray]) -> None:
    for spans, (a, b) in zip(default_draws, ((4, 2), (2, 4)), strict=True):
        found, _ = np.histogram(spans[:, 1] - spans[:, 0], bins=np.linspace(32, 512, 21))
        assert chisquare(found, len(spans) * np.diff(beta.cdf(np.linspace(0, 1, 21), a, b))).pvalue > 1e-3


@pytest.mark.parametrize(("anchors", "tokens"), [(1, 2048), (2, 2048), (2, 6100), (3, 3072), (4, 4096), (7, 7168)])
def test_T24_anchors_lie_in_cells_at_least_2_apart(anchors: int, tokens: int) -> None:
    found, _ = draw(SpanRule(anchors=anchors, positives=1), tokens, 2000)
    cells = found[:, :, 0] // 512
    assert (cells == (found[:, :, 1] - 1) // 512).all()
    apart = np.diff(np.sort(cells, axis=1), axis=1)
    assert (apart >= 2).all()
    in_order = np.sort(found[:, :, 0], axis=1)[:, 1:] - np.sort(found[:, :, 1], axis=1)[:, :-1]
    assert (in_order >= 512).all()
    assert found.min() >= 0 and found.max() <= tokens


def test_T24_anchors_of_long_documents_reach_every_cell() -> None:
    found, _ = draw(SpanRule(positives=1), 4096, 8000)
    share = np.bincount((found[:, 0, 0] // 512), minlength=8) / 8000
    np.testing.assert_allclose(share, 1 / 8, atol=0.02)


@pytest.mark.parametrize("tokens", [2048, 2049, 5000])
def test_T24_positives_overlap_or_touch_the_anchor(tokens: int) -> None:
    anchors, positives = draw(SpanRule(), tokens, 3000)
    start, end = anchors[:, :, None, 0], anchors[:, :, None, 1]
    assert (positives[..., 0] <= end).all() and (positives[..., 1] >= start).all()
    assert positives.min() >= 0 and positives.max() <= tokens
    inside = (positives[..., 0] >= start) & (positives[..., 1] <= end)
    beside = (positives[..., 1] == start) | (positives[..., 0] == end)
    assert inside.any() and beside.any() and not (inside | beside).all()


def test_T24_subsumed_positives_lie_inside() -> None:
    anchors, positives = draw(SpanRule(strategy="subsuming"), 2048, 3000)
    start, end = anchors[:, :, None, 0], anchors[:, :, None, 1]
    assert (positives[..., 0] >= start).all() and (positives[..., 1] <= end).all()
    room = (end - start - 32).repeat(2, axis=2)
    share = (positives[..., 1] - positives[..., 0] - 32)[room > 50] / room[room > 50]
    assert share.mean() == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("tokens", [2048, 5000])
def test_T24_adjacent_positives_lie_beside(tokens: int) -> None:
    anchors, positives = draw(SpanRule(strategy="adjacent"), tokens, 3000)
    before = positives[..., 1] == anchors[:, :, None, 0]
    after = positives[..., 0] == anchors[:, :, None, 1]
    assert (before ^ after).all()
    assert 0.3 < before.mean() < 0.7
    assert positives.min() >= 0 and positives.max() <= tokens


def test_T24_an_adjacent_positive_may_begin_the_document() -> None:
    """One length only, two cells: an anchor in the second cell has room on its left alone, down to token 0."""
    rule = SpanRule(anchors=1, positives=1, min_length=4, max_length=4, strategy="adjacent")
    anchors, positives = draw(rule, 8, 50)
    assert {tuple(a) + tuple(p) for a, p in zip(anchors[:, 0], positives[:, 0, 0], strict=True)} == {
        (0, 4, 4, 8),
        (4, 8, 0, 4),
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_T24_shortest_document_is_accepted_and_one_token_less_is_not(strategy: str) -> None:
    rule, rng = SpanRule(strategy=strategy), np.random.default_rng(0)
    assert rule.tokens_needed == 2048
    for _ in range(200):
        sample_spans(2048, rule, rng)
    with pytest.raises(ValueError, match="^spans: tokens=2047 is fewer than .*=2048$"):
        sample_spans(2047, rule, rng)


def test_adapted_rule_accepts_the_document_it_was_made_for() -> None:
    rule, rng = SpanRule(), np.random.default_rng(0)
    for tokens in (128, 131, 500, 2047, 2048, 9000):
        adapted = rule.adapted(tokens)
        assert adapted.max_length == min(512, tokens // 4)
        sample_spans(tokens, adapted, rng)
    assert rule.adapted(2048) == rule.adapted(9000) == rule


def test_same_generator_same_spans() -> None:
    (a, b), (c, d) = draw(SpanRule(), 3000, 5, seed=1), draw(SpanRule(), 3000, 5, seed=1)
    assert np.array_equal(a, c) and np.array_equal(b, d)
    assert not np.array_equal(a, draw(SpanRule(), 3000, 5, seed=2)[0])
