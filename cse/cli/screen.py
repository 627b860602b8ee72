"""Terminal output: tables that fit the terminal's width without breaking words, and colours for states and verdicts.

A file or a pipe gets plain text of any width instead.
"""

import functools
import io
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from analysis.render.markup import shorten
from analysis.render.signs import GLYPHS, TONES
from analysis.run_state import RunState

if TYPE_CHECKING:  # what goes to no terminal needs no Rich
    from rich.text import Text

GAP = 2
"""Spaces between two columns of a table."""
LONGEST_WORD = 24
"""Characters of a word above which it is shortened, if a table has too many columns for the terminal."""
STATE_COLOURS: Mapping[str, str] = {
    RunState.DONE: "green",
    RunState.RUNNING: "cyan",
    RunState.STOPPED: "yellow",
    RunState.LOST: "yellow",
    RunState.FAILED: "red",
}
TONE_COLOURS = {"good": "green", "near": "cyan", "open": "yellow", "bad": "red", "grey": "dim"}
"""Tone of a verdict -> its colour."""

Entry: TypeAlias = "str | Text"


def width() -> int | None:
    """Returns the terminal's width in characters (COLUMNS wins); None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def prose(text: str, indent: str = "") -> str:
    """Wraps each line at the terminal's width, without breaking words; unchanged if stdout is not a terminal.

    `indent` precedes continuation lines. Lines with colour codes, as in tables, are left as they are.
    """
    columns = width()
    if columns is None:
        return text
    fill = textwrap.TextWrapper(columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False).fill
    return "\n".join(line if "\x1b" in line else fill(line) for line in text.split("\n"))


def note(text: str) -> None:
    """Prints a dim note on stderr before work that takes longer than a second; nothing if stderr is not a terminal."""
    if sys.stderr.isatty():
        print(write_text(style_text(f"{text} ...", "dim"), len(text) + 4), file=sys.stderr, flush=True)


def bold(text: str) -> str:
    """Returns the text in bold, wrapped at the terminal's width."""
    return write_text(style_text(prose(text), "bold"), width() or len(text))


def style_text(text: str, style: str) -> "Text":
    """Returns a Rich text in a style."""
    from rich.text import Text

    return Text(text, style=style)


def parse_markup(markup: str) -> "Text":
    """Returns a Rich text from Rich's markup."""
    from rich.text import Text

    return Text.from_markup(markup)


def colour_word(word: str) -> "Text":
    """Returns a run state or a verdict in its colour, a verdict with its sign before it."""
    tone = TONE_COLOURS.get(TONES.get(word, ""), "")
    return style_text(f"{GLYPHS[word]} {word}" if word in GLYPHS else word, STATE_COLOURS.get(word, tone))


