"""What runs can find: the smallest gain by hand and against a simulation by scipy, and the deviation of a ledger."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from analysis.answers.power import SeedSpread, find_spread, what_runs_find
from analysis.ledger import Ledger
from analysis.statistics.needed import smallest_gain
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import Cell, resolve
from tests.commands import printed, refused
from tests.documents import validated
from tests.run_values import book_run

Capture = pytest.CaptureFixture[str]


def cell(rate: float) -> Cell:
    return next(cell for cell in resolve(load_space("E7")).cells() if cell.key == {"method.dup_rate": rate})


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    return Ledger.open(tmp_path / "results" / "ledger.db")


def book(ledger: Ledger, rate: float, values: Sequence[float], **changed: str) -> None:
    """Finished runs of a cell of E7 with these scores, one for each seed."""
    for seed, value in enumerate(values):
        config = {**cell(rate).run(seed).flat(), **{f"train.{name}": text for name, text in changed.items()}}
        book_run(ledger, f"{rate}{seed}".ljust(24, "0"), config, seed=seed, best=value)


def test_twenty_runs_by_hand() -> None:
    """Ten seeds each: (t(9, 97.5%) + t(9, 80%)) * 0.8 * sqrt(2 / 10) is 1.125; one seed gives no word."""
    one, three, ten = what_runs_find(20, SeedSpread(0.8, "given")).rows
    assert (one.seeds, one.level, one.smallest_gain) == (10, 0.05, pytest.approx(1.125, abs=0.005))
    assert (three.seeds, three.level) == (5, pytest.approx(0.05 / 3))
    assert three.smallest_gain == pytest.approx(2.59, abs=0.01)
    assert (ten.seeds, ten.level, ten.smallest_gain) == (1, pytest.approx(0.005), None)


def is_better(values_PS2: np.ndarray, level: float, margin: float) -> np.ndarray:
    """Pairs of rows of which scipy's paired interval says better, and that of a tie does not say tie."""
    gains_PS = values_PS2[:, :, 0] - values_PS2[:, :, 1]
    test = scipy.stats.ttest_1samp(gains_PS, 0.0, axis=1)
    of_tie = test.confidence_interval(1 - 2 * level)
    better: np.ndarray = (test.confidence_interval(1 - level).low > 0) & ~(
        (of_tie.low > -margin) & (of_tie.high < margin)
    )
    return better


SETTINGS = (
    (0.8, 10, 0.05),
    (0.8, 5, 0.05 / 3),
    (0.84, 8, 0.05),
    (0.84, 8, 0.005),
    (0.8, 2, 0.05),
    (0.1, 10, 0.05),
    (0.21, 5, 0.05),
)
"""Deviation, seeds and level; with the small deviations a gain may also be called a tie."""


@pytest.mark.parametrize("cases", [pytest.param(200, id="fast"), pytest.param(4000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("deviation", "seeds", "level"), SETTINGS)
def test_the_smallest_gain_is_called_better_in_four_of_five(
    deviation: float, seeds: int, level: float, cases: int
) -> None:
    gain = smallest_gain(deviation, seeds, level, 0.5)
    assert gain is not None
    values = np.random.default_rng(seeds).normal(scale=deviation, size=(cases, seeds, 2))
    values[:, :, 0] += gain
    assert is_better(values, level, 0.5).mean() == pytest.approx(0.8, abs=3 * (0.8 * 0.2 / cases) ** 0.5)


def test_the_deviation_is_pooled_over_the_settings_of_the_same_method_and_encoder(ledger: Ledger) -> None:
    book(ledger, 0.24, [60.0, 61.0, 62.0])  # variance 1, 2 degrees of freedom
    book(ledger, 0.08, [60.0, 64.0])  # variance 8, 1 degree of freedom
    book(ledger, 0.32, [50.0])
    book(ledger, 0.2, [10.0, 90.0], encoder="words-l1-h64")
    spread = find_spread([cell(0.16).flat], ledger.runs())
    assert spread is not None and spread.source == "5 runs of 2 settings in the ledger"
    assert spread.deviation == pytest.approx((10 / 3) ** 0.5)
    assert find_spread([{**cell(0.16).flat, "train.dev": "mine"}], ledger.runs()) is None


def test_a_plan_says_what_its_runs_can_find(capsys: Capture, ledger: Ledger) -> None:
    book(ledger, 0.24, [60.0, 61.0, 62.0])
    said = validated("plan", printed(capsys, "plan", "E7", "--decide", "--format", "json"))
    decide = said["decide"]
    assert (decide["runs"], decide["deviation"], decide["power"]) == (said["unique"], 1.0, 0.8)
    assert [row["candidates"] for row in decide["rows"]] == [1, 3, 10]
    text = printed(capsys, "plan", "E7", "--decide", "--runs", "20", "--deviation", "0.8")
    assert "what 20 runs can find in 80%, at a deviation over seeds of 0.80 (--deviation):" in text
    assert "1 candidate: 10 seeds each, level 0.05: finds a true gain of 1.13" in text
    assert "10 candidates: 1 seed each, level 0.005: finds nothing, as a word needs 2 seeds: 22 runs" in text


def test_the_margin_is_half_a_point_of_the_metrics_own_range(capsys: Capture, ledger: Ledger, tmp_path: Path) -> None:
    """MRR from 0 to 1: a hundredth of everything that percent have; a loss has no range, and so no tie."""
    (tmp_path / "train.py").write_text("")
    space = "version: 1\nid: T\ntrainer: {script: train.py, score: {name: NAME}}\nspace: {rate: {grid: [1.0, 2.0]}}\n"
    gains = {}
    for metric, seeds in (("mrr", [0.60, 0.61, 0.62]), ("loss", [1.60, 1.61, 1.62])):
        (tmp_path / "t.yaml").write_text(space.replace("NAME", f"{metric}, direction: max"))
        for seed, value in enumerate(seeds):
            name = f"{metric}{seed}"
            book_run(ledger, name, {"train.dev": metric, "rate": 1.0, "method": "trainer"}, seed=seed, best=value)
        found = validated("plan", printed(
            capsys, "plan", str(tmp_path / "t.yaml"), "--decide", "--runs", "20", "--deviation", "0.008",
            "--format", "json",
        ))["decide"]  # fmt: skip
        gains[metric] = found["margin"], found["rows"][0]["smallest_gain"]
    assert gains["mrr"] == (pytest.approx(0.005), pytest.approx(0.0113, abs=1e-4))
    assert gains["loss"][0] == 0.0
    line = refused(capsys, "plan", "E7", str(tmp_path / "t.yaml"), "--decide", "--deviation", "0.008")
    assert line == "cse: unlike ranges: dev=loss, sts_dev; plan their spaces one by one"


def test_what_cannot_be_decided_is_one_line(capsys: Capture, ledger: Ledger) -> None:
    line = refused(capsys, "plan", "E7", "--decide")
    assert line.startswith("cse: no deviation: the ledger has no two seeds of this method, encoder and dev set")
    line = refused(capsys, "plan", "E7", "--runs", "20")
    assert line == "cse: nothing to decide: --runs=20; give --decide with it"
    line = refused(capsys, "plan", "E7", "--decide", "--deviation", "0")
    assert line == "cse: wrong deviation: deviation=0; give points above 0, such as 0.8"
    with pytest.raises(ConfigError, match="wrong deviation: deviation=nan"):
        what_runs_find(20, SeedSpread(float("nan"), "given"))
