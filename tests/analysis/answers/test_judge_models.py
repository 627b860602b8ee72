"""A against B by seeds: by hand, against scipy, and how often a word is wrong, on metrics of every scale."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats

from analysis.answers.judge import Judgement, Sides, Terms, judge_models, judge_over_columns
from analysis.statistics.item_error import ItemError
from analysis.statistics.looks import FAMILY, LOOKS
from analysis.tables.columns import entry_of
from analysis.tables.spec import POINTS, UNIT_SCALE, MetricScale, TableError

ALONE = "other sentences are not covered"
T2 = 4.302653
"""Student's t(0.975) at 2 degrees of freedom."""


def sides(left: list[float], right: list[float], first: int = 0) -> Sides:
    """Values by seed; B's seeds count from `first`."""
    return Sides(entry_of(dict(enumerate(left))), entry_of(dict(enumerate(right, first))))


def compare(left: list[float], right: list[float], terms: Terms | None = None, first: int = 0) -> Judgement:
    (made,) = judge_models({"sts_dev": sides(left, right, first)}, terms or Terms()).values()
    return made


def test_better_by_hand() -> None:
    """Differences 2, 3, 4: mean 3, sd 1, half interval 4.302653 / sqrt(3) = 2.484138."""
    made = compare([62.0, 64.0, 66.0], [60.0, 61.0, 62.0])
    assert (made.word, made.difference, made.n, made.more_seeds) == ("better", 3.0, 3, 0)
    assert made.interval == pytest.approx((3 - T2 / math.sqrt(3), 3 + T2 / math.sqrt(3)), abs=1e-6)
    assert compare([60.0, 61.0, 62.0], [62.0, 64.0, 66.0]).word == "worse"


@pytest.mark.parametrize("values", [[62.0, 63.0, 64.0], [60.1, 60.2, 60.3, 60.0], [58.0, 63.0]])
def test_a_folder_is_taken_as_it_is_beside_the_seeds_of_the_other_side(values: list[float]) -> None:
    """Student's interval of one sample, and the same the other way round; a folder's one value has no noise."""
    folder = entry_of({-2: 60.0})
    (made,) = judge_models({"a": Sides(entry_of(dict(enumerate(values))), folder)}, Terms()).values()
    above = scipy.stats.ttest_1samp(np.array(values) - 60.0, 0.0)
    theirs = above.confidence_interval(0.9 if made.word == "tie" else 0.95)
    assert made.interval == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert (made.word, made.n) == (("better", "tie", "undecided")[(3, 4, 2).index(len(values))], len(values))
    assert f"({len(values)} seeds of A, and B has none; {ALONE})" in made.reason
    (other,) = judge_models({"a": Sides(folder, entry_of(dict(enumerate(values))))}, Terms()).values()
    assert (
        other.difference == -made.difference and f"({len(values)} seeds of B, and A has none; {ALONE})" in other.reason
    )


def test_one_seed_beside_a_folder_and_two_folders_have_no_interval() -> None:
    for left, right in (({0: 62.0}, {-2: 60.0}), ({-1: 62.0}, {-2: 60.0})):
        (made,) = judge_models({"a": Sides(entry_of(left), entry_of(right))}, Terms()).values()
        assert (made.word, made.interval, made.difference) == ("undecided", None, 2.0)


def test_what_is_surely_within_the_margin_is_a_tie_and_not_better() -> None:
    """Differences 0.19, 0.20, 0.21: half interval 0.0248, so that 0 and 0.5 both lie outside of it."""
    made = compare([60.19, 61.20, 62.21], [60.0, 61.0, 62.0])
    assert (made.word, made.reason) == (
        "tie",
        f"the 90% interval is within ±0.5, and the 95% interval above 0 (3 seeds; {ALONE})",
    )
    assert compare([60.19, 61.20, 62.21], [60.0, 61.0, 62.0], Terms(margin=0.1)).word == "better"