def fit_table(
    names: Sequence[str],
    body: Sequence[Sequence[Entry]],
    right: Sequence[bool],
    columns: int,
    spare: Sequence[str] = (),
) -> str:
    """Returns a table at most `columns` characters wide; long entries are wrapped between words.

    Where a column would be less than half as wide as its entries, `spare` columns are left out, the first first; where
    even single words do not fit, long words are shortened.
    """
    shown = list(range(len(names)))
    left_out = [names.index(name) for name in spare if name in names]
    natural, least = _widths(names, body)
    readable = [max(word, full // 2) for word, full in zip(least, natural, strict=True)]
    while _total(shown, readable) > columns and left_out:
        shown.remove(left_out.pop(0))
    if _total(shown, least) > columns:
        body = [[_short_words(entry) for entry in line] for line in body]
        natural, least = _widths(names, body)
    widths = dict(zip(shown, (natural[i] for i in shown), strict=True))
    while _total(shown, widths) > columns and (wide := [i for i in shown if widths[i] > least[i]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
    head = [style_text(name, "bold") for name in names]
    fitted, sides = [widths[i] for i in shown], [right[i] for i in shown]
    return "\n".join(_line([line[i] for i in shown], fitted, sides) for line in (head, *body))


def _line(entries: Sequence[Entry], widths: Sequence[int], right: Sequence[bool]) -> str:
    """Returns one row of a table, over as many lines as its highest entry needs; ten times as fast as Rich's tables."""
    columns = [_wrap(entry, width) for entry, width in zip(entries, widths, strict=True)]
    lines = []
    for number in range(max(map(len, columns))):
        parts = [column[number] if number < len(column) else ("", 0) for column in columns]
        spaces = [" " * (width - length) for (_, length), width in zip(parts, widths, strict=True)]
        filled = [s + text if r else text + s for (text, _), s, r in zip(parts, spaces, right, strict=True)]
        lines.append((" " * GAP).join(filled).rstrip())
    return "\n".join(lines)


def _wrap(entry: Entry, width: int) -> list[tuple[str, int]]:
    """Returns the lines of a wrapped table entry with their lengths; words are not broken."""
    if not isinstance(entry, str):
        return list(_paint(entry.markup, width))
    if len(entry) <= width and "\n" not in entry:
        return [(entry, len(entry))]
    parts = [textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False) for part in entry.split("\n")]
    return [(line, len(line)) for part in parts for line in part]


@functools.lru_cache(maxsize=4096)
def _paint(markup: str, width: int) -> tuple[tuple[str, int], ...]:
    from rich.console import Console

    lines = parse_markup(markup).wrap(Console(width=width), width)
    for line in lines:
        line.rstrip()
    return tuple((write_text(line, width), len(line)) for line in lines)


def _widths(names: Sequence[str], body: Sequence[Sequence[Entry]]) -> tuple[list[int], list[int]]:
    """Returns, for each column, the length of its longest line, and of its longest word."""
    columns = list(zip(names, *body, strict=True))
    lines = [[line for entry in column for line in str(entry).split("\n")] for column in columns]
    words = [[word for line in column for word in line.split(" ")] for column in lines]
    return [max(map(len, column)) for column in lines], [max(map(len, column)) for column in words]


def least_width(names: Sequence[str], body: Sequence[Sequence[Entry]]) -> int:
    """Returns the least width of a table that is wrapped at every word."""
    least = _widths(names, body)[1]
    return sum(least) + GAP * (len(least) - 1)


def _total(columns: Sequence[int], widths: Sequence[int] | Mapping[int, int]) -> int:
    return sum(widths[i] + GAP for i in columns) - GAP


def _short_words(entry: Entry) -> Entry:
    if not isinstance(entry, str) or all(len(word) <= LONGEST_WORD for word in entry.split()):
        return entry
    return " ".join(shorten(word, LONGEST_WORD) for word in entry.split())


def blocks(
    names: Sequence[str], body: Sequence[Sequence[Entry]], keys: int, groups: Sequence[int], columns: int
) -> str:
    """Returns a table as several parts below each other, each with the first `keys` columns, which name the row.

    `groups`: sizes of neighbouring columns that stay in the same part.
    """
    needs = [word + GAP for word in _widths(names, body)[1]]
    parts: list[list[int]] = [[]]
    start, used = keys, sum(needs[:keys])
    for size in groups:
        needed = sum(needs[start : start + size])
        if parts[-1] and used + needed - GAP > columns:
            parts.append([])
            used = sum(needs[:keys])
        parts[-1] += range(start, start + size)
        start, used = start + size, used + needed
    tables = []
    for part in parts:
        chosen = [*range(keys), *part]
        right = [i >= keys - 1 and i > 0 for i in chosen]
        rows = [[line[i] for i in chosen] for line in body]
        tables.append(fit_table([names[i] for i in chosen], rows, right, columns))
    return "\n\n".join(tables)


def write_text(thing: "Text", columns: int) -> str:
    """Renders a Rich text for a terminal of this width; without colours where NO_COLOR is set."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=columns, highlight=False, color_system="standard")
    console.print(thing)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))
