"""The functions of `import cse` answer what the commands answer: to the digit, on our own sweeps and imported ones."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import cse
from analysis.documents import dump_json
from analysis.ledger import Ledger
from cse.cli.app import main
from tests import sides, site_ledger
from tests.commands import printed

pytestmark = sides.needs("importers", "compare")

SCORES = "lr,seed,acc\n" + "".join(f"{lr},{seed},{80 + lr + seed / 4}\n" for lr in (1, 2) for seed in range(3))
PAPER = "seed,sts_dev\n0,81.2\n1,82.6\n2,81.9\n"
SWEEPS = {"E8": "method.queue_multiple=1", "csv_sweep": "lr=1", "S3@imported": "0.1"}
"""Sweep -> one of its cells: our own, one from a CSV, and a paper's table with a row from a CSV."""
WITHOUT_ANSWER = {
    "load_model": "gives a model",
    "run": "trains: tests/cse/cli/sweeps/test_run.py",
    "reproduce": "trains: tests/cse/cli/sweeps/test_reproduce.py",
    "ablate": "trains: tests/cse/cli/sweeps/test_ablate.py",
    "export": "writes a folder: tests/cse/cli/models/test_export.py",
}
"""Functions that are tested elsewhere, with the reason."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("answers")
    opened = Ledger.open(place / "ledger.db")
    site_ledger.train(opened, site_ledger.small("E8"), 3, lambda run: 61.0 + site_ledger.noise(run, 0.8))
    opened.close()
    (place / "acc.csv").write_text(SCORES, encoding="utf8")
    (place / "paper.csv").write_text(PAPER, encoding="utf8")
    for arguments in (
        ["acc.csv", "--as", "csv_sweep", "--score", "acc", "--scale", "100", "--rename", "lr=lr"],
        ["paper.csv", "--as", "S3", "--row", "0.1", "--score", "sts_dev"],
    ):
        file, *rest = arguments
        assert main(["import", "csv", str(place / file), *rest, "--ledger", str(place / "ledger.db")]) == 0
    return place


@pytest.fixture
def answers(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., object]:
    """The JSON of a command line on the ledger."""
    monkeypatch.chdir(folder)

    def answer(*words: str, code: int = 0) -> object:
        return json.loads(printed(capsys, *words, "--format", "json", "--ledger", "ledger.db", code=code))

    return answer


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("verb", ["table", "best", "status", "trials"])
def test_a_sweep_is_answered_alike(answers: Callable[..., object], verb: str, sweep: str) -> None:
    assert getattr(cse, verb)(sweep, ledger="ledger.db").data == answers(verb, sweep)


@pytest.mark.parametrize(("sweep", "cell"), SWEEPS.items())
def test_a_cell_is_explained_alike(answers: Callable[..., object], sweep: str, cell: str) -> None:
    explained = cse.explain(sweep, cell, ledger="ledger.db").data
    assert explained == answers("explain", sweep, "--cell", cell)
    assert sweep != "csv_sweep" or explained["cell"] == {"lr": 1}


def test_a_table_is_the_same_text_in_a_notebook(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for sweep in SWEEPS:
        shown = cse.table(sweep, ledger=str(folder / "ledger.db"))
        assert str(shown) == printed(capsys, "table", sweep, "--ledger", folder / "ledger.db"), sweep
        assert len(shown.to_frame()) > 0


def test_sweeps_plans_and_differences_are_answered_alike(answers: Callable[..., object]) -> None:
    assert cse.ls(ledger="ledger.db").data == answers("ls")
    assert cse.status(ledger="ledger.db").data == answers("status")
    assert cse.plan("E8", profile="small", ledger="ledger.db").data == answers("plan", "E8", "--profile", "small")
    pair = "csv_sweep:lr=2", "csv_sweep:lr=1"
    cse.compare(*pair, ledger="ledger.db")  # what was asked before is said to be asked again
    compared, judged = cse.compare(*pair, ledger="ledger.db"), cse.gate(*pair, loop="a", ledger="ledger.db")
    assert plain(compared.as_dict()) == answers("compare", *pair)
    again = answers("gate", pair[0], "--against", pair[1], "--loop", "b", code=judged.exit_code)
    assert isinstance(again, dict)
    assert plain(judged.as_dict()) == again and judged.asked.loop == "compare", "in whatever loop"


def plain(facts: Mapping[str, object]) -> dict[str, object]:
    """As a program reads them."""
    read: dict[str, object] = json.loads(dump_json(facts))
    return read


def test_a_report_is_the_same_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for sweep in SWEEPS:
        page = cse.write_report(sweep, ledger=str(folder / "ledger.db"), out=folder / "a")
        told = printed(capsys, "report", sweep, "--ledger", folder / "ledger.db", "--out", folder / "b").strip()
        assert page.read_text(encoding="utf8") == Path(told).read_text(encoding="utf8")


def test_every_function_is_compared() -> None:
    here = Path(__file__).read_text(encoding="utf8")
    named = {name for name in cse.COMMANDS if f"cse.{name}(" in here or f'"{name}"' in here}
    assert named == set(cse.COMMANDS)
