"""`cse` as a person calls it, within this process: what it prints, and the one line of a mistake."""

import pytest

from cse.cli.app import main


def printed(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 0) -> str:
    """What a command prints that ends with this code."""
    ended = main([str(word) for word in argv])
    said = capsys.readouterr()
    assert ended == code, said.err
    return said.out


def problems(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 2) -> list[str]:
    """The lines on stderr of a command that ends with this code; none is of a traceback."""
    assert main([str(word) for word in argv]) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out and "internal error" not in said.err
    return said.err.strip().splitlines()


def refused(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    """The one line of a command that a person's mistake ends."""
    (line,) = problems(capsys, *argv)
    return line
