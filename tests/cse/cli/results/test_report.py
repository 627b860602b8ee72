"""`cse report` on the command line: a space, a sweep, and every mistake in one line with exit code 2."""

from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.report.facts import folder_name
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from tests import synthetic_ledger
from tests.commands import printed, refused

pytestmark = pytest.mark.usefixtures("somewhere")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with the first 40 runs of the synthetic grid: 8 cells, 5 seeds."""
    folder = tmp_path_factory.mktemp("rows")
    ledger = Ledger.open(synthetic_ledger.write(folder, runs=40, points=4))
    ledger.record_sweep("empty", SweepSpec({"title": "nothing ran", "file": "gone.yaml"}))
    ledger.link("empty", [("nobody", {"method.dup_rate": 0.32}, 0)])
    ledger.record_sweep(
        "gone",
        SweepSpec(
            {
                "title": "its file is gone",
                "file": "gone.yaml",
                "profile": "small",
                "encoder": "words-l4-h128",
                "set": {},
            }
        ),
    )
    ledger.link("gone", [(one.signature, one.cell, one.seed) for one in ledger.cells("rows")])
    ledger.close()
    return folder


def reported(capsys: pytest.CaptureFixture[str], rows: Path, *argv: str) -> str:
    return Path(printed(capsys, "report", *argv, "--ledger", rows / "ledger.db").strip()).read_text(encoding="utf8")


def test_a_sweep_by_name_tells_how_to_repeat_it(capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    text = reported(capsys, rows, "rows", "--out", "page")
    assert "40 of 40 runs finished, 8 cells." in text and text.count("<figure") == 5
    assert f"cse run {rows / 'rows.yaml'} " in text
    assert [path.name for path in Path("page").iterdir()] == ["index.html"]


def test_a_space_tells_which_cells_nobody_has_run(capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    chosen = ("--set", "train.learning_rate=1e-5", "--set", "method.temperature=0.01", "--set", "method.dup_rate=0.08")
    text = reported(capsys, rows, str(rows / "rows.yaml"), *chosen, "--out", "page")
    assert "15 of 25 runs finished, 3 cells." in text and "unclaimed" in text and "queue_multiple=2.5 seed 0" in text


def test_a_sweep_whose_file_is_gone_still_has_its_table(capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    text = reported(capsys, rows, "gone", "--out", "page")
    assert "gone · its file is gone" in text and "40 of 40 runs" in text


def test_a_study_that_is_not_there_names_the_nearest(capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    line = refused(capsys, "report", "row", "--ledger", str(rows / "ledger.db"))
    assert line == "cse: unknown study: study=row; did you mean rows?"


def test_a_sweep_without_a_finished_run_names_what_is_missing(capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    line = refused(capsys, "report", "empty", "--ledger", str(rows / "ledger.db"))
    assert line.startswith("cse: no finished run: study=empty; missing: all seed 0 (unclaimed); cse run gone.yaml")


def test_out_must_be_a_folder(capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    Path("file").write_text("mine", encoding="utf8")
    line = refused(capsys, "report", "rows", "--ledger", str(rows / "ledger.db"), "--out", "file")
    assert line == "cse: not a folder: --out=file; name a folder, new or not"
    assert Path("file").read_text(encoding="utf8") == "mine"


def test_a_ledger_that_has_not_begun(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no ledger yet: --ledger=results/ledger.db" in refused(capsys, "report", "E7")


def test_a_format_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "E7", "--format", "docx"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "docx" in line and "html" in line


def test_studies_whose_names_read_alike_have_folders_of_their_own() -> None:
    names = ["E7", "a/b", "a b", "a-b", "", "..", "x"]
    folders = [folder_name(name) for name in names]
    assert len(set(folders)) == len(names) and folders[0] == "E7" and folders[3] == "a-b"
    assert all(folder.strip(".") and "/" not in folder for folder in folders)
