"""The simulation of verdicts."""

import numpy as np
import pytest

from analysis.statistics.looks import LOOKS
from benchmarks.verdicts.__main__ import TIE_MARGIN, errors, markdown, measured
from benchmarks.verdicts.simulate import TOLD_AT, Setting, Words, ours, simulated


def test_what_is_wrong() -> None:
    words = Words(np.array([[1.0, 0], [-1, 0], [0, 0], [0, 0]]), np.array([[False, False]] * 2 + [[False, True]] * 2))
    assert words.wrong([1.0, 0.5], 0.5) == 0.75, "a direction that is not the truth's, a tie at the margin, twice"
    assert words.wrong([1.0, 0.2], 0.5) == 0.25


def test_rows_correlate_as_asked() -> None:
    drawn = Setting([1.0, 3.0], 0.9, [0.0, 5.0]).draw(np.random.default_rng(0), 20_000, 1)[:, :, 0]
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(0.9, abs=0.01)
    assert drawn.mean(axis=0) == pytest.approx([0, 5], abs=0.1) and drawn.std(axis=0) == pytest.approx([1, 3], abs=0.05)


def test_the_first_word_stays() -> None:
    values = np.random.default_rng(1).normal(size=(300, 4, 12)) + np.array([0, 0, 1.5, 3])[:, None]
    early, late = ours(values, LOOKS[:2], TIE_MARGIN), ours(values, LOOKS, TIE_MARGIN)
    told = early.direction != 0
    assert told.any() and (np.abs(late.direction) >= np.abs(early.direction)).mean() > 0.95


def test_a_row_that_has_its_word_gets_no_more_seeds() -> None:
    """The first row falls by 50 after it is told; with its later seeds it would stand on the other side."""
    values = np.random.default_rng(1).normal(size=(50, 3, 12)) + np.array([0, 30, 0])[:, None]
    values[:, 1, 3:] -= 100
    words = ours(values, LOOKS, TIE_MARGIN)
    assert (words.direction[:, 0] == 1).all()


def test_a_small_table_of_errors_is_written() -> None:
    result = measured(4, 40)
    assert len(result["family error"]) == len(list(errors(4))) == 30
    text = markdown([result])
    assert "| equal spreads, rho 0.9 | ours |" in text and text.count("a difference of 2 sd | Welch |") == 3


@pytest.mark.slow
@pytest.mark.parametrize("rows", [4, 8, 16])
def test_no_setting_is_wrong_in_more_than_a_twentieth(rows: int) -> None:
    """10,000 tables a setting: at most 5% and three standard errors, 5.7%, at every look and over all looks."""
    for number, (name, setting) in enumerate(errors(rows)):
        told = simulated(setting, 10_000, np.random.default_rng([rows, number, 1]), TIE_MARGIN)
        truth = np.broadcast_to(setting.means, rows)[1:] - setting.means[0]
        wrong = {when: told["ours", when].wrong(truth, TIE_MARGIN) for when in TOLD_AT}
        assert max(wrong.values()) <= 0.057, (name, wrong)
