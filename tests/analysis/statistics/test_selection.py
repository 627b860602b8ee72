"""What selection does to scores: best of k seeds, expected best of n draws, a search's surface, Kendall's W."""

import csv
import itertools
import math
import statistics
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from analysis.statistics import surface
from analysis.statistics.agreement import concordance, correlate_seeds
from analysis.statistics.basics import Spread
from analysis.statistics.selection import (
    best_of_seeds,
    expect_best,
    expect_best_by,
    find_rivals,
    find_seeds_for,
    pool_cells,
    select,
    shrunken,
)
from analysis.statistics.surface import clip_broken, coordinates, lower_bounds
from analysis.tables.columns import entry_of
from analysis.tables.ordering import order_entries


def test_the_mean_over_all_subsets_by_hand() -> None:
    """{1, 2, 4}: pairs have the maxima 2, 4, 4."""
    assert expect_best([4.0, 1.0, 2.0], 1) == pytest.approx(7 / 3)
    assert expect_best([4.0, 1.0, 2.0], 2) == pytest.approx(10 / 3)
    assert expect_best([4.0, 1.0, 2.0], 3) == 4.0


def test_it_is_the_mean_over_all_subsets() -> None:
    scores = np.random.default_rng(0).normal(size=7).tolist()
    every = [statistics.fmean(max(some) for some in itertools.combinations(scores, k)) for k in range(1, 8)]
    assert [expect_best(scores, k) for k in range(1, 8)] == pytest.approx(every)


def test_two_thousand_scores_stay_exact() -> None:
    scores = np.arange(2000.0).tolist()
    # The maximum of k of 0..n-1 without putting back has mean k (n + 1) / (k + 1) - 1.
    exact = [k * 2001 / (k + 1) - 1 for k in range(1, 2001)]
    assert [expect_best(scores, k) for k in range(1, 2001)] == pytest.approx(exact, rel=1e-9)


def test_thousands_of_values_do_not_overflow() -> None:
    values = np.linspace(0, 1, 5001).tolist()
    assert expect_best(values, 2500) == pytest.approx(2500 / 2501, abs=1e-3)


def test_it_is_unbiased_where_drawing_with_replacement_is_not() -> None:
    """Uniform values: the best of n has the mean n / (n + 1). Bar: 4 standard errors; the plug-in fails by more."""
    rng = np.random.default_rng(0)
    size, draws, repeats = 8, 5, 4000
    samples = np.sort(rng.random((repeats, size)))
    ours = np.array([expect_best(row, draws) for row in samples.tolist()])
    share = (np.arange(1, size + 1) / size) ** draws
    plug_in = samples @ np.diff(share, prepend=0)
    error = 4 / math.sqrt(repeats)
    assert abs(ours.mean() - draws / (draws + 1)) < error * ours.std()
    assert abs(plug_in.mean() - draws / (draws + 1)) > error * plug_in.std()


def test_shrinking_by_hand() -> None:
    """Means 1, 3, 5 of two runs, variance 2 in each: between mean squares 8, so t = 3 and a mean keeps 3 / 4."""
    cells = [[0.0, 2.0], [2.0, 4.0], [4.0, 6.0]]
    assert shrunken(cells, 2) == pytest.approx(3 + 0.75 * 2)
    assert shrunken([[1.0], [3.0]], 1) is None and shrunken([[1.0, 2.0]], 0) is None
    assert shrunken([[0.0, 4.0], [1.0, 3.0]], 0) == pytest.approx(2.0), "no spread beyond the seeds'"
    assert shrunken([[1.0, 1.0], [3.0, 3.0]], 1) == pytest.approx(3.0), "seeds without noise shrink nothing"


def test_the_shrunken_value_of_the_best_of_many_is_nearer_the_truth() -> None:
    """Bar: over 400 grids of 20 cells x 3 seeds, its mean error is below a fifth of the plain mean's."""
    rng = np.random.default_rng(1)
    plain, shrunk = [], []
    for _ in range(400):
        truth = rng.normal(0, 1, 20)
        runs = truth[:, None] + rng.normal(0, 1.5, (20, 3))
        best = int(runs.mean(1).argmax())
        plain.append(runs[best].mean() - truth[best])
        shrunk.append((shrunken(runs.tolist(), best) or 0.0) - truth[best])
    assert np.mean(plain) > 0.3
    assert abs(np.mean(shrunk)) < np.mean(plain) / 5


