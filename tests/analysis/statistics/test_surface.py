"""The expected score of a search's cells: an oracle by numpy, what neighbours say of a lucky run, and broken runs."""

import numpy as np
import pytest

from analysis.statistics import surface
from analysis.statistics.surface import clip_broken, coordinates, lower_bounds

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
