"""A row without training that two machines scored is one row; where the corpus makes another, it stays apart."""

from pathlib import Path

import pytest

from analysis.answers.baselines import read_stored
from analysis.ledger import Baselines, Ledger
from search_spaces.catalog import load_space
from search_spaces.cells import resolve, setups


@pytest.mark.parametrize(("cls", "rows"), [(65.693875, 1), (65.70, 2)])
def test_s7_of_two_corpora(cls: float, rows: int, tmp_path: Path) -> None:
    """The difference is that of two CPUs, where cosines of two pairs nearly tie; 0.006 shows in print."""
    resolved = resolve(load_space("S7"), "tiny")
    ledger = Ledger.open(tmp_path / "lab.db", create=True)
    both = {setup["train.corpus"]: setup for setup in setups(resolved)}
    for corpus, value, idf in (("wiki", 65.694007, 75.16), ("nli", cls, 75.34)):
        setup = both[corpus]
        key = ("sts_dev", str(setup["train.encoder"]), corpus, int(setup["train.dev_max_length"]))
        ledger.store_baselines([Baselines(*key, {}, {"untrained [CLS]": value, "idf bag of words": idf})])
    names = [row.label for row in read_stored(setups(resolved), ["sts_dev"], ledger)]
    shown = {1: ["untrained [CLS]"], 2: ["untrained [CLS], wiki", "untrained [CLS], nli"]}
    assert names == [*shown[rows], "idf bag of words, wiki", "idf bag of words, nli"]
