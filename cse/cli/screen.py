"""What a terminal shows: tables that fit its width with no word broken, and colours that mean something.

A file or a program gets plain text of any width instead.
"""

import functools
import io
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from analysis.render.signs import GLYPHS, TONES
from analysis.run_state import RunState
from analysis.tables.labels import shorten

if TYPE_CHECKING:  # what goes to no terminal needs no Rich
    from rich.text import Text

GAP = 2
"""Spaces between columns."""
LONGEST_WORD = 24
"""Letters of a word that stays whole where columns are too many."""
STATE_COLOURS: Mapping[str, str] = {
    RunState.DONE: "green",
    RunState.RUNNING: "cyan",
    RunState.STOPPED: "yellow",
    RunState.LOST: "yellow",
    RunState.FAILED: "red",
}
TONE_COLOURS = {"good": "green", "near": "cyan", "open": "yellow", "bad": "red", "grey": "dim"}
"""Colour of a verdict's tone."""

Entry: TypeAlias = "str | Text"


def width() -> int | None:
    """Columns of the terminal that a person reads (COLUMNS wins); None where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def prose(text: str, indent: str = "") -> str:
    """Lines of whole words as wide as the terminal, later ones indented; as it is where there is no terminal.

    Lines that are coloured already, those of tables, stay.
    """
    columns = width()
    if columns is None:
        return text
    fill = textwrap.TextWrapper(columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False).fill
    return "\n".join(line if "\x1b" in line else fill(line) for line in text.split("\n"))


def note(text: str) -> None:
    """A word to the person at the terminal before something that takes longer than a second."""
    if sys.stderr.isatty():
        print(write_text(style_text(f"{text} ...", "dim"), len(text) + 4), file=sys.stderr, flush=True)


def bold(text: str) -> str:
    """Wrapped to the terminal's width, and bold."""
    return write_text(style_text(prose(text), "bold"), width() or len(text))


def style_text(text: str, style: str) -> "Text":
    """A text in a style of Rich's."""
    from rich.text import Text

    return Text(text, style=style)


def parse_markup(markup: str) -> "Text":
    """A text from Rich's markup."""
    from rich.text import Text

    return Text.from_markup(markup)


def colour_word(word: str) -> "Text":
    """A state or a verdict in its colour, a verdict behind its sign."""
    tone = TONE_COLOURS.get(TONES.get(word, ""), "")
    return style_text(f"{GLYPHS[word]} {word}" if word in GLYPHS else word, STATE_COLOURS.get(word, tone))


def fit_table(
    names: Sequence[str],
    body: Sequence[Sequence[Entry]],
    right: Sequence[bool],
    columns: int,
    spare: Sequence[str] = (),
) -> str:
    """A table at most `columns` wide: words move to lines of their own.

    Where a column would have to be less than half as wide as its entries, `spare` columns are left out, the first
    first; where even single words do not fit, long ones are shortened.
    """
    kept = list(range(len(names)))
    left_out = [names.index(name) for name in spare if name in names]
    natural, least = _widths(names, body)
    readable = [max(word, full // 2) for word, full in zip(least, natural, strict=True)]
    while _total(kept, readable) > columns and left_out:
        kept.remove(left_out.pop(0))
    if _total(kept, least) > columns:
        body = [[_short_words(entry) for entry in line] for line in body]
        natural, least = _widths(names, body)
    widths = dict(zip(kept, (natural[i] for i in kept), strict=True))
    while _total(kept, widths) > columns and (wide := [i for i in kept if widths[i] > least[i]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
    head = [style_text(name, "bold") for name in names]
    shown, sides = [widths[i] for i in kept], [right[i] for i in kept]
    return "\n".join(_line([line[i] for i in kept], shown, sides) for line in (head, *body))


def _line(entries: Sequence[Entry], widths: Sequence[int], right: Sequence[bool]) -> str:
    """A line of a table, over as many lines as its highest entry. Rich's own tables take 1 ms a line, this a tenth."""
    columns = [_wrap(entry, width) for entry, width in zip(entries, widths, strict=True)]
    lines = []
    for number in range(max(map(len, columns))):
        parts = [column[number] if number < len(column) else ("", 0) for column in columns]
        spaces = [" " * (width - length) for (_, length), width in zip(parts, widths, strict=True)]
        filled = [s + text if r else text + s for (text, _), s, r in zip(parts, spaces, right, strict=True)]
        lines.append((" " * GAP).join(filled).rstrip())
    return "\n".join(lines)


def _wrap(entry: Entry, width: int) -> list[tuple[str, int]]:
    """The lines of an entry and their lengths; words stay whole."""
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
    """Of each column: its widest line, and its widest word."""
    columns = list(zip(names, *body, strict=True))
    lines = [[line for entry in column for line in str(entry).split("\n")] for column in columns]
    words = [[word for line in column for word in line.split(" ")] for column in lines]
    return [max(map(len, column)) for column in lines], [max(map(len, column)) for column in words]


def least_width(names: Sequence[str], body: Sequence[Sequence[Entry]]) -> int:
    """How wide a table is whose every word has a line of its own."""
    least = _widths(names, body)[1]
    return sum(least) + GAP * (len(least) - 1)


def _total(kept: Sequence[int], widths: Sequence[int] | Mapping[int, int]) -> int:
    return sum(widths[i] + GAP for i in kept) - GAP


def _short_words(entry: Entry) -> Entry:
    if not isinstance(entry, str) or all(len(word) <= LONGEST_WORD for word in entry.split()):
        return entry
    return " ".join(shorten(word, LONGEST_WORD) for word in entry.split())


def blocks(
    names: Sequence[str], body: Sequence[Sequence[Entry]], keys: int, groups: Sequence[int], columns: int
) -> str:
    """A table whose first `keys` columns say what a row is, in as many parts below each other as its results need.

    `groups` are the sizes of neighbouring columns that stay together.
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
    """As a terminal of so many columns is sent it; without colours where NO_COLOR is set."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=columns, highlight=False, color_system="standard")
    console.print(thing)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))