def test_a_selection_tells_the_draws_that_there_are() -> None:
    found = select([[60.0, 62.0], [70.0, 50.0], [61.5, 62.5]], 2)
    assert list(found.expected_best) == [1, 3] and found.expected_best[3] == found.value == 62.0
    assert (found.best_run, found.other_seeds, found.optimism_of_run) == (62.5, 61.5, 1.0)
    assert found.shrunken is not None and found.optimism == pytest.approx(62.0 - found.shrunken)
    assert list(select([[float(i)] for i in range(12)], 11).expected_best) == [1, 5, 10, 12]
    alone = select([[1.0]], 0)
    assert (alone.other_seeds, alone.optimism_of_run, alone.shrunken, alone.optimism) == (None, None, None, None)


GRID = [{"rate": rate, "dropout": dropout} for rate in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2) for dropout in (0.0, 0.1, 0.2)]


def ridge(noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Expected scores over GRID with their top at the fourth rate, and one noisy run of each."""
    places = np.array([GRID.index(cell) // 3 for cell in GRID])
    expected = 60.0 - 2.0 * (places - 3.0) ** 2
    return expected, expected + np.random.default_rng(seed).normal(0, noise, len(GRID))


def test_numbers_count_by_rank_and_all_else_by_being_the_same() -> None:
    cells = [{"rate": 1e-2, "pooler": "cls"}, {"rate": 1e-5, "pooler": "mean"}, {"rate": 1e-3, "pooler": "cls", "x": 1}]
    assert coordinates(cells).tolist() == [[1, 1, 0, 1, 0], [0, 0, 1, 1, 0], [0.5, 1, 0, 0, 1]]
    assert coordinates([{"rate": 1, "same": True}] * 3).shape == (3, 0)


def test_bounds_are_those_of_a_gaussian_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against scikit-learn's own prediction with the same kernel; its deviation has the noise in it, ours has not."""
    from sklearn.gaussian_process import GaussianProcessRegressor

    models = []
    fit = GaussianProcessRegressor.fit
    monkeypatch.setattr(GaussianProcessRegressor, "fit", lambda self, *given: models.append(fit(self, *given)) or self)
    _, scores = ridge(1.0)
    bounds = lower_bounds(GRID, scores)
    values = clip_broken(scores)
    mean, deviation = models[0].predict(coordinates(GRID), return_std=True)
    without_noise = np.sqrt(deviation**2 - models[0].kernel_.k2.noise_level)
    assert bounds == pytest.approx(values.mean() + values.std() * (mean - surface.DOUBT * without_noise), abs=1e-6)


def test_a_lucky_run_far_from_the_ridge_is_not_picked() -> None:
    expected, scores = ridge(0.3)
    lucky = GRID.index({"rate": 1e-4, "dropout": 0.1})
    scores[lucky] = scores.max() + 1.0
    bounds = lower_bounds(GRID, scores)
    assert int(np.argmax(scores)) == lucky
    assert expected[int(np.argmax(bounds))] == expected.max() and bounds[lucky] < scores[lucky] - 1.0


def test_in_the_mean_of_many_draws_the_pick_loses_less_than_the_best_run_does() -> None:
    lost = []
    for seed in range(40):
        expected, scores = ridge(3.0, seed)
        picks = int(np.argmax(scores)), int(np.argmax(lower_bounds(GRID, scores)))
        lost.append([expected.max() - expected[pick] for pick in picks])
    by_run, by_bound = np.mean(lost, axis=0)
    assert by_bound < 0.8 * by_run


def test_broken_runs_are_raised_to_where_the_rest_ends() -> None:
    assert clip_broken(np.array([50.0, 51.0, 52.0, 53.0, -10.0])).tolist() == [50.0, 51.0, 52.0, 53.0, 49.0]
    _, scores = ridge(0.3)
    broken = scores.copy()
    broken[0] = -40.0
    assert int(np.argmax(lower_bounds(GRID, broken))) == int(np.argmax(lower_bounds(GRID, scores)))


def test_scores_stand_for_themselves_where_no_axis_or_no_score_varies() -> None:
    assert lower_bounds([{"rate": 1.0}] * 3, [1.0, 2.0, 3.0]).tolist() == [1.0, 2.0, 3.0]
    assert lower_bounds(GRID[:3], [5.0, 5.0, 5.0]).tolist() == [5.0, 5.0, 5.0]


def test_more_runs_than_a_fit_takes_are_all_believed() -> None:
    cells = GRID * 20
    scores = np.concatenate([ridge(1.0, seed)[1] for seed in range(20)])
    assert len(cells) > surface.FITTED_POINTS
    bounds = lower_bounds(cells, scores)
    means = scores.reshape(20, -1).mean(axis=0)
    assert bounds[: len(GRID)] == pytest.approx(bounds[-len(GRID) :])
    top = means > np.median(means)
    assert bounds[: len(GRID)][top] == pytest.approx(means[top], abs=0.6)


PUBLIC = Path(__file__).resolve().parents[4] / "shared" / "data" / "public_runs" / "simple_simcse"


def pick(dev: tuple[float, ...], test: tuple[float, ...], some: tuple[int, ...]) -> float:
    """The test score of the best by dev; of equal ones the mean."""
    most = max(dev[seed] for seed in some)
    return statistics.fmean(test[seed] for seed in some if dev[seed] == most)


def test_three_seeds_by_hand() -> None:
    """By dev the pairs pick seeds 1, 2 and 2, of which the test scores are 5 and 9."""
    dev, test = [1.0, 2.0, 3.0], [7.0, 5.0, 9.0]
    assert [expect_best_by(dev, test, k) for k in (1, 2, 3)] == pytest.approx([7.0, 23 / 3, 9.0])


@pytest.mark.parametrize("dev", [(3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0), (1.0, 1.0, 1.0, 2.0, 2.0, 0.0, 3.0), (5.0,) * 7])
def test_it_is_the_mean_over_all_choices_with_equal_dev_scores_too(dev: tuple[float, ...]) -> None:
    test = tuple(np.random.default_rng(1).normal(size=7).tolist())
    every = [
        statistics.fmean(pick(dev, test, some) for some in itertools.combinations(range(7), k)) for k in range(1, 8)
    ]
    assert [expect_best_by(dev, test, k) for k in range(1, 8)] == pytest.approx(every)


def test_the_range_is_that_of_all_choices() -> None:
    rng = np.random.default_rng(2)
    dev = tuple(rng.normal(size=22).tolist())
    test = tuple((np.array(dev) + rng.normal(size=22)).tolist())
    for best in best_of_seeds(dev, test):
        if best.seeds < 5:
            picks = np.sort([pick(dev, test, some) for some in itertools.combinations(range(22), best.seeds)])
            exact = (picks[math.ceil(0.025 * len(picks)) - 1], picks[math.ceil(0.975 * len(picks)) - 1])
            assert best.spread == pytest.approx(exact), best.seeds


def test_of_one_seed_it_is_the_mean_with_its_standard_error() -> None:
    test = [70.0, 71.5, 69.0, 72.0]
    best = best_of_seeds([1.0, 2.0, 3.0, 4.0], test)[0]
    assert (best.seeds, best.expected) == (1, pytest.approx(70.625))
    assert best.error == pytest.approx(statistics.stdev(test) / 2) and best.spread is None


@pytest.mark.parametrize(("seeds", "place"), [(3, 1), (5, 2), (10, 3)])
def test_the_standard_error_is_the_deviation_over_simulated_rows(seeds: int, place: int) -> None:
    """400 rows of 50 seeds whose dev and test scores correlate by 0.7; bar: 12%."""
    rng = np.random.default_rng(3)
    dev_RN = rng.normal(size=(400, 50))
    test_RN = 0.7 * dev_RN + math.sqrt(1 - 0.49) * rng.normal(size=(400, 50))
    made = [best_of_seeds(dev, test)[place] for dev, test in zip(dev_RN[:40], test_RN[:40], strict=True)]
    every = [expect_best_by(dev, test, seeds) for dev, test in zip(dev_RN, test_RN, strict=True)]
    assert {best.seeds for best in made} == {seeds}
    error = math.sqrt(statistics.fmean((best.error or 0.0) ** 2 for best in made))
    assert error == pytest.approx(statistics.stdev(every), rel=0.12)
    # The expected test score is that of the expected largest of so many normal values, times 0.7.
    normal = {3: 0.8463, 5: 1.1630, 10: 1.5388}[seeds]
    assert statistics.fmean(every) == pytest.approx(0.7 * normal, abs=4 * statistics.stdev(every) / math.sqrt(400))


def test_how_many_seeds_a_value_needs() -> None:
    dev, test = [1.0, 2.0, 3.0], [7.0, 5.0, 9.0]
    assert [find_seeds_for(dev, test, value) for value in (6.0, 7.5, 8.0, 9.5)] == [1, 2, 3, None]
    assert [find_seeds_for(dev, test, value, lower=True) for value in (8.0, 6.9)] == [1, None]


def test_two_seeds_say_nothing_and_three_no_error_of_all() -> None:
    assert best_of_seeds([1.0, 2.0], [1.0, 2.0]) == []
    assert [(best.seeds, best.error is None) for best in best_of_seeds([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])] == [
        (1, False),
        (3, True),
    ]


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="no ../shared/data/public_runs beside the checkout")
def test_fifty_public_seeds_of_simcse_on_bert_base() -> None:
    """The figures that an outside look computed: 75.1, 75.6, 75.8 and 76.0; the paper prints 76.25."""
    rows = list(csv.DictReader((PUBLIC / "bert-base-uncased.csv").open(encoding="utf8")))
    dev, test = ([float(row[name]) for row in rows] for name in ("best-stsb", "avg"))
    assert [best.expected for best in best_of_seeds(dev, test)] == pytest.approx([75.1, 75.6, 75.8, 76.0], abs=0.1)
    assert find_seeds_for(dev, test, 76.25) == 20


