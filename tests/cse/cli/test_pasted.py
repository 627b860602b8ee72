"""Every command that a command suggests runs when it is pasted into a shell, in a folder whose name has a space."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from analysis.ledger import Ledger
from cluster.sweep.events import SweepOutcome
from cse.cli import app
from cse.experiments import run as experiments_run
from tests import sides
from tests.cse.cli.sweeps.pretended import SPACE
from tests.run_values import book_run

pytestmark = sides.needs(*sides.SIDES)

WORD = r"(?:'[^']*'|[^\s;,`')])+"
SUGGESTED = re.compile(rf"(?<![\w./-])cse ([a-z][a-z-]*)((?: {WORD})*)")
NAMES = {"demo", "mine", "list", "get", "wiki1m", "senteval", "sts", "E7", "space", "ours"}
"""Words of a suggested command that are no path."""
TABLE = "my table.yaml"


def suggested(text: str) -> Iterator[str]:
    """Commands in sentences: each up to the first word that is no option, value of one, path or name."""
    for match in SUGGESTED.finditer(text):
        if match[1] in app.command_files():
            parameters = typer.main.get_command(app.app).get_command(None, match[1]).params
            valued = {name for option in parameters if not getattr(option, "is_flag", True) for name in option.opts}
            kept = [""]
            for word in re.findall(WORD, match[2]):
                if not (kept[-1] in valued or word in NAMES or re.match("-|'", word) or "/" in word or is_file(word)):
                    break
                kept.append(word)
            yield f"cse {match[1]}{' '.join(kept)}"


def is_file(word: str) -> bool:
    return re.search(r"\.[a-z]+$", word) is not None


def read_by_shell(line: str) -> list[str]:
    """The words of a command after `cse`, as bash splits them."""
    script = f"cse() {{ printf '%s\\0' \"$@\"; }}\n{line}"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


class Terminal:
    """Runs commands, and those that they suggest."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def run(self, *words: str, code: int = 0) -> str:
        """What a command prints on both streams."""
        ended = app.main(words)
        said = "".join(self.capsys.readouterr())
        assert ended == code, said
        return said

    def paste(self, *words: str, code: int = 0) -> list[str]:
        """Run a command, then what it suggests; returns that."""
        found = list(dict.fromkeys(suggested(self.run(*words, code=code))))
        for line in found:
            self.run(*read_by_shell(line))
        return found


def finish(request: Any, work: Any, *also: Any, **given: Any) -> SweepOutcome:
    """In the place of training: each run ends with a score, and without files."""
    ledger = Ledger.open(request.ledger)
    for run in work.runs:
        if run.signature in work.finished:
            continue
        about = {"seed": run.seed, "identity": run.identity, "provenance": {"commit": "c0ffee"}}
        best = 50.0 + int(run.signature[:4], 16) / 2**16
        book_run(ledger, run.signature, run.run.flat(), **about, examples=128, best=best, seconds=2.0, folder="gone")
    return SweepOutcome(done=len(work.runs) - len(work.finished))


def publish(address: str, here: Path) -> Path:
    """In the hub's place."""
    here.write_bytes(b"A dog runs.\n")
    return here


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CSE_DATA", raising=False)
    monkeypatch.setattr(experiments_run, "run_grid", finish)
    monkeypatch.setattr("cse.downloads.fetch._from_hub", publish)
    rows = "".join(
        f"    - {{key: {{method.dup_rate: {rate}}}, cells: {{'generated_dev:40': 8{rate}}}}}\n" for rate in (1, 2)
    )
    Path(TABLE).write_text(SPACE.format(id="mine", rates=[0.1, 0.2]) + rows.replace("dup_rate: ", "dup_rate: 0."))
    return Terminal(capsys)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("ls", 0),
        ("trials", 0),
        ("status", 2),
        ("report demo", 2),
        ("bundle all --to a.jsonl.gz", 2),
        ("trials E7", 2),
    ],
)
def test_without_a_run_each_names_a_command_that_makes_some(terminal: Terminal, words: str, code: int) -> None:
    """tests/cse/cli/sweeps/test_demo.py runs it."""
    (command,) = suggested(terminal.run(*words.split(), code=code))
    assert command in ("cse demo", "cse run E7")


@pytest.mark.parametrize("words", ["plan E7", "run E7", "doctor E7"])
def test_missing_data_name_what_fetches_them(terminal: Terminal, words: str) -> None:
    said = terminal.run(*words.split(), code={"plan": 0, "run": 2, "doctor": 2}[words.split()[0]])
    assert {"cse data get wiki1m", "cse data get senteval"} <= set(suggested(said))
    terminal.run(*read_by_shell("cse data get wiki1m"))


def test_a_table_of_ones_own(terminal: Terminal) -> None:
    assert terminal.paste("best", TABLE, code=2) == [f"cse run '{TABLE}'"]
    assert terminal.paste("reproduce", TABLE, "--yes")[-1] == f"cse reproduce '{Path(TABLE).absolute()}'"
    (signature,) = re.findall(r"^[0-9a-f]{12}", terminal.run("trials", "mine"), re.MULTILINE)[:1]
    (again,) = terminal.paste("export", signature, "--to", "model", code=2)
    assert again.startswith("cse run '") and again.endswith(" --retrain-missing")
    assert terminal.paste("ablate", "mine", "--yes")[-1].startswith("cse table '")


def test_what_was_just_written(terminal: Terminal) -> None:
    assert terminal.paste("new", "method", "pasted_loss") == ["cse check-method pasted_loss.py"]
    assert terminal.paste("new", "method", "ours", "--method", "ct", code=2) == ["cse new space ours --method ct"]
    Path("to here").mkdir()
    both = terminal.paste("new", "space", "theirs", "--to", "to here")
    assert both == ["cse plan 'to here/theirs.yaml'", "cse run 'to here/theirs.yaml'"]


def test_a_trained_run(terminal: Terminal) -> None:
    settings = ["train.encoder=words-l1-h64", "train.corpus=generated", "train.dev=generated_dev:40"]
    more = ["train.examples=64", "train.evaluations=1"]
    words = ["train", "simcse", *(word for setting in settings + more for word in ("--set", setting))]
    score, use = terminal.paste(*words)
    assert score.endswith(" --suite generated_dev:40") and use.endswith(" --to MODEL")


def test_a_wrong_name_leads_to_the_list(terminal: Terminal) -> None:
    assert set(terminal.paste("compare", "a", "b", code=2)) == {"cse trials", "cse ls"}
    assert terminal.paste("data", "list", "wiki1m", code=2) == ["cse data get wiki1m"]


def test_the_example_of_a_cluster_is_where_it_is_said_to_be(terminal: Terminal) -> None:
    (file,) = re.findall(r"copy (/\S+) and fill it in", terminal.run("launch", "ray-job", code=2))
    assert Path(file).read_text(encoding="utf8").startswith("# What `cse launch`")
