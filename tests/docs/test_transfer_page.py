"""The page of the two sizes, and what it calls a finding that holds."""

from pathlib import Path

import pytest

from docs.transfer_page import HOLDS, NEITHER, ONE, TURNS, Finding, Row, picture, read, text

REPO = Path(__file__).resolve().parents[2]


def finding(difference: float, word: str) -> Finding:
    return Finding(difference, difference - 1, difference + 1, word, 3, "a card")


@pytest.mark.parametrize(
    ("tiny", "small", "outcome"),
    [
        ((2.0, "same direction"), (3.0, "same direction"), HOLDS),
        ((-2.0, "opposite direction"), (-1.5, "opposite direction"), HOLDS),
        ((-2.0, "opposite direction"), (2.0, "same direction"), TURNS),
        ((0.1, "tie"), (-0.1, "tie"), HOLDS),
        ((0.1, "tie"), (2.0, "same direction"), TURNS),
        ((0.1, "tie"), (2.0, "undecided"), ONE),
        ((0.1, "undecided"), (2.0, "no signal"), NEITHER),
    ],
)
def test_a_finding_holds_where_both_sizes_decide_alike(
    tiny: tuple[float, str], small: tuple[float, str], outcome: str
) -> None:
    row = Row("T", "a", 1.0, finding(*tiny), finding(*small))
    assert row.outcome == outcome
    assert picture([row]).count("<circle") == 4 and f"{outcome} |" in text([row])


@pytest.mark.slow
def test_page_and_picture_are_those_of_today() -> None:
    rows = read()
    again = "run `python -m docs.transfer_page` and commit what it writes"
    assert text(rows) == (REPO / "docs" / "results" / "transfer.md").read_text(encoding="utf8"), again
    assert picture(rows) == (REPO / "docs" / "figures" / "transfer.svg").read_text(encoding="utf8"), again