def test_an_open_column_says_how_many_seeds_would_decide() -> None:
    """Differences 0, 1, 2: mean 1, sd 1."""
    made = compare([60.0, 61.0, 62.0], [60.0, 60.0, 60.0])
    assert (made.word, made.seeds_needed, made.more_seeds, made.more_seeds_range) == ("undecided", 6, 3, (2, 23))
    assert made.reason.endswith("; 3 more seeds would decide it, half of the time between 2 and 23")


def test_lacking_seeds_are_those_of_a_look_that_was_named() -> None:
    looked = compare([60.0, 61.0, 62.0], [60.0, 60.0, 60.0], Terms(looks=(3, 20)))
    assert (looked.word, looked.seeds_needed, looked.more_seeds) == ("undecided", 20, 17)
    four = compare([60.0, 61.0, 62.0, 61.0], [60.0, 60.0, 60.0, 60.0], Terms(looks=(3, 20)))
    assert (four.n, four.difference, four.more_seeds) == (4, 1.0, 16)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_the_interval_is_scipys_paired_one_at_its_share_of_the_level(columns: int, level: float) -> None:
    generator = np.random.default_rng(0)
    for seeds in (3, 4, 8):
        left, right = generator.normal(60, 1, (2, seeds))
        many = {f"c{i}": sides(list(left), list(right)) for i in range(columns)}
        made = judge_models(many, Terms(family=level))[f"c{columns - 1}"]
        oracle = scipy.stats.ttest_rel(left, right).confidence_interval(1 - level / columns)
        assert made.interval == pytest.approx((oracle.low, oracle.high), rel=1e-9)


def test_without_common_seeds_welch_compares_the_means() -> None:
    left, right = [62.0, 63.0, 64.5], [60.0, 60.5, 61.5]
    made = compare(left, right, first=3)
    error = math.sqrt(np.var(left, ddof=1) / 3 + np.var(right, ddof=1) / 3)
    middle = np.mean(left) - np.mean(right)
    assert (made.n, made.word) == (3, "undecided") and "none in common" in made.reason
    assert made.interval == pytest.approx((middle - T2 * error, middle + T2 * error), abs=1e-5)


def test_seeds_that_only_one_side_has_do_not_count() -> None:
    assert compare([62.0, 64.0, 66.0, 10.0], [60.0, 61.0, 62.0]).difference == 3.0


def test_one_seed_says_that_seeds_are_not_covered() -> None:
    made = compare([62.0], [60.0])
    assert (made.word, made.difference, made.interval) == ("undecided", 2.0, None)
    assert made.reason == "one seed on a side: what other seeds would give is not covered"
    assert (made.seeds_needed, made.more_seeds) == (3, 2)
    assert compare([62.0], [60.0, 61.0, 62.0]).more_seeds == 2
    assert sides([62.0], [60.0, 61.0, 62.0], first=5).common == 0


@pytest.mark.parametrize("rounding", [0.0, 1e-13])
def test_seeds_that_change_nothing_have_a_word_of_their_own(rounding: float) -> None:
    made = compare([61.0, 61.0 + rounding, 61.0], [60.0, 60.0, 60.0 + rounding])
    assert (made.word, made.interval, made.more_seeds, made.n) == ("seeds do nothing", None, None, 3)
    assert made.reason.startswith("all 3 seeds of each side give one score")
    assert compare([61.0, 61.0, 61.0], [60.0, 60.0, 60.01]).word == "better"
    assert compare([61.0], [60.0]).word == "undecided", "one seed a side shows nothing of seeds"


def test_seeds_and_items_by_hand() -> None:
    """Half widths of 2.484 over three seeds and 1.976 * 1.2247 = 2.420 over 150 pairs: 3.468 over both."""
    pairs = ItemError(15.0, 150, "pairs")
    both = replace(sides([62.0, 64.0, 66.0], [60.0, 61.0, 62.0]), items=pairs)
    (made,) = judge_models({"a": both}, Terms()).values()
    assert made.interval == pytest.approx((3 - 3.468, 3 + 3.468), abs=1e-3)
    assert (made.word, made.scope, made.n, made.items) == ("undecided", "both", 3, 150)
    assert made.reason.startswith("the 95% interval holds 0, and the 90% one leaves ±0.5 (3 seeds, 150 pairs); ")
    words = {over: judge_models({"a": both}, Terms(over=over))["a"] for over in ("seeds", "sentences")}
    assert {over: (one.word, one.scope) for over, one in words.items()} == {
        "seeds": ("better", "seeds"), "sentences": ("better", "sentences"),
    }  # fmt: skip
    (release,) = judge_models({"a": replace(both, is_release=True)}, Terms()).values()
    assert release == words["sentences"]


