"""What reaches a terminal: no broken words at 80 and 120 columns, nothing that it obeys, nothing without end."""

import contextlib
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from analysis.answers import build
from analysis.answers.judge import Judgement, judge
from analysis.render.signs import GLYPHS, TONES
from analysis.render.verdicts import headline
from analysis.tables.aggregate import Table
from analysis.tables.labels import label
from cse.cli import screen, table_text
from cse.cli.app import main
from cse.cli.exit import say
from cse.cli.listing import align_rows, number
from cse.cli.printing import LINES, LONGEST_LINE, escape_styled, plain, plain_output
from search_spaces.catalog import catalog, load_space
from search_spaces.cells import resolve
from tests.analysis.figures.test_figures import FILES, table_of
from tests.commands import printed
from tests.conftest import REPO
from tests.sides import needs

OLD = Path(__file__).resolve().parents[2] / "ledger_0_1_0"
CONTROL = re.compile(r"\x1b\[[0-9;]*m")
RULE = re.compile(r"[─━░█ ]+|[|:-]+")
MARKS = "*|`"
WIDTHS = (80, 120)
COMMANDS = [
    ("ls",), ("trials",), ("trials", "demo"), ("best", "demo"), ("table", "demo"), ("plan", "demo"), ("status",),
    ("plan", "E7", "E8", "D2", "D10", "S3"), ("status", "demo"), ("data", "list"),
    ("compare", "demo:method=simcse,train.learning_rate=1e-4", "demo:method=esimcse,train.learning_rate=1e-4"),
    ("explain", str(catalog()["demo"]), "--cell", "method=simcse,train.learning_rate=1e-4"),
]  # fmt: skip
SIDE_OF = {"data": ["downloads"], "doctor": ["doctor"], "compare": ["compare"]}


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger of a finished `cse demo`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    results = tmp_path / "results"
    results.mkdir()
    with gzip.open(OLD / "demo.db.gz") as packed, (results / "ledger.db").open("wb") as ledger:
        shutil.copyfileobj(packed, ledger)
    shutil.copy(OLD / "demo_baselines.json", results / "baselines.json")


def words(text: str) -> set[str]:
    """Its words without markup; of `method.dup_rate` also the last part, as terminals show axes."""
    plain = [word.strip(MARKS) for word in CONTROL.sub("", text).replace("\u00a0", " ").split()]
    kept = {word for word in plain if word and not RULE.fullmatch(word)}
    return kept | {word.rpartition(".")[2] for word in kept}


def names(table: Table) -> str:
    """What rows are called where their axes are too many for the terminal, and below the verdicts."""
    return " ".join([" row", *(label(row.key, table.named) for row in table.rows)])


def check(narrow: str, whole: str, columns: int) -> None:
    """That the lines fit, and that their words are those of the text of any width; very long ones may be shortened."""
    lines = CONTROL.sub("", narrow).split("\n")
    assert [line for line in lines if len(line) > columns and " " in line.strip()] == [], "a path alone may be longer"
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\N{REPLACEMENT CHARACTER}]", CONTROL.sub("", narrow)), "raw bytes"
    assert "**" not in narrow
    broken = {word for word in words(narrow) - words(whole) if word not in GLYPHS.values()}
    assert {word for word in broken if "…" not in word or len(word) != screen.LONGEST_WORD} == set()


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize(
    "argv",
    [pytest.param(argv, marks=needs(*SIDE_OF.get(argv[0], ()))) for argv in COMMANDS],
    ids=lambda argv: " ".join(argv[:2])[-24:],
)
def test_commands(
    demo: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], columns: int
) -> None:
    printed(capsys, *argv)  # what is asked twice says so
    whole = printed(capsys, *argv)
    monkeypatch.setattr(screen, "width", lambda: columns)
    check(printed(capsys, *argv), whole, columns)