def test_W_by_hand() -> None:
    """Ranks 123, 123, 132: sums 3, 7, 8 around 6, so S = 14 of at most 9 * 2 = 18."""
    found = concordance(np.array([[1.0, 2, 3], [10, 20, 30], [5, 9, 7]]), np.random.default_rng(0))
    assert found is not None and (found.seeds, found.rows) == (3, 3)
    assert found.w == pytest.approx(14 / 18)


def test_W_is_friedmans_statistic_with_ties_too() -> None:
    rng = np.random.default_rng(0)
    for values in rng.integers(0, 4, (20, 4, 6)).astype(float):
        found = concordance(values, rng, draws=1)
        assert found is not None
        assert found.w * 4 * 5 == pytest.approx(scipy.stats.friedmanchisquare(*values.T).statistic)


def test_p_is_that_of_all_orders() -> None:
    """Two seeds, three rows: six orders of the second seed beside the first, all counted."""
    values = np.array([[1.0, 2, 3], [1.0, 3, 2]])
    found = concordance(values, np.random.default_rng(0), draws=20_000)
    orders = [concordance(np.array([[1.0, 2, 3], order]), np.random.default_rng(0), 1) for order in
              itertools.permutations([1.0, 2, 3])]  # fmt: skip
    assert found is not None and found.w == pytest.approx(0.75)
    expected = np.mean([one is not None and one.w >= found.w - 1e-9 for one in orders])
    assert found.p == pytest.approx(expected, abs=0.015)


