"""How a command ends: which lines and which exit code an error becomes, and no password in any of them."""

import contextlib
import errno
import re
import shlex
from pathlib import Path
from urllib.parse import quote

import pytest

from analysis.answers.study import _command
from analysis.ledger import Ledger, LostClaim, mask_password
from cse.cli.app import main
from cse.cli.exit import run_to_end, verdict
from cse.cli.ledgers import ledger_url
from cse.cli.sweeps.run import announce
from cse.experiments.request import Work
from cse_train.checkpoint import read_best
from cse_train.fields import ConfigError
from cse_train.numerics import Diverged
from tests.sides import needs


def raising(error: BaseException) -> None:
    raise error


def test_every_problem_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_end(lambda: raising(ConfigError(["one: a=1; fix", "two: b=2; fix"]))) == 2
    assert capsys.readouterr().err == "cse: one: a=1; fix\ncse: two: b=2; fix\n"


@pytest.mark.parametrize(
    ("code", "ended"), [("no licence key", (1, "cse: no licence key\n")), (None, (0, "")), (3, (3, ""))]
)
def test_a_library_that_ends_the_process_with_a_text_has_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, code: str | int | None, ended: tuple[int, str]
) -> None:
    """As of Python's own `sys.exit`; a text had counted as 0, and a page was left unmade in silence."""
    monkeypatch.setattr("cse.cli.app.app", lambda *words, **options: raising(SystemExit(code)))
    assert (main(["ls"]), capsys.readouterr().err) == ended


def test_our_runtime_errors_are_failures_not_mistakes() -> None:
    assert verdict(Diverged("NaN loss: step=3; lower train.learning_rate")) == (
        1,
        ["NaN loss: step=3; lower train.learning_rate"],
    )
    assert verdict(LostClaim("claim lost"))[0] == 1


def test_a_full_disk_is_a_failure_that_can_be_repeated() -> None:
    code, (line,) = verdict(OSError(errno.ENOSPC, "No space left on device", "best/model.safetensors"))
    assert code == 1
    assert line.startswith("disk full: file=best/model.safetensors; free some space")


def test_a_value_error_of_our_own_code_is_a_mistake_and_a_library_s_is_a_bug() -> None:
    with pytest.raises(ValueError) as ours:
        read_best(Path("/nonexistent"))
    assert verdict(ours.value)[0] == 2
    code, (line,) = verdict(ValueError("shapes differ"))
    assert code == 1
    told, _, file = line.partition(" please report it with file=")
    assert told == "internal error: ValueError: shapes differ; this is a mistake of ours,"
    assert "ValueError: shapes differ" in Path(file).read_text(encoding="utf8")
    Path(file).unlink()


def test_an_interrupt_has_its_own_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_end(lambda: raising(KeyboardInterrupt())) == 130
    assert "the same command continues" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql+psycopg://me:sec:r@et@host/db", "postgresql+psycopg://me:***@host/db"),
        ("postgresql://me@host/db?password=secret&sslmode=require", "postgresql://me@host/db?password=***&sslmode=require"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("/data/led:ger@2.db", "/data/led:ger@2.db"),
    ],
)  # fmt: skip
def test_a_password_is_masked_wherever_it_stands(url: str, shown: str) -> None:
    assert mask_password(url) == shown


def test_commands_that_name_the_ledger_hide_it(capsys: pytest.CaptureFixture[str]) -> None:
    url = "postgresql://me:secret@host/db"
    announce(Work((), (), frozenset(), frozenset()), url)
    assert "secret" not in capsys.readouterr().out + _command("E7", None, {}, None, url)


def test_the_ledgers_address_that_a_run_prints_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A blank and a letter beyond ASCII; other tools print the address escaped, and it names the same file."""
    folder = tmp_path / "mit Ümlaut"
    folder.mkdir()
    with contextlib.closing(Ledger.open(str(folder / "ledger.db"))) as ledger:
        announce(Work((), (), frozenset(), frozenset()), ledger.url)
    (printed,) = re.findall(r"\(ledger (.*)\)", capsys.readouterr().out)
    (pasted,) = shlex.split(printed)
    for address in (pasted, f"sqlite:///{quote(str(folder / 'ledger.db'))}", str(folder / "ledger.db")):
        assert Path(ledger_url(address)) == folder / "ledger.db"
        assert main(["ls", "--ledger", address]) == 0
    literal = tmp_path / "100%20.db"
    literal.touch()
    assert Path(ledger_url(f"sqlite:///{literal}")) == literal


@pytest.mark.parametrize(
    "command", ["trials", "table E7", "status", pytest.param("dashboard --port 0", marks=needs("live_page"))]
)
@pytest.mark.parametrize(
    "url",
    ["postgresql://me:hunter2@127.0.0.1:9/db", "postgresql://me@127.0.0.1:9/db?password=hunter2", "mysql://me:hunter2@h/d"],
)  # fmt: skip
def test_a_ledger_that_cannot_be_reached_keeps_the_password(
    capsys: pytest.CaptureFixture[str], command: str, url: str
) -> None:
    assert main([*command.split(), "--ledger", url]) == 2
    said = capsys.readouterr()
    assert "cse: ledger" in said.err and "hunter2" not in said.out + said.err


@pytest.mark.parametrize(
    "url", ["postgresql://me:hunter2@127.0.0.1:9/db", "postgresql://me@127.0.0.1:9/db?password=hunter2"]
)
def test_a_password_on_the_command_line_of_a_ray_job_is_refused(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert main(["run", "E7", "--address", "127.0.0.1:6379", "--ledger", url]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "password on the command line: ledger=postgresql://" in line and "hunter2" not in line
    assert line.endswith("leave it out, and give PGPASSWORD or ~/.pgpass")
