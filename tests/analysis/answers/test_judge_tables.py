"""Verdicts by hand, and how often they are wrong where the truth is known."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analysis.answers.judge import Judgement, Sides, Terms, judge, judge_models, reference_row
from analysis.tables.aggregate import NO_SIGNAL_TEXT, Row, Table
from analysis.tables.columns import entry_of
from analysis.tables.spec import TableError, TableSpec

T2 = 4.302653
"""Student's t(0.975) at 2 degrees of freedom."""


def table_of(*rows: tuple[Sequence[float], float | None], default: dict[str, Any] | None = None) -> Table:
    """A table of one column `dev` and one axis `x` from (values per seed, published value)."""
    made = []
    for index, (values, published) in enumerate(rows):
        made.append(Row({"x": index}, {"dev": entry_of(dict(enumerate(values)), published)}))
    spec = TableSpec(id="T", axes=["x"], columns=["dev"], default=default)
    return Table(spec, made, [], {}, [])


def verdicts(*rows: tuple[Sequence[float], float | None], same_scale: bool = True) -> list[Judgement]:
    found = judge(table_of(*rows), same_scale=same_scale)
    return [found[index, "dev"] for index in range(len(rows))]


def test_a_value_by_hand() -> None:
    """Mean 82, sd 0.2: one further seed reaches 4.302653 x 0.2 x sqrt(4/3) = 0.99366."""
    (verdict,) = verdicts(([81.8, 82.0, 82.2], 82.4))
    assert (verdict.word, verdict.level, verdict.percentile) == ("one seed could give it", 0.05, 100)
    assert verdict.interval == pytest.approx((82 - 0.993655, 82 + 0.993655), abs=1e-5)
    assert verdict.reason == "82.4 lies in the 95% interval of one further seed, 82.00 ± 0.99 (3 seeds)"
    (other,) = verdicts(([81.8, 82.0, 82.2], 84.0))
    assert other.word == "different"
    assert other.reason == "84 lies above the 95% interval of one further seed, 82.00 ± 0.99 (3 seeds)"


def test_rounding_of_the_published_value_counts() -> None:
    """83.0 stands for 82.95 to 83.05 and begins inside: the interval ends at 82.99366."""
    assert verdicts(([81.8, 82.0, 82.2], 83.0))[0].word == "one seed could give it"
    assert verdicts(([81.8, 82.0, 82.2], 83.01))[0].word == "different"


def test_one_seed_takes_the_columns_spread() -> None:
    """Pooled sd 0.2 at 2 degrees, two values at 2.5% each: 6.205347 x 0.2 x sqrt(2) = 1.755."""
    one, _ = verdicts(([70.0], 71.7), ([81.8, 82.0, 82.2], 82.0))
    assert one.word == "one seed could give it" and one.reason.endswith("(1 seed; sd pooled over the column)")
    assert one.interval == pytest.approx((70 - 1.755137, 70 + 1.755137), abs=1e-5)
    same, _ = verdicts(([70.0, 70.0], 73.0), ([81.8, 82.0, 82.2], 82.0))
    assert same.word == "different" and "pooled" in same.reason


def test_the_values_of_a_table_share_its_error() -> None:
    """Published values of all columns share the level; a value that is not printed, or not run, has no share."""
    table = table_of(([81.8, 82.0, 82.2], 82.0), ([60.0, 60.1, 60.3], 60.0), ([1.0, 2.0, 3.0], None), ([], 60.0))
    assert judge(table, same_scale=True)[0, "dev"].level == 0.025
    for row in table.rows:
        row.entries["test"] = row.entries["dev"]
    table.spec.columns.append("test")
    assert judge(table, same_scale=True)[0, "dev"].level == 0.0125


def test_ranks_decide_where_they_reach_the_level() -> None:
    """One further seed is above or below all of 39 others in 2 of 40 cases; a wild one among them moves no rank."""
    seeds = [*(70 + place / 10 for place in range(38)), 500.0]
    (inside,) = verdicts((seeds, 400.0))
    assert (inside.word, inside.interval, inside.level) == ("one seed could give it", (70.0, 500.0), 0.05)
    assert inside.reason == (
        "400 lies in the 95% interval of one further seed, 70.00 to 500.00 (39 seeds, by ranks), "
        "at the 97th percentile of them"
    )
    (below,) = verdicts((seeds, 69.0))
    assert below.word == "different" and below.reason.endswith(", below all of them, as 1 further seed in 40 is")
    (by_t,) = verdicts((seeds[1:], 69.0))
    assert by_t.word == "one seed could give it" and "±" in by_t.reason, "38 seeds have no interval by ranks"
    (two,) = verdicts((seeds * 2 + [80.0], 400.0))
    assert two.interval == (70.0, 500.0) and two.level == 0.05, "the second lowest and highest of 79"


