"""Signal to noise of a table."""

from pathlib import Path

import numpy as np
import pytest
import scipy

from benchmarks.scales.__main__ import markdown, read, told
from benchmarks.scales.seconds import stored

BUNDLE = Path(__file__).resolve().parents[3] / "docs" / "results" / "bundles" / "E7.jsonl.gz"


def test_two_rows_by_hand() -> None:
    """Means 2 and 5, residuals of 0.5 with one degree of freedom: F = 2 * 4.5 / 1, so that 4 parts are rows' own."""
    one = told("T", np.array([[1.0, 3], [5, 5]]), 0, "e", 64, 2.0)
    assert (one.lowest, one.highest, one.residual_sd) == (2, 5, 1)
    assert one.ratio == pytest.approx(4) and one.row_sd == pytest.approx(2) and one.worth == pytest.approx(2)
    assert one.decided == 0 and one.interval[0] == 0 < one.ratio < one.interval[1]


def test_variances_that_were_drawn() -> None:
    generator = np.random.default_rng(0)
    scores = (
        generator.normal(size=(400, 1)) * 3 + generator.normal(size=(1, 300)) * 5 + generator.normal(size=(400, 300))
    )
    one = told("T", scores, 0, "e", 64, 1.0)
    assert one.row_sd == pytest.approx(3, rel=0.1) and one.residual_sd == pytest.approx(1, rel=0.01)


def test_the_interval_holds_the_truth() -> None:
    generator = np.random.default_rng(1)
    draws = [generator.normal(size=(8, 1)) + generator.normal(size=(8, 3)) for _ in range(2000)]
    held = [low <= 1 <= high for low, high in (told("T", one, 0, "e", 64, 1.0).interval for one in draws)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)


def test_f_is_that_of_scipy() -> None:
    """Without an effect of seeds the one-way F has the same rows' mean square."""
    scores = np.random.default_rng(2).normal(size=(6, 5))
    scores -= scores.mean(axis=0) - scores.mean()
    one = told("T", scores + np.arange(6)[:, None], 0, "e", 64, 1.0)
    f = scipy.stats.f_oneway(*(scores + np.arange(6)[:, None])).statistic * (5 * 4) / (6 * 4)
    assert one.ratio == pytest.approx((f - 1) / 5)


def test_a_bundle_of_the_repository() -> None:
    (one,) = read([BUNDLE], {"E7 wiki-l4-h128 25600": 100.0})
    assert one.seconds == 100
    assert (one.table, one.scale, one.rows, one.seeds) == ("E7", ("wiki-l4-h128", 25_600), 8, 3)
    assert "| wiki-l4-h128 | 25,600 | E7 | 8 x 3 | 60.4 to 62.2 |" in markdown([one])


def test_the_published_page_is_that_of_the_bundles() -> None:
    """Also of bundles that hold other tables, and tables of which a part was run."""
    results = BUNDLE.parent.parent
    measured = read(sorted(BUNDLE.parent.glob("*.jsonl.gz")), stored(results))
    assert markdown(measured) == (results / "scales.md").read_text(encoding="utf8")
