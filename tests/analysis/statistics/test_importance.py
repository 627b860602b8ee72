"""Shares of axes beside what seeds alone show: by hand, against scipy, and by simulation."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.importance import importance


def grid(*sizes: int, seeds: int) -> list[dict[str, Any]]:
    return [
        dict(zip("ab", place, strict=False)) for place in itertools.product(*map(range, sizes)) for _ in range(seeds)
    ]


def test_a_two_by_two_grid_by_hand() -> None:
    # Cell means 1, 3, 5, 7; two seeds each at +-0.5. Grand mean 4, total 8 * 5 + 8 * 0.25 = 42.
    # Main effect of a: 8 * 2**2 = 32; of b: 8 * 1**2 = 8; within cells: 8 * 0.25 = 2; no interaction.
    scores = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]
    found = importance(grid(2, 2, seeds=2), scores, ["a", "b"])
    assert found is not None and found.balanced and found.runs == 8
    assert [one.share for one in found.axes] == pytest.approx([32 / 42, 8 / 42])
    assert found.seeds == pytest.approx(2 / 42) and found.rest == pytest.approx(0, abs=1e-12)
    noise, upper = 2 / 4, scipy.stats.f.ppf(0.95, 1, 4)
    assert [one.floor for one in found.axes] == pytest.approx([noise * upper / 42] * 2)
    assert found.axes[1].p == pytest.approx(scipy.stats.f.sf(8 / noise, 1, 4))


def test_interactions_are_nobody_s() -> None:
    found = importance(grid(2, 2, seeds=2), [1.0, 1.1, -1.0, -1.1, -1.0, -1.1, 1.0, 1.1], ["a", "b"])
    assert found is not None and found.rest is not None
    assert [one.share for one in found.axes] == pytest.approx([0, 0], abs=1e-12) and found.rest > 0.99


def test_one_axis_gives_scipy_s_analysis_of_variance() -> None:
    generator = np.random.default_rng(3)
    groups = [generator.normal(mean, 1.0, size) for mean, size in ((0.0, 4), (0.5, 7), (1.0, 3))]
    keys = [{"a": number} for number, group in enumerate(groups) for _ in group]
    found = importance(keys, np.concatenate(groups).tolist(), ["a"])
    assert found is not None
    assert found.axes[0].p == pytest.approx(scipy.stats.f_oneway(*groups).pvalue)


def test_seeds_alone_pass_the_floor_once_in_twenty_times() -> None:
    generator, keys = np.random.default_rng(0), grid(4, 3, seeds=3)
    passed = 0
    for _ in range(400):
        found = importance(keys, generator.normal(size=len(keys)).tolist(), ["a", "b"])
        assert found is not None
        passed += sum(one.share > (one.floor or 0) for one in found.axes)
    assert 0.03 < passed / 800 < 0.075  # 0.05 +- 3 standard errors of 800 draws


def test_an_axis_that_another_determines_has_no_share_of_its_own() -> None:
    keys = [{"a": value, "b": value * 10} for value in (0, 0, 1, 1)]
    found = importance(keys, [1.0, 2.0, 5.0, 6.0], ["a", "b"])
    assert found is not None and not found.balanced
    assert [(one.share, one.floor) for one in found.axes] == [(pytest.approx(0, abs=1e-9), None)] * 2


def test_without_repeated_cells_there_is_no_floor() -> None:
    found = importance(grid(3, seeds=1), [1.0, 2.0, 3.0], ["a"])
    assert found is not None and found.seeds is None and found.axes[0].floor is None


def test_many_numbers_are_cut_into_quarters_and_words_are_not() -> None:
    generator = np.random.default_rng(1)
    rates = generator.uniform(size=40)
    keys = [{"a": float(rate), "b": "xy"[i % 2]} for i, rate in enumerate(rates)]
    found = importance(keys, rates.tolist(), ["a", "b"])
    assert found is not None and [one.levels for one in found.axes] == [4, 2]
    assert found.axes[0].share > 0.8


def test_what_does_not_vary_has_no_importance() -> None:
    assert importance([], [], ["a"]) is None
    assert importance(grid(2, seeds=2), [1.0] * 4, ["a"]) is None
    assert importance([{"a": 1}] * 3, [1.0, 2.0, 3.0], ["a"]) is None
