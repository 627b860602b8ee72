"""Verdicts by hand, and how often they are wrong where the truth is known."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from analysis.statistics.basics import mean_and_sd
from analysis.tables.aggregate import Entry, Row, Table
from analysis.tables.spec import TableSpec
from analysis.tables.verdict import Verdict, judge, reference_row

T2 = 4.302653
"""Student's t(0.975) at 2 degrees of freedom."""


def table_of(*rows: tuple[Sequence[float], float | None], default: dict[str, Any] | None = None) -> Table:
    """A table of one column `dev` and one axis `x` from (values per seed, published value)."""
    made = []
    for index, (values, published) in enumerate(rows):
        mean, sd = mean_and_sd(list(values))
        cell = Entry(len(values), mean, sd, published, tuple(values), tuple(range(len(values))))
        made.append(Row({"x": index}, {"dev": cell}))
    spec = TableSpec(id="T", axes=["x"], columns=["dev"], default=default)
    return Table(spec, made, [], {}, [])


def verdicts(*rows: tuple[Sequence[float], float | None], same_scale: bool = True) -> list[Verdict]:
    found = judge(table_of(*rows), same_scale=same_scale)
    return [found[index, "dev"] for index in range(len(rows))]


def test_reproduced_by_hand() -> None:
    """Mean 82, sd 0.2, half interval 4.302653 x 0.2 / sqrt(3) = 0.4968."""
    (verdict,) = verdicts(([81.8, 82.0, 82.2], 82.4))
    assert verdict.word == "reproduced"
    assert verdict.interval == pytest.approx((82 - 0.496827, 82 + 0.496827), abs=1e-5)
    assert verdict.reason == "82.4 lies in the interval of our mean, 82.00 ± 0.50 (3 seeds)"


def test_rounding_of_the_published_value_counts() -> None:
    """82.5 stands for 82.45 to 82.55 and 82.50 begins inside: the interval ends at 82.4968."""
    assert verdicts(([81.8, 82.0, 82.2], 82.5))[0].word == "reproduced"
    assert verdicts(([81.8, 82.0, 82.2], 82.51))[0].word == "within seed noise"


def test_a_blunt_interval_is_never_reproduced() -> None:
    """sd 1: half interval 2.48 points; one further seed 4.302653 x sqrt(4/3) = 4.968."""
    (verdict,) = verdicts(([81.0, 82.0, 83.0], 82.0))
    assert verdict.word == "within seed noise"
    assert verdict.interval == pytest.approx((82 - T2 * math.sqrt(4 / 3), 82 + T2 * math.sqrt(4 / 3)), abs=1e-5)
    assert verdicts(([81.0, 82.0, 83.0], 87.1))[0].word == "different"


def test_one_seed_takes_the_columns_spread() -> None:
    """Pooled sd 0.2 at 2 degrees: one further seed of n = 1 reaches 4.302653 x 0.2 x sqrt(2) = 1.217."""
    one, _ = verdicts(([70.0], 71.2), ([81.8, 82.0, 82.2], 82.0))
    assert one.word == "within seed noise" and one.reason.endswith("(1 seed; sd pooled over the column)")
    assert one.interval == pytest.approx((70 - 1.216974, 70 + 1.216974), abs=1e-5)
    same, _ = verdicts(([70.0, 70.0], 73.0), ([81.8, 82.0, 82.2], 82.0))
    assert same.word == "different" and "pooled" in same.reason


def test_without_any_spread_nothing_is_decided() -> None:
    (verdict,) = verdicts(([70.0], 70.0))
    assert (verdict.word, verdict.interval) == ("undecided", None)
    assert verdicts(([70.0], 70.0), ([71.0], 72.0), same_scale=False)[1].word == "undecided"


def test_not_run_and_not_published() -> None:
    found = judge(table_of(([], 70.0), ([1.0, 2.0], None)), same_scale=True)
    assert {key: verdict.word for key, verdict in found.items()} == {(0, "dev"): "not run"}
    assert verdicts(([], 70.0), ([1.0, 2.0], 71.0), same_scale=False)[0].word == "not run"


def test_small_units_have_smaller_points() -> None:
    """Alignment 0.0838: a half interval of 0.025 is blunt there, though far below 1."""
    blunt, sharp = verdicts(([0.07, 0.08, 0.09], 0.0838), ([0.083, 0.084, 0.085], 0.084))
    assert (blunt.word, sharp.word) == ("within seed noise", "reproduced")


def test_directions_by_hand() -> None:
    """Welch of two sd 0.2, n = 3: error 0.2 x sqrt(2/3) = 0.1633 at 4 degrees, t 2.776445, half 0.4534."""
    rows = (
        ([60.0, 60.2, 59.8], 84.0),
        ([61.0, 61.2, 60.8], 84.5),
        ([61.0, 61.2, 60.8], 81.0),
        ([60.3, 60.5, 60.1], 90),
    )
    first, up, against, faint = verdicts(*rows, same_scale=False)
    assert (first.word, up.word, against.word, faint.word) == (
        "reference", "same direction", "opposite direction", "undecided",
    )  # fmt: skip
    assert up.interval == pytest.approx((1 - 0.453392, 1 + 0.453392), abs=1e-5) and up.published == 0.5
    assert up.reason == ("paper +0.5 (less than the 2 between seeds); ours +1.00, interval +0.55 to +1.45 (3 seeds)")
    assert "less than" not in against.reason


def test_a_direction_never_says_reproduced() -> None:
    rng = np.random.default_rng(0)
    rows = [(rng.normal(80, 0.1, 3), 80.0 + i / 10) for i in range(30)]
    assert "reproduced" not in {v.word for v in verdicts(*rows, same_scale=False)}


def test_equal_published_values_have_no_direction() -> None:
    second = verdicts(([60.0, 60.1], 84.48), ([70.0, 70.1], 84.48), same_scale=False)[1]
    assert second.word == "undecided" and "equal in the paper" in second.reason


def test_the_reference_row() -> None:
    rows = (([], 84.0), ([1.0], None), ([2.0, 2.1], 84.0), ([3.0, 3.1], 85.0))
    assert reference_row(table_of(*rows), "dev") == 2
    assert reference_row(table_of(*rows, default={"x": 3}), "dev") == 3
    assert reference_row(table_of(*rows, default={"x": 0}), "dev") is None
    found = judge(table_of(*rows, default={"x": 0}), same_scale=False)
    assert found[3, "dev"].word == "undecided" and "default row" in found[3, "dev"].reason


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_how_often_directions_are_called(shift: float) -> None:
    """2,000 tables of two rows, 3 seeds of sd 1: without a difference at most 6% are called, with one of 1.5 sd the
    wrong way at most 0.5%."""
    rng = np.random.default_rng(7)
    words = []
    for _ in range(2000):
        rows = (rng.normal(0, 1, 3), 10.0), (rng.normal(shift, 1, 3), 13.0)
        words.append(verdicts(*rows, same_scale=False)[1].word)
    wrong = words.count("opposite direction") / 2000
    called = wrong + words.count("same direction") / 2000
    assert (called <= 0.06) if shift == 0 else (wrong <= 0.005 and called >= 0.15)


def test_a_value_of_one_more_seed_is_mostly_within_seed_noise() -> None:
    """The published value drawn as one more seed of the same cell: 95% of 4,000, within 1.2 points of a hundred."""
    rng = np.random.default_rng(8)
    words = [verdicts((seeds[:3], round(seeds[3], 6)))[0].word for seeds in rng.normal(80, 1, (4000, 4))]
    assert words.count("different") / 4000 == pytest.approx(0.05, abs=0.012)