def test_where_no_number_of_seeds_decides_more_items_are_asked_for() -> None:
    both = replace(sides([61.0, 61.1, 60.9], [60.0, 60.0, 60.1]), items=ItemError(30.0, 400, "queries"))
    (made,) = judge_models({"a": both}, Terms()).values()
    assert (made.word, made.more_seeds) == ("undecided", None) and made.more_items is not None
    low, high = made.more_items_range or (None, None)
    assert low is not None and high is not None and low < made.more_items < high
    told = f"about {made.more_items} more queries would decide it, half of the time between {low} and {high}"
    assert made.reason.endswith(told)
    seeds = judge_models({"b": sides([60.0, 61.0, 62.0], [60.0, 60.0, 60.0])}, Terms())["b"]
    assert judge_over_columns([made]).word == "undecided" and judge_over_columns([made, seeds]).word == "more-seeds"


def test_equal_models_are_a_tie() -> None:
    assert compare([60.01, 61.02, 62.03], [60.01, 61.02, 62.03]).word == "tie"
    assert compare([60.0, 61.0, 62.0], [60.0, 61.0, 62.0]).word == "tie", "whole numbers may be exact"


@pytest.mark.parametrize(("decimals", "deviation"), [(2, 0.01), (2, 0.02), (1, 0.1), (1, 0.2)])
@pytest.mark.parametrize("seeds", [2, 3])
def test_rounded_scores_are_no_narrower_than_their_last_digit(decimals: int, deviation: float, seeds: int) -> None:
    """1,000 equal pairs of rows: wrong in up to 7% of cases where rounding counted as nothing."""
    generator = np.random.default_rng(7)
    rows_T2S = np.round(80 + deviation * generator.normal(size=(1000, 2, seeds)), decimals)
    made = [compare(list(a), list(b)).word for a, b in rows_T2S]
    assert sum(word in ("better", "worse") for word in made) <= 50


def test_two_equal_differences_have_the_width_of_their_rounding() -> None:
    """Differences 1.30 and 1.30 at two decimals: half is 12.7062 x sqrt(0.01^2 / 6 / 2) = 0.0367."""
    made = compare([61.30, 62.33], [60.00, 61.03])
    assert made.interval == pytest.approx((1.3 - 0.03668, 1.3 + 0.03668), abs=1e-4)


def test_collapsed_seeds_are_counted_and_averaged_into_nothing() -> None:
    made = compare([62.0, 64.0, 66.0, 63.0, 20.0], [60.0, 61.0, 62.0, 60.5, 60.0])
    assert made.failed == (1, 0) and made.difference == pytest.approx(np.mean([2, 3, 4, 2.5]))
    assert (made.word, made.more_seeds) == ("breaks", 0), "the sound ones are better by 2.9, and all of them worse"
    assert made.reason.endswith("; 1 of 5 seeds of A failed; -5.70 with the collapsed seeds")
    few = compare([62.0, 64.0, 20.0], [60.0, 61.0, 62.0])
    assert few.word == "breaks" and few.reason.startswith("too few seeds are left")
    other = compare([60.0, 61.0, 62.0, 60.5, 60.0], [62.0, 64.0, 66.0, 63.0, 20.0])
    assert (other.word, other.failed) == ("worse", (0, 1)), "the reference's failures take no word from the candidate"


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_a_candidate_with_broken_seeds_is_rarely_better(seeds: int, share: float) -> None:
    """A candidate whose sound seeds are a point better, and whose broken ones lose 20: of 500 with a broken seed."""
    generator, found = np.random.default_rng(11), []
    while len(found) < 500:
        broken = generator.random(seeds) < share
        if broken.any():
            left = 61 + 0.84 * generator.normal(size=seeds) - 20 * broken
            found.append(compare(list(left), list(60 + 0.84 * generator.normal(size=seeds))).word == "better")
    print(f"{seeds} seeds, {share:.0%} broken: better in {np.mean(found):.1%}")
    assert np.mean(found) <= 0.05


