"""The pages of `cse reproduce` from a bundle, where neither the ledger nor any file of a run is: byte for byte."""

import shutil
from pathlib import Path

import pytest

from cse.cli.app import main
from tests.cse.cli.sweeps.pretended import Sweeps, given, space, sweeps
from tests.sides import needs

__all__ = ["sweeps"]


def pages(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


@needs("bundles", "importers")
def test_pages_from_a_bundle_are_those_of_the_ledger(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    tables = (space("A1", 0.1, 0.2, 0.3, 0.4), space("B1", 0.1, 0.2))
    given(capsys, *tables, "--yes", "--out", "before")
    before = pages("before")
    assert b"pairs of rows differ on resampled sentence pairs" in before["A1.md"]
    assert main(["bundle", *tables, "--to", "both.jsonl.gz"]) == 0
    shutil.rmtree("results")
    for npz in Path().glob("*.npz"):
        npz.unlink()
    capsys.readouterr()
    for count in ("8 runs imported, 0 already there", "0 runs imported, 8 already there"):
        assert main(["import", "both.jsonl.gz"]) == 0
        assert capsys.readouterr().out.startswith(count)
        out, said = given(capsys, *tables, "--yes", "--out", "after")
        assert "8/8 already in the ledger, 0 run" in out and said == []
        assert pages("after") == before
    assert len(sweeps.asked) == 1, "nothing was trained again"
