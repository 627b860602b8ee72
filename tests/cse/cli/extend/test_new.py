"""`cse new` and `cse check-method`: starts that keep the contract as written, and mistakes in one line each."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cse.cli.app import main
from cse_train.data_paths import DataPaths
from cse_train.plugins import registry
from cse_train.training.program import train
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.commands import printed


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_PLUGINS", raising=False)
    yield tmp_path
    registry.forget()


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("cse: ")


def test_a_new_method_and_its_space_are_valid_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "method", "margin_loss"]) == 0
    assert main(["new", "space", "margins", "--method", "margin_loss"]) == 0
    space = load_space("margins.yaml")
    assert (space.plugins, space.method) == (("margin_loss.py",), "margin_loss")
    assert [cell.run(0).options.temperature for cell in resolve(space).cells()] == [0.05, 0.05]
    assert main(["new", "space", "plain"]) == 0
    assert load_space("plain.yaml").plugins == ()
    assert capsys.readouterr().out.splitlines()[:2] == [
        "wrote margin_loss.py",
        "next: cse check-method margin_loss.py",
    ]


@pytest.mark.slow
def test_a_new_trainer_and_its_space_are_valid_as_written_and_train(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "trainer", "mine"]) == 0
    assert capsys.readouterr().out.splitlines() == ["wrote mine.py", "wrote mine.yaml",
                                                    "next: cse plan mine.yaml; cse run mine.yaml"]  # fmt: skip
    cells = resolve(load_space("mine.yaml")).cells()
    assert [(cell.flat["rate"], cell.flat["width"]) for cell in cells] == [(0.01, 4), (0.01, 16), (0.1, 4), (0.1, 16)]
    outcome = train(cells[0].run(1), DataPaths(), Path("run").resolve(), lambda point: False)
    alone = subprocess.run(
        [sys.executable, "mine.py", "--rate", "0.01", "--width", "4", "--seed", "1"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert outcome.points[-1].metrics["accuracy"] == float(alone.stdout.split()[1]) * 100
    assert Path("run/best/model.pt").is_file()
    assert refused(capsys, "new", "trainer", "mine").startswith("file exists: mine.py; ")


def test_a_new_method_starts_from_simcses_pooler_and_rate() -> None:
    """Beside SimCSE in one space nothing differs but the method."""
    assert main(["new", "method", "margin_loss"]) == 0
    Path("both.yaml").write_text(
        "version: 1\nid: both\nplugins: [margin_loss.py]\nprofile: small\nseeds: 1\n"
        "space: {method: {grid: [simcse, margin_loss]}}\n"
    )
    ours, mine = (cell.flat for cell in resolve(load_space("both.yaml")).cells())
    assert [name for name in ours if name in mine and ours[name] != mine[name]] == ["method"]
    assert (mine["method.pooler"], mine["train.learning_rate"]) == ("cls_train_only", 2e-4)
    file = Path("margin_loss.py")
    file.write_text(file.read_text().replace('LIKE = "simcse"', ""))  # as methods before had it: the default rate
    _, before = (cell.flat for cell in resolve(load_space("both.yaml")).cells())
    assert before["train.learning_rate"] == 3e-5


def test_the_start_of_a_method_keeps_the_contract_and_trains(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "method", "margin_loss"]) == 0
    lines = printed(capsys, "check-method", "margin_loss.py").splitlines()[2:]
    assert [line.split()[0] for line in lines] == ["ok"] * 6 + ["margin_loss:"]


def test_a_check_that_fails_names_the_place_and_the_exit_code_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "method", "margin_loss"]) == 0
    file = Path("margin_loss.py")
    text = (
        file.read_text()
        .replace("loss = info_nce(", "loss = torch.rand(()) * info_nce(")
        .replace("return self.pooler(", "return 1 / 0 if not self.training else self.pooler(")
    )
    file.write_text(text)
    (number,) = (i for i, line in enumerate(text.splitlines(), 1) if "1 / 0" in line)
    lines = printed(capsys, "check-method", str(file), code=1).splitlines()[2:]
    assert [line.split()[0] for line in lines] == ["ok", "ok", "ok", "FAILS", "FAILS", "FAILS", "margin_loss:"]
    assert lines[3].endswith(f"ZeroDivisionError: division by zero ({file.resolve()}:{number})")
    assert lines[-1] == "margin_loss: 3 checks failed"


def test_a_step_that_ignores_its_seed_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "method", "margin_loss"]) == 0
    file = Path("margin_loss.py")
    text = file.read_text().replace("loss = info_nce(", "loss = random.random() * info_nce(")
    file.write_text(text.replace("\nimport torch\n", "\nimport random\n\nimport torch\n", 1))
    assert main(["check-method", str(file)]) == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILS"))
    assert line.startswith("FAILS  the same seed gives the same batch and loss") and "share.rng_of(row)" in line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("method", "Margin-Loss"), "wrong name: name=Margin-Loss; give lower-case letters, digits and _, a letter"),
        (("method", "class"), "wrong name: name=class; give lower-case letters, digits and _"),
        (("method", "simcse"), "name taken: name=simcse is a method; give another"),
        (("method", "json"), "name taken: name=json, `import json` gives "),
        (("space", "../mine"), "wrong name: name=../mine; give letters, digits, _ and -, a letter first"),
        (("space", "e7"), "name taken: name=e7 is a shipped space; give another"),
        (("space", "mine", "--method", "simces"), "unknown method: method=simces; did you mean simcse?"),
        (("space", "mine", "--to", "nowhere"), "no such folder: to=nowhere; make it first"),
        (("method", "mine", "--method", "ct"), "option of a space: --method=ct; leave it out, or write cse new space"),
    ],
)
def test_a_wrong_name_is_one_line_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], line: str
) -> None:
    assert refused(capsys, "new", *words).startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("kept")
    assert refused(capsys, "new", "space", "mine") == (
        "file exists: mine.yaml; give another name or --to, nothing is overwritten"
    )
    Path("margin_loss.py").write_text("kept")
    assert refused(capsys, "new", "method", "margin_loss").startswith("file exists: margin_loss.py; ")
    assert Path("mine.yaml").read_text() == Path("margin_loss.py").read_text() == "kept"


def test_what_cannot_be_checked_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "check-method", "simces").startswith("unknown method: method=simces; did you mean simcse?")
    assert refused(capsys, "check-method", "mine.py").startswith("no such path: plugins=mine.py; give a folder, a .py")
    Path("norms.py").write_text(
        "NAME = 'norms'\nCOLUMNS = NEEDS = ()\n\n\ndef evaluate(model, paths):\n    return []\n"
    )
    assert refused(capsys, "check-method", "norms.py").startswith(
        "no method: norms.py is the suite norms; name a method"
    )