@pytest.mark.parametrize("columns", WIDTHS)
def test_tables_with_verdicts(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    for file in FILES:
        table = table_of(file)
        verdicts = judge(table, same_scale=False)
        monkeypatch.setattr(screen, "width", lambda: None)
        whole = table_text.show_table(table, verdicts) + names(table)
        monkeypatch.setattr(screen, "width", lambda: columns)
        check(table_text.show_table(table, verdicts), whole, columns)


def test_every_published_table_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, file in catalog().items():
        if file.parent.name == "papers":
            table = build.build(resolve(load_space(name)), None)
            monkeypatch.setattr(screen, "width", lambda: None)
            whole = table_text.show_table(table) + names(table)
            monkeypatch.setattr(screen, "width", lambda: 80)
            check(table_text.show_table(table), whole, 80)


def test_trials_show_the_settings_that_vary(demo: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert "esimcse  learning_rate=0.0003" in printed(capsys, "trials", "demo")


def test_tables_are_listed_in_natural_order(capsys: pytest.CaptureFixture[str], demo: None) -> None:
    Path("spaces").mkdir()
    for name in ("D10", "D2", "D1"):
        text = f"version: 1\nid: {name}\nmethod: simcse\nseeds: 1\nspace: {{method.temperature: {{grid: [0.05]}}}}\n"
        Path("spaces", f"{name}.yaml").write_text(text)
    assert re.findall(r"^D\d+", printed(capsys, "plan", "spaces"), re.MULTILINE) == ["D1", "D2", "D10"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(48.642, "48.64"), (0.0, "0.00"), (1e30, "1e+30"), (3.0123456789e-05, "3.012e-05"), (-0.5, "-0.50")],
)
def test_numbers_have_three_or_four_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_columns_are_left_out_before_words_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "width", lambda: 30)
    row = {"id": "E7", "title": "a_word_of_twenty_four_xx", "state": "failed", "left": "x" * 20}
    lines = CONTROL.sub("", align_rows([row], ("left", "state"))).split("\n")
    assert [line.split() for line in lines] == [["id", "title"], ["E7", "a_word_of_twenty_four_xx"]]
    monkeypatch.setattr(screen, "width", lambda: 50)
    assert CONTROL.sub("", align_rows([row], ("left",))).split("\n")[0].split() == ["id", "title", "state"]


def judged(*said: str) -> dict[tuple[int, str], Judgement]:
    return {(i, "c"): Judgement(word, published=0.0) for i, word in enumerate(said)}  # type: ignore[arg-type]


def test_the_sentence_that_stands_first() -> None:
    table = table_of(next(file for file in FILES if file.stem == "E7"))
    said = ["undecided"] * 4 + ["tie", "tie", "same direction", "reference"]
    assert headline(table, judged(*said), same_scale=False) == (
        "E7: 1 same direction, 2 ties, 4 undecided; not the paper's scale"
    )
    assert headline(table, judged(*["one seed could give it"] * 2), same_scale=True) == "E7: 2 that one seed could give"
    assert headline(table, judged("a new word", "different"), same_scale=True) == "E7: 1 different, 1 a new word"
    assert headline(table, {}, same_scale=True) == ""


def test_the_sentence_tells_what_it_costs_to_know() -> None:
    """Rows 0 and 1 lack 4 and 10 seeds, and the reference 10: 24 runs of 30 s; a row's seeds count in both columns."""
    table = table_of(next(file for file in FILES if file.stem == "E7"))
    verdicts = {
        (row, column): Judgement("undecided", published=0.0, more_seeds=more)
        for row, column, more in ((0, "a", 4), (0, "b", 2), (1, "a", 10))
    }
    head = "E7: 3 undecided (about 10 more seeds would settle them"
    assert headline(table, verdicts, same_scale=True, seconds=30.0) == f"{head}, 12 min)"
    assert headline(table, verdicts, same_scale=True, seconds=3000.0) == f"{head}, 20.0 h)"
    assert headline(table, verdicts, same_scale=True) == f"{head})"
    verdicts[2, "a"] = Judgement("undecided", published=0.0, more_seeds=None)
    assert headline(table, verdicts, same_scale=True, seconds=30.0) == (
        "E7: 4 undecided (about 10 more seeds would settle 3, 12 min)"
    )


def test_every_verdict_has_a_sign_and_a_tone() -> None:
    assert set(TONES) == set(GLYPHS) - {"reference"}
    assert set(TONES.values()) == set(screen.TONE_COLOURS)


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
