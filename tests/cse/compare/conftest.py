"""The ledger of E7 about which tests of `cse compare` and `cse gate` ask."""

from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.cse.compare.models import Names, book, score


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    opened = Ledger.open(tmp_path / "results" / "ledger.db")
    resolved = resolve(load_space("E7"))
    spec = {
        "title": "t",
        "space": "E7",
        "file": str(resolved.space.file),
        "profile": "small",
        "encoder": "words-l4-h128",
        "set": {},
    }
    opened.record_sweep("E7", SweepSpec(spec))
    return opened


@pytest.fixture
def two(ledger: Ledger) -> Names:
    """Differences of 2, 3 and 4 points; both scored with cosines."""
    names = book(ledger, 0.24, [62.0, 64.0, 66.0]), book(ledger, 0.08, [60.0, 61.0, 62.0])
    score(ledger, names[0], 0.3)
    score(ledger, names[1], 1.0)
    return names