def test_seeds_that_move_all_rows_alike_agree() -> None:
    rng = np.random.default_rng(0)
    values = np.arange(5.0) * 0.2 + rng.normal(0, 5, (3, 1))
    found = concordance(values, rng)
    assert found is not None and found.w == 1.0 and found.p < 0.001


def test_how_often_equal_rows_are_claimed_to_have_an_order() -> None:
    rng = np.random.default_rng(1)
    found = [concordance(values, rng, draws=200) for values in rng.normal(0, 1, (600, 3, 6))]
    assert 0.02 <= np.mean([one is not None and one.p <= 0.05 for one in found]) <= 0.07


def test_rows_that_move_together_make_p_too_small() -> None:
    """Each seed tilts its rows by a slope of its own: what docs/verdicts.md warns of, in its size."""
    rng = np.random.default_rng(2)
    tables = rng.normal(0, 1, (600, 3, 1)) * np.arange(6.0) + rng.normal(0, 0.1, (600, 3, 6))
    found = [concordance(values, rng, draws=200) for values in tables]
    assert 0.2 <= np.mean([one is not None and one.p <= 0.05 for one in found]) <= 0.35


def test_only_seeds_that_all_rows_have_are_asked() -> None:
    rows = [
        entry_of({0: 1.0, 1: 9.0, 2: 1.0}),
        entry_of({0: 2.0, 2: 2.0}),
        entry_of({}),
        entry_of({2: 3.0, 0: 3.0, 3: 0.0}),
    ]
    found = order_entries(rows, np.random.default_rng(0))
    assert found is not None and (found.w, found.seeds, found.rows) == (1.0, 2, 3)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{0: 1.0, 1: 2.0}, {0: 2.0, 1: 1.0}],
        [{0: 1.0}, {0: 2.0}, {0: 3.0}],
        [{0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}],
        [{0: 1.0, 1: 2.0}, {1: 1.0, 2: 2.0}, {2: 1.0, 0: 2.0}],
    ],
    ids=["no rows", "two rows", "one seed", "equal rows", "no common seed"],
)
def test_too_little_to_say(rows: list[dict[int, float]]) -> None:
    assert order_entries([entry_of(row) for row in rows], np.random.default_rng(0)) is None


