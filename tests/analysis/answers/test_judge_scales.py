"""The words of a comparison on metrics of every scale: a tie is half of a hundredth of the range, whatever that is."""

import math

import numpy as np
import pytest

from analysis.answers.judge import Judgement, Sides, Terms, judge_models
from analysis.statistics.looks import FAMILY
from analysis.tables.columns import entry_of
from analysis.tables.spec import POINTS, UNIT_SCALE, MetricScale

SCALES = {
    "0 to 1": (UNIT_SCALE, 0.6, 0.01),
    "0 to 100": (POINTS, 60.0, 1.0),
    "unbounded, 20 wide as declared": (MetricScale(span=20.0), -7.0, 0.2),
    "unbounded, and nobody says how wide": (MetricScale(span=None), 1200.0, 20.0),
    "lower is better, 0 to 1": (MetricScale("lower", 1.0), 0.4, 0.01),
    "lower is better, nobody says how wide": (MetricScale("lower", None), 3.2, 0.05),
}
"""What a metric's numbers mean, about where they lie, and a point."""
TRUTHS = (0.0, 0.5, -0.5, 3.0, -3.0)
"""True differences in points: where errors are most frequent, and one that is no tie."""
SEEDS = 5


def made(scale: MetricScale, left: list[float], right: list[float]) -> Judgement:
    sides = Sides(entry_of(dict(enumerate(left))), entry_of(dict(enumerate(right))), scale)
    return judge_models({"metric": sides}, Terms())["metric"]


def wrong_words(scale: MetricScale, better: bool, truth: float) -> set[str]:
    """What is wrong of a true difference of so many points; `better`: the one that is better by it."""
    if truth == 0:
        return {"better", "worse"}
    return {"worse" if better else "better", "tie"}


def simulated(kind: str, truth: float, draws: int) -> list[str]:
    """The words for pairs that differ by `truth` points; seeds are shared by half, with a spread of 0.3 or 1 point."""
    scale, base, point = SCALES[kind]
    generator = np.random.default_rng(3)
    sd = point * (0.3 if abs(truth) == 0.5 else 1.0)
    said = []
    for _ in range(draws):
        shared, (one, two) = generator.normal(0, math.sqrt(0.5), SEEDS), generator.normal(0, math.sqrt(0.5), (2, SEEDS))
        left, right = base + truth * point + sd * (shared + one), base + sd * (shared + two)
        said.append(made(scale, list(left), list(right)).word)
    return said


def check(kind: str, draws: int) -> None:
    scale = SCALES[kind][0]
    for truth in TRUTHS:
        said = simulated(kind, truth, draws)
        wrong = wrong_words(scale, (truth > 0) == (scale.better == "higher"), truth)
        share = np.mean([word in wrong for word in said])
        assert share <= FAMILY + 3 * math.sqrt(FAMILY / draws), (truth, share)
        assert abs(truth) < 3 or "tie" not in said
        assert scale.span is not None or "tie" not in said


@pytest.mark.parametrize("kind", SCALES)
def test_words_are_wrong_in_at_most_one_of_twenty_on_every_scale(kind: str) -> None:
    check(kind, 60)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCALES)
def test_the_same_of_2000_pairs_each(kind: str) -> None:
    check(kind, 2000)


def test_three_points_of_a_metric_from_0_to_1_are_no_tie() -> None:
    """0.60 against 0.63: at 8f12e5f surely within ±0.5."""
    left, right = [0.60, 0.61, 0.59, 0.60], [0.63, 0.64, 0.62, 0.635]
    column = made(UNIT_SCALE, left, right)
    assert column.word == "worse"
    assert made(MetricScale("lower", 1.0), left, right).word == "better"
    assert made(POINTS, left, right).word == "tie"


def test_a_tie_prints_the_interval_that_decided_it() -> None:
    """Differences of 0.1 ± 0.4: the 90% interval lies within ±0.5, the 95% one does not."""
    column = made(POINTS, [60.5, 60.1, 59.7, 60.1], [60.0, 60.0, 60.0, 60.0])
    assert column.interval is not None and column.word == "tie"
    assert column.level == pytest.approx(0.1) and max(map(abs, column.interval)) < 0.5
    assert column.reason == "the 90% interval is within ±0.5 (4 seeds)"


def test_without_a_range_nothing_is_a_tie_and_a_reason_says_so() -> None:
    column = made(MetricScale(span=None), [0.60, 0.61, 0.59], [0.60, 0.60, 0.60])
    assert column.word == "undecided" and column.seeds_for_effect is None
    assert column.reason.startswith("the 95% interval holds 0; no tie can be told, its scale is not known (3 seeds)")
    assert made(MetricScale(span=None), [0.60, 0.61, 0.62], [0.60, 0.61, 0.62]).word == "undecided"


@pytest.mark.parametrize(
    ("scale", "values", "digits"),
    [(POINTS, [61.2], 2), (UNIT_SCALE, [0.61], 4), (MetricScale(span=20.0), [7.0], 3)],
)
def test_digits_fit_the_scale(scale: MetricScale, values: list[float], digits: int) -> None:
    assert scale.digits(values) == digits


@pytest.mark.parametrize(("value", "digits"), [(1260.0, 0), (61.0, 2), (0.61, 4), (0.0, 4)])
def test_without_a_range_digits_fit_the_values(value: float, digits: int) -> None:
    assert MetricScale(span=None).digits([value]) == digits