@pytest.mark.parametrize(("place", "ordinal"), [(1, "1st"), (2, "2nd"), (11, "11th"), (63, "63rd"), (90, "90th")])
def test_a_percentile_is_said_of_ten_seeds_or_more(place: int, ordinal: str) -> None:
    (verdict,) = verdicts(([float(seed) for seed in range(1, 101)], place + 0.5))
    assert verdict.percentile == place and verdict.reason.endswith(f", at the {ordinal} percentile of them")
    (few,) = verdicts(([float(seed) for seed in range(9)], 4.5))
    assert few.percentile == pytest.approx(500 / 9) and "percentile" not in few.reason


def test_without_any_spread_nothing_is_decided() -> None:
    (verdict,) = verdicts(([70.0], 70.0))
    assert (verdict.word, verdict.interval) == ("undecided", None)
    for seeds in ([70.0], [70.0, 70.0]):
        (_, open_) = verdicts((seeds, 70.0), ([x + 1 for x in seeds], 72.0), same_scale=False)
        assert open_.word == "undecided" and open_.reason.endswith("no setting has two seeds that differ")
    assert verdicts(([70.01, 72.04], 70.0), ([71.01, 73.04], 72.0), same_scale=False)[1].word == "same direction"


def test_not_run_and_not_published() -> None:
    found = judge(table_of(([], 70.0), ([1.0, 2.0], None)), same_scale=True)
    assert {key: verdict.word for key, verdict in found.items()} == {(0, "dev"): "not run"}
    assert verdicts(([], 70.0), ([1.0, 2.0], 71.0), same_scale=False)[0].word == "not run"


def test_directions_by_hand() -> None:
    """Two rows: differences 1.0, 0.9, 1.1 have sd 0.1, half the interval is 4.302653 x 0.1 / sqrt(3) = 0.2484."""
    _, up = verdicts(([60.0, 60.2, 59.8], 84.0), ([61.0, 61.1, 60.9], 84.5), same_scale=False)
    assert up.word == "same direction" and up.published == 0.5
    assert up.interval == pytest.approx((1 - 0.248414, 1 + 0.248414), abs=1e-5)
    notes = "(less than the 2 between seeds, needs 3 seeds)"
    assert up.reason == f"paper +0.5 {notes}; ours +1.00, 95% interval +0.75 to +1.25 (3 seeds)"
    _, against = verdicts(([60.0, 60.2, 59.8], 84.0), ([61.0, 61.1, 60.9], 81.0), same_scale=False)
    assert against.word == "opposite direction" and "less than" not in against.reason


def test_a_sure_but_small_difference_is_a_tie_in_tables_as_between_models() -> None:
    """Differences 0.10, 0.12, 0.08: 0.10 ± 0.05 excludes 0, and ± 0.03 (90%) is within 0.5."""
    ours = ([60.0, 60.2, 59.8], 84.0), ([60.10, 60.32, 59.88], 84.3)
    _, tie = verdicts(*ours, same_scale=False)
    assert tie.word == "tie" and tie.interval is not None and 0 < tie.interval[0] < tie.interval[1] < 0.5
    (models,) = judge_models({"dev": Sides(*(entry_of(dict(enumerate(v))) for v, _ in ours[::-1]))}, Terms()).values()
    assert models.word == "tie"
    assert judge(table_of(*ours), same_scale=False, terms=Terms(margin=0.05))[1, "dev"].word == "same direction"


def test_a_tie_says_whether_the_paper_has_one() -> None:
    """Differences 0.1, 0, -0.1: at 90% half the interval is 2.919986 x 0.1 / sqrt(3) = 0.1686."""
    rows = ([60.0, 60.2, 59.8], 84.0), ([60.1, 60.2, 59.7], 84.3)
    _, tie = verdicts(*rows, same_scale=False)
    assert tie.word == "tie" and tie.reason.endswith("; within ±0.5, as the paper's gap is")
    _, wider = verdicts(rows[0], (rows[1][0], 90.0), same_scale=False)
    assert wider.word == "tie" and wider.reason.endswith("; within ±0.5, where the paper's gap is wider")
    narrow = [judge(table_of(*rows), same_scale=False, terms=Terms(margin=margin)) for margin in (0.168, 0.169)]
    assert [verdict[1, "dev"].word for verdict in narrow] == ["undecided", "tie"]


def test_a_margin_of_nothing_and_too_many_looks_are_refused() -> None:
    for margin in (0.0, -1.0, math.nan):
        with pytest.raises(TableError, match=r"^a tie needs a width: margin=[^\n]*; give points above 0, such as 0.5$"):
            Terms(margin=margin)
    with pytest.raises(TableError, match=r"^at most 4 looks: looks=\[3, 4, 5, 6, 7\]; leave some out$"):
        Terms(looks=[3, 4, 5, 6, 7])


