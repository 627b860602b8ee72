"""The page on a user's own method: its two files, from a folder of their own, through a real search and a table."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse_train.plugins import registry
from search_spaces.identity.method_code import own_digest
from tests.commands import printed

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "your_method.md").read_text(encoding="utf8")


def block(language: str) -> str:
    """The only block of this language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^\$ (cse .*)$", PAGE, re.MULTILINE)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somebody's folder with the two files of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_PLUGINS", raising=False)
    Path("tension.py").write_text(block("python"), encoding="utf8")
    Path("tension.yaml").write_text(block("yaml"), encoding="utf8")
    yield tmp_path
    registry.forget()


def test_the_page_runs_these_commands() -> None:
    assert [words[0] for words in COMMANDS] == ["check-method", "plan", "run", "table", "report"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_files_of_a_user_become_a_search_and_a_table(
    ray_cluster: None, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {}
    for words in COMMANDS:
        monkeypatch.chdir(folder)
        code = main(words)
        output = capsys.readouterr()
        assert code == 0, (words, output.out, output.err)
        said[words[0]] = output.out
    assert said["check-method"].endswith("tension: keeps the contract\n") and "FAILS" not in said["check-method"]
    assert "2 done, 0 failed" in said["run"]
    assert "method.negatives" in said["table"] and "train.learning_rate" in said["table"]
    assert Path(said["report"].strip()).is_file()

    runs = Ledger.open(folder / "results" / "ledger.db").runs()
    assert [run.state for run in runs] == ["done", "done"]
    assert {run.identity["code"] for run in runs} == {own_digest("tension")}
    (copy,) = (folder / "results" / "plugins").glob("*/tension.py")
    assert copy.read_text(encoding="utf8") == block("python")

    assert "0 done, 0 failed" in printed(capsys, "run", "tension.yaml", "--yes"), (
        "the same command again trains nothing"
    )
    Path("tension.py").write_text(block("python").replace(".mean()", ".sum()"), encoding="utf8")
    assert main(["run", "tension.yaml", "--yes"]) == 2
    assert "changed code: method=tension, 2 finished runs were made by other code of it" in capsys.readouterr().err

    broken = block("python").replace("packed = ", "packed = batch.nothing or ")
    Path("tension.py").write_text(broken, encoding="utf8")
    assert main(["run", "tension.yaml", "--yes", "--rerun"]) == 1
    (number,) = (i for i, line in enumerate(broken.splitlines(), 1) if "batch.nothing" in line)
    assert f"has no attribute 'nothing' (tension.py:{number} in forward" in " ".join(capsys.readouterr().err.split())

    (best,) = {run.folder for run in runs if run.best == max(run.best for run in runs)}
    registry.forget()
    assert main(["export", best, "--to", "model"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cse: unknown method: method=tension; ") and "--plugins" in line
    Path("tension.py").write_text(block("python"), encoding="utf8")
    assert main(["export", best, "--to", "model", "--plugins", "tension.py"]) == 0
    registry.forget()
    assert main(["eval", best, "--plugins", "tension.py", "--suite", "generated_dev:40"]) == 0
