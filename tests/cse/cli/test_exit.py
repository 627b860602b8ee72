"""Which lines and which exit code an error becomes."""

import errno
from pathlib import Path

import pytest

from analysis.ledger import LostClaim
from cse.cli.exit import run_to_end, verdict
from cse_train.checkpoint import read_best
from cse_train.fields import ConfigError
from cse_train.numerics import Diverged


def raising(error: BaseException) -> None:
    raise error


def test_every_problem_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_end(lambda: raising(ConfigError(["one: a=1; fix", "two: b=2; fix"]))) == 2
    assert capsys.readouterr().err == "cse: one: a=1; fix\ncse: two: b=2; fix\n"


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