def test_undecided_says_why_and_what_would_decide_it() -> None:
    """Differences 1, 0, 2 have sd 1."""
    rows = ([60.0, 61.0, 59.0], 84.0), ([61.0, 61.0, 61.0], 90.0)
    found = judge(table_of(*rows), same_scale=False, terms=Terms(seconds=90.0))[1, "dev"]
    assert (found.word, found.seeds_for_effect, found.more_seeds) == ("undecided", 3, 3)
    forecast = "3 more seeds would decide it, half of the time between 2 and 23"
    assert found.reason.endswith(f"; ours is too wide; {forecast} (6 runs, 9 min)")
    faint = judge(table_of(rows[0], (rows[1][0], 84.1)), same_scale=False)[1, "dev"]
    assert faint.seeds_for_effect is None and "needs over 200 seeds" in faint.reason
    assert "; the paper's own gap is below what seeds do; 3 more" in faint.reason


def test_contrasts_and_columns_share_the_error() -> None:
    """An interval is wider where two rows share 5% than where each has 5%, and wider still with a second column."""
    rows = ([60.0, 60.0, 60.0], 84.0), ([61.0, 61.1, 60.9], 84.5), ([62.0, 61.9, 62.1], 84.5)
    table = table_of(*rows)
    shared = judge(table, same_scale=False)[1, "dev"].interval
    alone = judge(table, same_scale=False, terms=Terms(family=0.1))[1, "dev"].interval
    assert shared is not None and alone is not None
    assert shared[1] - 1 > 1.2 * (alone[1] - 1)
    for row in table.rows:
        row.entries["test"] = row.entries["dev"]
    table.spec.columns.append("test")
    both = judge(table, same_scale=False)[1, "dev"].interval
    assert both is not None and both[1] > shared[1]


def test_rows_without_common_seeds_are_compared_by_welch() -> None:
    """Two sd 0.2, n = 3: error 0.2 x sqrt(2/3) = 0.163299; t at 2 degrees, half 0.7026."""
    table = table_of(([60.0, 60.2, 59.8], 84.0), ([61.0, 61.2, 60.8], 84.5))
    table.rows[1].entries["dev"] = replace(table.rows[1].entries["dev"], seeds=(3, 4, 5))
    found = judge(table, same_scale=False)[1, "dev"]
    assert found.word == "same direction" and found.reason.endswith("(3/3 seeds, none in common)")
    assert found.interval == pytest.approx((1 - 0.702621, 1 + 0.702621), abs=1e-5)
    table.rows[1].entries["dev"] = replace(table.rows[1].entries["dev"], n=1, values=(61.0,), seeds=(3,))
    assert "no setting has two seeds" in judge(table, same_scale=False)[1, "dev"].reason


def test_collapsed_seeds_are_counted_and_not_averaged() -> None:
    steady = [60.0, 60.1, 59.9, 60.0, 60.1]
    fallen = [61.1, 61.0, 61.0, 30.0, 61.2]
    _, row = verdicts((steady, 84.0), (fallen, 85.0), same_scale=False)
    assert row.word == "breaks" and row.failed == (1, 0) and row.more_seeds == 0
    assert row.interval is not None and 1.0 < sum(row.interval) / 2 < 1.2
    assert row.reason.endswith("(4 seeds); 1 of 5 seeds failed")
    _, few = verdicts((steady[:3], 84.0), (fallen[1:4], 85.0), same_scale=False)
    assert few.word == "breaks" and few.reason.endswith("; 1 of 3 seeds failed, too few are left")
    _, level = verdicts(([*steady[:4], 20.0], 84.0), (fallen, 85.0), same_scale=False)
    assert (level.word, level.failed) == ("same direction", (1, 1)), "the row fails no more often than its reference"


def test_a_run_that_ended_by_an_error_is_a_failed_seed() -> None:
    table = table_of(([60.0, 60.1, 59.9], 84.0), ([61.1, 61.0, 61.0], 85.0))
    assert judge(table, same_scale=False)[1, "dev"].word == "same direction"
    table.rows[1].entries["dev"] = replace(table.rows[1].entries["dev"], failed=1)
    broken = judge(table, same_scale=False)[1, "dev"]
    assert (broken.word, broken.failed) == ("breaks", (1, 0)) and "1 of 4 seeds failed" in broken.reason


STEADY = [60.0, 60.1, 59.9]
SIDES = {"learns": (), "idle": (0, 1), "half": (0,)}


