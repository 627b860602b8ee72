"""What reaches a terminal: nothing that it obeys, nothing without end."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from cse.cli import screen, table_text
from cse.cli.app import main
from cse.cli.exit import say
from cse.cli.printing import LINES, LONGEST_LINE, escape_styled, plain, plain_output
from tests.conftest import REPO


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


def test_a_stream_whose_reader_is_gone_drops_what_comes() -> None:
    """`cse run | head -1`: the sweep goes on, and ends with its own exit code."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe, contextlib.redirect_stderr(pipe), contextlib.redirect_stdout(pipe):
        assert main(["ls", "--ledger", "absent.db"]) == 2
        with plain_output():
            print("x" * 100_000, flush=True)
            print("more", file=sys.stderr, flush=True)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-", "| head -c 0", "2>&1 | head -c 0"])
def test_a_closed_stream_changes_no_exit_code(tmp_path: Path, closed: str) -> None:
    """Nor does the next file that is opened get its number: the ledger has what it should."""
    script = f"set -o pipefail; {sys.executable} -m cse schema plan {closed}; echo $? > code"
    environment = os.environ | {"PYTHONPATH": str(REPO)}
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, timeout=60)
    assert (tmp_path / "code").read_text() == "0\n"


def test_every_style_of_our_own_tables_passes_and_no_other() -> None:
    ours = [table_text.TERMINAL.bold("best"), table_text.TERMINAL.underline("second"), "[bold][underline]both[/][/]"]
    ours += [f"[{style}]word[/]" for style in (*screen.TONE_COLOURS.values(), *screen.STATE_COLOURS.values(), "bold")]
    console = Console(force_terminal=True, color_system="standard", file=io.StringIO())
    with console.capture() as captured:
        console.print(*ours)
    assert "\x1b[4m" in captured.get() and escape_styled(captured.get()) == captured.get()
    for foreign in ("\x1b[8m", "\x1b[2J", "\x1b[5;31m", "\x1b[41m", "\x1b[31;8m", "\x1b[;m"):
        assert "\x1b" not in escape_styled(foreign)
