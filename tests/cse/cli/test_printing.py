"""What reaches a terminal: nothing that it obeys, nothing without end."""

import sys

import pytest

from cse.cli.exit import say
from cse.cli.printing import LINES, LONGEST_LINE, plain, plain_output


def test_what_a_terminal_would_obey_is_shown_as_a_mark() -> None:
    mark = "\N{REPLACEMENT CHARACTER}"
    assert plain("a\x1b[31mb\rc\x9bd\u202ee\ud800f\tg\n") == f"a{mark}[31mb{mark}c{mark}d{mark}e{mark}f\tg\n"
    assert plain("naïve — 日本語 ± →") == "naïve — 日本語 ± →"


def test_what_is_printed_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    with plain_output():
        print("title \x1b]0;owned\x07")
        sys.stdout.writelines(["a\x1bb\n"])
        assert sys.stdout.encoding.lower().startswith("utf")
    print("\x1b[0m", end="")
    shown = capsys.readouterr().out
    assert shown.count("\x1b") == 1 and "owned" in shown and shown.endswith("b\n\x1b[0m")


def test_problems_are_single_short_lines_and_the_rest_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    say([f"wrong: {'x' * 16_000_000}; put it right", "two\nlines\x1b", *["more"] * 20_000])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == LINES + 1 and lines[-1] == f"cse: and {20_002 - LINES} more"
    assert lines[0].startswith("cse: wrong: xxx") and lines[0].endswith("xxx; put it right")
    assert len(lines[0]) < LONGEST_LINE + 20 and lines[1] == "cse: two lines\N{REPLACEMENT CHARACTER}"