@pytest.mark.parametrize(
    ("row", "base", "above", "equal"),
    [
        ("learns", "learns", "same direction", "tie"),
        ("idle", "learns", "same direction", "no signal"),
        ("learns", "idle", "same direction", "no signal"),
        ("idle", "idle", "no signal", "no signal"),
    ],
)
def test_a_direction_needs_a_row_with_signal_and_a_tie_two(row: str, base: str, above: str, equal: str) -> None:
    """Training that breaks in one row is a difference from a row that learns, and never a tie."""
    for shift, word in ((5.0, above), (0.0, equal)):
        table = table_of((STEADY, 84.0), ([value + shift for value in STEADY[::-1]], 85.0))
        for place, side in ((0, base), (1, row)):
            entries = table.rows[place].entries
            entries["dev"] = replace(entries["dev"], idle=SIDES[side])
        verdict = judge(table, same_scale=False)[1, "dev"]
        assert verdict.word == word
        if word == "no signal":
            assert NO_SIGNAL_TEXT in verdict.reason and verdict.more_seeds is None and verdict.interval is not None
            assert "would decide" not in verdict.reason and "within" not in verdict.reason


def test_no_seed_would_bring_signal() -> None:
    """Undecided rows ask for seeds; of two idle rows, and in a table without signal, none does."""
    wide = [61.0, 63.0, 62.0]
    table = table_of((STEADY, 84.0), (wide, 85.0), ([], 85.0), ([61.0], None))
    assert judge(table, same_scale=False)[1, "dev"].more_seeds
    found = judge(replace(table, no_signal=f"3 of 4 runs {NO_SIGNAL_TEXT}"), same_scale=False)
    words = {row: verdict.word for (row, _), verdict in found.items()}
    assert words == {0: "reference", 1: "no signal", 2: "not run"}
    assert found[1, "dev"].more_seeds is None and found[1, "dev"].reason.endswith(f"; 3 of 4 runs {NO_SIGNAL_TEXT}")
    alone = table_of(([60.0], 84.0), ([61.0], 85.0))
    assert judge(replace(alone, no_signal="why"), same_scale=False)[1, "dev"].word == "no signal"
    at_scale = judge(replace(table, no_signal="why"), same_scale=True)
    assert at_scale[0, "dev"].word == "different", "a value is compared with a value"


def test_half_of_the_runs_are_not_most_of_them() -> None:
    values = entry_of({0: 59.9, 1: 60.1}, 84.0, SIDES["half"])
    assert not values.has_signal and entry_of(dict.fromkeys(range(3), 60.0), 84.0, SIDES["half"]).has_signal


def test_a_word_stays_from_the_look_that_gave_it() -> None:
    """Told after 3 seeds; the next two would take it back, and are not asked."""
    base = [60.0, 60.0, 60.0, 60.0, 60.0]
    told, open_ = [61.0, 61.1, 60.9, 52.0, 53.0], [60.6, 60.7, 60.5, 60.7, 60.2]
    table = table_of((base, 84.0), (told, 85.0), (open_, 84.0))
    found = judge(table, same_scale=False, terms=Terms(looks=(3, 5)))
    assert found[1, "dev"].word == "same direction" and "(3 seeds)" in found[1, "dev"].reason
    assert "(3 seeds)" in judge(table, same_scale=False, terms=Terms(looks=(3,)))[2, "dev"].reason
    assert judge(table, same_scale=False)[1, "dev"].word == "undecided"


def test_equal_published_values_have_no_direction() -> None:
    second = verdicts(([60.0, 60.1, 60.2], 84.48), ([70.0, 70.2, 70.2], 84.48), same_scale=False)[1]
    assert second.word == "undecided" and "equal in the paper" in second.reason


def test_the_reference_row() -> None:
    rows = (([], 84.0), ([1.0], None), ([2.0, 2.1], 84.0), ([3.0, 3.1], 85.0))
    assert reference_row(table_of(*rows), "dev") == 2
    assert reference_row(table_of(*rows, default={"x": 3}), "dev") == 3
    assert reference_row(table_of(*rows, default={"x": 0}), "dev") is None
    found = judge(table_of(*rows, default={"x": 0}), same_scale=False)
    assert found[3, "dev"].word == "undecided" and "default row" in found[3, "dev"].reason


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_how_often_directions_are_called(shift: float) -> None:
    """500 tables of two rows, 3 seeds of sd 1: without a difference at most 7% are called, with one of 3 sd the wrong
    way at most 0.5%."""
    rng = np.random.default_rng(7)
    words = []
    for _ in range(500):
        rows = (rng.normal(0, 1, 3), 10.0), (rng.normal(shift, 1, 3), 13.0)
        words.append(verdicts(*rows, same_scale=False)[1].word)
    wrong = words.count("opposite direction") / 500
    called = wrong + words.count("same direction") / 500
    assert (called <= 0.07) if shift == 0 else (wrong <= 0.005 and called >= 0.35)