def test_a_run_of_the_candidate_that_ended_by_an_error_breaks_it() -> None:
    a, b = entry_of({0: 62.0, 1: 64.0, 2: 66.0}, failed=1), entry_of({0: 60.0, 1: 61.0, 2: 62.0})
    (made,) = judge_models({"x": Sides(a, b)}, Terms()).values()
    assert (made.word, made.failed) == ("breaks", (1, 0)) and made.reason.endswith("; 1 of 4 seeds of A failed")
    (even,) = judge_models({"x": Sides(a, replace(b, failed=1))}, Terms()).values()
    assert (even.word, even.failed) == ("better", (1, 1))


def test_lower_is_better_is_the_mirror_image_of_higher_is_better() -> None:
    """A thousand random pairs of rows with a failed seed here and there: the same word, level, counts, and the interval
    turned round."""
    generator = np.random.default_rng(5)
    for _ in range(1000):
        n = int(generator.integers(2, 8))
        values = 60 + generator.normal(size=(2, n)) + np.array([[generator.choice([0.0, 1.5, 4.0])], [0.0]])
        values[generator.random((2, n)) < 0.1] -= 40
        rows = [{seed: float(value) for seed, value in enumerate(row)} for row in values]
        ours, mirrored = (
            judge_models(
                {"x": Sides(*(entry_of({k: sign * v for k, v in row.items()}) for row in rows), MetricScale(better))},
                Terms(),
            )["x"]
            for sign, better in ((1, "higher"), (-1, "lower"))
        )
        assert (ours.word, ours.n, ours.failed, ours.more_seeds) == (
            mirrored.word, mirrored.n, mirrored.failed, mirrored.more_seeds,
        )  # fmt: skip
        assert ours.difference == pytest.approx(-(mirrored.difference or 0.0))
        assert (ours.interval is None) == (mirrored.interval is None)
        if ours.interval and mirrored.interval:
            assert ours.interval == pytest.approx([-mirrored.interval[1], -mirrored.interval[0]])


def test_a_loss_near_zero_has_not_collapsed() -> None:
    """One seed of five has the loss 0.02: the best of all, no failed one."""
    loss = MetricScale("lower", 1.0)
    good, base = [0.310, 0.311, 0.309, 0.312, 0.02], [0.300, 0.3, 0.3, 0.3, 0.3]
    (made,) = judge_models({"x": Sides(entry_of(dict(enumerate(good))), entry_of(dict(enumerate(base))), loss)},
                           Terms()).values()  # fmt: skip
    assert (made.word, made.failed) == ("undecided", (0, 0))
    (high,) = judge_models({"x": Sides(entry_of(dict(enumerate([*good[:4], 0.9]))), entry_of(dict(enumerate(base))),
                                       loss)}, Terms()).values()  # fmt: skip
    assert (high.word, high.failed) == ("breaks", (1, 0))


def test_a_lower_value_may_be_the_better_one_and_a_point_small() -> None:
    """Uniformity falls by 0.02, 0.03 and 0.04: two to four of its points."""
    a, b = entry_of({0: -2.02, 1: -2.04, 2: -2.06}), entry_of({0: -2.0, 1: -2.01, 2: -2.02})
    about = Sides(a, b, MetricScale("lower", 1.0))
    (made,) = judge_models({"sts_test:uniformity": about}, Terms()).values()
    assert (made.word, about.scale.point, about.scale.digits(about.values)) == ("better", 0.01, 4)
    plain = Sides(about.left, about.right)
    assert judge_models({"sts_test": plain}, Terms())["sts_test"].word == "tie"