def test_rho_by_hand_and_from_tables_that_have_it() -> None:
    """Two rows 1 3 and 2 6 over two seeds: mean squares 9 between and 1 within, (9 - 1) / (9 + 1)."""
    assert correlate_seeds(np.array([[1.0, 2], [3, 6]])) == pytest.approx(0.8)
    assert correlate_seeds(np.array([[1.0, 2, 3], [1, 2, 3]])) == 0.0
    rng = np.random.default_rng(0)
    values = np.sqrt(0.7) * rng.normal(size=(4000, 1)) + np.sqrt(0.3) * rng.normal(size=(4000, 6))
    assert correlate_seeds(values + np.arange(6)) == pytest.approx(0.7, abs=0.02)


def test_rivals_by_hand() -> None:
    """Two others at 2.5% each: t(2) = 4.303. Of one run each at deviation 1 half is 6.085; a cell of 4 runs has 4.811,
    and one whose own deviation is 3 has 13.607."""
    assert find_rivals([[70.0], [64.0], [63.9]], 0, Spread(1.0, 2)) == [1]
    assert find_rivals([[70.0], [65.2, 65.2, 65.2, 65.2], [65.1] * 4], 0, Spread(1.0, 2)) == [1]
    assert find_rivals([[56.5], [70.0], [53.0, 56.0, 59.0, 58.0]], 1, Spread(1.0, 2)) == []
    assert find_rivals([[70.0], [60.0], [56.5, 62.5]], 0, Spread(1.0, 2)) == [2], "its own deviation is 4.243"
    assert find_rivals([[70.0], [71.0], [72.0]], 0, Spread(1.0, 2)) == [2, 1], "a search's pick need not be the highest"
    assert find_rivals([[70.0]], 0, Spread(1.0, 2)) == []


@pytest.mark.parametrize("noise", [1.0, 3.0], ids=["equal deviations", "the best cell is three times as noisy"])
@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
def test_the_best_cell_is_the_pick_or_one_of_its_rivals(seeds: int, noise: float) -> None:
    """600 sweeps of 12 cells whose true scores deviate by 0.3, runs by 0.84; single runs with the deviation of 16
    others."""
    generator, cells, held = np.random.default_rng(seeds), 12, 0
    for _ in range(600):
        truth = 70 + 0.3 * generator.normal(size=cells)
        best = int(truth.argmax())
        deviations = np.full(cells, 0.84)
        deviations[best] *= noise if seeds > 2 else 1.0
        scores = truth[:, None] + deviations[:, None] * generator.normal(size=(cells, seeds))
        spread = pool_cells(scores.tolist()) or Spread(float(0.84 * generator.normal(size=16).std(ddof=1)), 15)
        picked = int(scores.mean(axis=1).argmax())
        held += best in (picked, *find_rivals(scores.tolist(), picked, spread))
    assert held / 600 >= 0.95
