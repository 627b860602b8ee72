"""The page of the public runs and its picture are what their command writes."""

from pathlib import Path

import pytest

from docs.public_runs_page import picture, read, text

REPO = Path(__file__).resolve().parents[2]
PUBLIC = REPO.parent / "shared" / "data" / "public_runs"


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="no ../shared/data/public_runs beside the checkout")
def test_page_and_picture_are_those_of_today() -> None:
    rows = read(PUBLIC)
    again = "run `python -m docs.public_runs_page ../shared/data/public_runs` and commit what it writes"
    assert text(rows) == (REPO / "docs" / "results" / "public_runs.md").read_text(encoding="utf8"), again
    assert picture(rows) == (REPO / "docs" / "figures" / "public_runs.svg").read_text(encoding="utf8"), again
    assert picture(rows).count('class="seed"') == 200 and picture(rows).count('class="best"') == 16