def test_the_gates_word_for_several_columns() -> None:
    better, tie = sides([62.0, 64.0, 66.0], [60.0, 61.0, 62.0]), sides([60.01, 61.02, 62.0], [60.0, 61.0, 62.0])
    worse, unknown = sides([60.0, 61.0, 62.0], [64.0, 66.0, 68.0]), sides([60.0, 61.0, 62.0], [60.0, 60.0, 60.0])

    def gate(*columns: Sides) -> tuple[str, int | None]:
        judged = judge_models(dict(zip("abcd", columns, strict=False)), Terms(family=0.2))
        overall = judge_over_columns([*judged.values()])
        return overall.word, overall.more_seeds

    assert gate(better, tie) == ("better", 0) and gate(tie, tie) == ("tie", 0)
    assert gate(better, tie, unknown)[0] == "more-seeds" and gate(unknown, worse, better) == ("worse", 0)
    lacking = [
        made.more_seeds for made in judge_models({"a": unknown, "b": sides([1.0], [2.0])}, Terms(family=0.2)).values()
    ]
    assert gate(unknown, sides([1.0], [2.0])) == ("more-seeds", max(more for more in lacking if more is not None))
    hopeless = replace(sides([61.0, 61.1, 60.9], [60.0, 60.0, 60.1]), items=ItemError(30.0, 400, "queries"))
    assert gate(unknown, hopeless) == ("more-seeds", None)


@pytest.mark.parametrize(
    ("terms", "line"),
    [
        *(({"margin": margin}, "a tie needs a width") for margin in (0.0, -1.0, math.nan, math.inf)),
        *(({"family": level}, "level=") for level in (0.0, 0.5, -0.1, math.nan)),
        *(({"looks": looks}, "looks are growing") for looks in ((1, 3), (5, 3), (3, 3))),
    ],
)
def test_impossible_terms_are_refused(terms: dict[str, Any], line: str) -> None:
    with pytest.raises(TableError, match=line):
        Terms(**terms)


def test_before_the_first_look_nothing_is_decided() -> None:
    made = compare([62.0, 64.0], [60.0, 62.1], Terms(looks=(3, 5)))
    assert made.word == "undecided" and made.more_seeds == 1 and "the first look is at 3" in made.reason


def words(
    seeds: int, truth: list[float], terms: Terms, rho: float = 0.5, sd: float = 1.0, draws: int = 400
) -> tuple[list[list[str]], list[str]]:
    """The words for each column, and the gate's, of simulated models whose columns differ by `truth`."""
    generator = np.random.default_rng(1)
    by_column, gates = [], []
    for _ in range(draws):
        seed_S = generator.normal(0, math.sqrt(rho), seeds)
        made = {}
        for place, difference in enumerate(truth):
            own = generator.normal(0, math.sqrt(1 - rho), (2, seeds))
            left, right = 60 + difference + sd * (seed_S + own[0]), 60 + sd * (seed_S + own[1])
            made[f"c{place}"] = sides(list(left), list(right))
        comparisons = [*judge_models(made, terms).values()]
        by_column.append([comparison.word for comparison in comparisons])
        gates.append(judge_over_columns(comparisons).word)
    return by_column, gates


WRONG = {0.0: ("better", "worse"), 0.5: ("tie", "worse"), -0.5: ("tie", "better")}
"""Difference -> the words that are wrong of it."""


SETTINGS = [
    (3, [0.0], {}),
    (12, [0.0], {"looks": LOOKS}),
    (5, [0.0], {"family": 0.1}),
    (5, [0.5], {}),
    (8, [-0.5], {}),
    (5, [0.0, 0.5, -0.5, 0.0], {}),
    (12, [0.5], {"looks": LOOKS}),
    (12, [0.0], {"looks": LOOKS, "family": 0.1}),
]


