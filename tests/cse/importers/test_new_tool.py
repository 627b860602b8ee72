"""A tool whose runs are imported is one module: added to a copy of the project, `cse import` offers and reads it."""

from collections.abc import Callable
from pathlib import Path

MODULE = '''
"""A line for each run: its ID, a rate and a score."""

from pathlib import Path

from cse.importers import ForeignRun

SCORE = "score"


def read(source, study):
    rows = [line.split() for line in Path(source).read_text(encoding="utf8").splitlines()]
    return [
        ForeignRun(id=name, settings={"rate": float(rate)}, metrics={"score": float(score)})
        for name, rate, score in rows
    ]
'''


def test_the_folder_is_the_registry(project_copy: Callable[..., Path], called: Callable[..., str]) -> None:
    copy = project_copy("cse")
    (copy / "cse" / "importers" / "sources" / "lines.py").write_text(MODULE, encoding="utf8")
    (copy / "runs.txt").write_text("one 0.1 60.5\ntwo 0.2 61.5\n", encoding="utf8")
    assert "lines" in called(copy, "import", "--help")
    assert "2 runs imported" in called(copy, "import", "lines", "runs.txt", "--as", "mine", "--ledger", "l.db")
    assert "61.5" in called(copy, "trials", "mine", "--ledger", "l.db")