def check_errors(seeds: int, truth: list[float], settings: dict[str, float], draws: int) -> None:
    """With differences of exactly 0 and of exactly the margin, where errors are most frequent; three sd of chance."""
    terms = Terms(**settings)  # type: ignore[arg-type]
    sd = 0.3 if 0.5 in map(abs, truth) else 1.0
    columns, gates = words(seeds, truth, terms, sd=sd, draws=draws)
    wrong = [any(word in WRONG[t] for word, t in zip(row, truth, strict=True)) for row in columns]
    bar = terms.family + 3 * math.sqrt(terms.family / draws)
    assert 0 < np.mean(wrong) <= bar
    if set(truth) == {0.0}:
        assert np.mean([gate in ("better", "worse") for gate in gates]) <= bar


@pytest.mark.parametrize(("seeds", "truth", "settings"), SETTINGS[:2])
def test_any_word_is_wrong_at_most_as_often_as_the_level_says(
    seeds: int, truth: list[float], settings: dict[str, float]
) -> None:
    check_errors(seeds, truth, settings, 400)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "truth", "settings"), SETTINGS)
def test_the_same_with_more_draws(seeds: int, truth: list[float], settings: dict[str, float]) -> None:
    check_errors(seeds, truth, settings, 2000)


def test_a_true_difference_passes_the_gate() -> None:
    """Differences have sd sqrt(2 (1 - 0.5)) = 1: of 3 points with 5 seeds nearly all are shown, and none is `worse`."""
    _, gates = words(5, [3.0], Terms())
    assert np.mean([gate == "better" for gate in gates]) > 0.95 and "worse" not in gates


def test_as_many_seeds_as_are_named_show_the_margin() -> None:
    """Differences of sd 0.25 and a true 0.5: `seeds_for_effect` of known spread shows it in four of five."""
    generator = np.random.default_rng(0)
    spread = list(60 + np.array([-0.25, 0.0, 0.25]))
    seeds = compare(spread, [60.0, 60.0, 60.0]).seeds_for_effect
    assert seeds is not None
    drawn = generator.normal(0.5, 0.25, (4000, seeds))
    assert (scipy.stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean() >= 0.8 - 0.03


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


def judge_scaled(scale: MetricScale, left: list[float], right: list[float]) -> Judgement:
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
        said.append(judge_scaled(scale, list(left), list(right)).word)
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
    column = judge_scaled(UNIT_SCALE, left, right)
    assert column.word == "worse"
    assert judge_scaled(MetricScale("lower", 1.0), left, right).word == "better"
    assert judge_scaled(POINTS, left, right).word == "tie"


def test_a_tie_prints_the_interval_that_decided_it() -> None:
    """Differences of 0.1 ± 0.4: the 90% interval lies within ±0.5, the 95% one does not."""
    column = judge_scaled(POINTS, [60.5, 60.1, 59.7, 60.1], [60.0, 60.0, 60.0, 60.0])
    assert column.interval is not None and column.word == "tie"
    assert column.level == pytest.approx(0.1) and max(map(abs, column.interval)) < 0.5
    assert column.reason == f"the 90% interval is within ±0.5 (4 seeds; {ALONE})"


def test_without_a_range_nothing_is_a_tie_and_a_reason_says_so() -> None:
    column = judge_scaled(MetricScale(span=None), [0.60, 0.61, 0.59], [0.60, 0.60, 0.60])
    assert column.word == "undecided" and column.seeds_for_effect is None
    assert column.reason.startswith("the 95% interval holds 0; no tie can be told, its scale is not known (3 seeds; ")
    assert judge_scaled(MetricScale(span=None), [0.60, 0.61, 0.62], [0.60, 0.61, 0.62]).word == "undecided"


@pytest.mark.parametrize(
    ("scale", "values", "digits"),
    [(POINTS, [61.2], 2), (UNIT_SCALE, [0.61], 4), (MetricScale(span=20.0), [7.0], 3)],
)
def test_digits_fit_the_scale(scale: MetricScale, values: list[float], digits: int) -> None:
    assert scale.digits(values) == digits


@pytest.mark.parametrize(("value", "digits"), [(1260.0, 0), (61.0, 2), (0.61, 4), (0.0, 4)])
def test_without_a_range_digits_fit_the_values(value: float, digits: int) -> None:
    assert MetricScale(span=None).digits([value]) == digits
