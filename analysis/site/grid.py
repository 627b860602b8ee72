"""A table in the paper's layout: entries hold our value, the paper's and the difference, of which radios show one."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from analysis.render.formats.html import HTML
from analysis.render.grid import NO_AXES, baseline_grid, grid, text_columns
from analysis.render.signs import GLYPHS
from analysis.report.facts import folder_name, slug
from analysis.site.content import Scale, Sheet, tone
from analysis.tables.aggregate import Table
from analysis.tables.columns import Verdict
from analysis.tables.verdict import Verdicts

VIEWS = {"ours": "ours", "paper": "the paper's", "delta": "difference", "every": "all three"}
"""A radio's value -> its words."""


@dataclass(frozen=True)
class Value:
    """One entry; each text is HTML and may be empty."""

    ours: str
    paper: str = ""
    delta: str = ""


def values(table: Table) -> list[dict[str, Value]]:
    """Column -> entry for every line of the table, the rows that are not trained last."""
    header, body = grid(table, HTML)
    first = text_columns(table) + 1
    starts: dict[str, tuple[int, int]] = {}
    place = first
    for column in table.spec.columns:
        width = 3 if header[place + 1 : place + 2] == [f"{HTML.escape(column)} paper"] else 1
        starts[column] = (place, width)
        place += width
    return [{name: Value(*line[start : start + width]) for name, (start, width) in starts.items()} for line in body]


def anchor(scale: str, row: int, column: str) -> str:
    """The place on the page where the runs behind an entry stand."""
    return f"{folder_name(scale)}-{row + 1}-{slug(column)}"


def toggles(name: str) -> str:
    """Radios that choose what entries show; without them all is shown."""
    radios = "".join(
        f'<label><input type="radio" name="show-{name}" class="show-{view}"{" checked" if view == "ours" else ""}> '
        f"{words}</label>"
        for view, words in VIEWS.items()
    )
    return f'<fieldset class="toggle"><legend>Entries show</legend>{radios}</fieldset>'


def sheet_table(sheet: Sheet, table: Table, verdicts: Verdicts, scale: Scale | None) -> str:
    """The table; entries of ours lead to the runs behind them."""
    spec, lines = table.spec, values(table)
    named = bool(sheet.names)
    axes = ["row"] if named else list(spec.axes) or [NO_AXES]
    head = "".join(f'<th scope="col" class="text">{HTML.escape(axis)}</th>' for axis in axes)
    head += '<th scope="col" class="n">n</th>' if scale else ""
    head += "".join(f'<th scope="col">{HTML.escape(column)}</th>' for column in spec.columns)
    texts = text_columns(table)
    body = []
    for index, (printed, line) in enumerate(zip(grid(table, HTML)[1], lines, strict=True)):
        keys, count = printed[:texts], printed[texts]
        if named:
            keys = [HTML.escape(sheet.row_name(table.rows[index]))] if index < len(table.rows) else keys[:1]
        cells = [_entry(value, verdicts.get((index, column)), index, column, scale) for column, value in line.items()]
        kind = "" if index < len(table.rows) else ' class="not-ours"'
        heads = "".join(f'<th scope="row">{key}</th>' for key in keys)
        seeds = f'<td class="n">{count}</td>' if scale else ""
        body.append(f"<tr{kind}>{heads}{seeds}{''.join(cells)}</tr>")
    body = [body[index] for index in sheet.order(table)] + body[len(table.rows) :]
    caption = HTML.escape(". ".join(part for part in (sheet.where, sheet.metric) if part))
    return (
        f'<table class="sheet"><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody>'
        f"{_untrained(table, len(axes))}</table>"
    )


def _untrained(table: Table, axes: int) -> str:
    """Our rows without training, which start where the runs start."""
    rows = [
        f'<tr class="not-ours"><th scope="row" colspan="{axes + 1}">{line[0]}</th>'
        + "".join(f'<td><span class="ours">{entry}</span></td>' for entry in line[1:])
        + "</tr>"
        for line in baseline_grid(table, HTML)[1]
    ]
    across = axes + 1 + len(table.spec.columns)
    head = f'<tr class="part"><th colspan="{across}" scope="rowgroup">without training</th></tr>'
    return f"<tbody>{head}{''.join(rows)}</tbody>" if rows else ""


def _entry(value: Value, verdict: Verdict | None, row: int, column: str, scale: Scale | None) -> str:
    ours, colour = value.ours, ""
    if ours and scale is not None and row < len(scale.table.rows):
        ours = f'<a href="#{anchor(scale.name, row, column)}">{ours}</a>'
    if verdict is not None:
        colour = tone(verdict.word)
        ours = f"{ours} {sign(verdict.word)}".strip()
    delta = value.delta + _from_reference(verdict, scale)
    parts = {"ours": ours, "paper": value.paper, "delta": delta}
    kind = f' class="{colour}"' if colour else ""
    shown = "".join(f'<span class="{name}">{text}</span>' for name, text in parts.items() if text)
    return f"<td{kind}>{shown}</td>"


def sign(word: str) -> str:
    """A verdict's sign with its word for those who do not see it."""
    return f'<span class="sign" role="img" aria-label="{escape(word)}" title="{escape(word)}">{GLYPHS[word]}</span>'


def _from_reference(verdict: Verdict | None, scale: Scale | None) -> str:
    """At another scale: our difference from the row of reference, and the paper's."""
    if verdict is None or scale is None or scale.same or verdict.interval is None:
        return ""
    ours = sum(verdict.interval) / 2
    text = f"{ours:+.2f} from ○, paper {verdict.published:+.6g}".replace("-", "−")
    return f"<small>{text}</small>"


def legend(verdicts: Verdicts) -> str:
    """The signs that stand in the table, with their words."""
    said: Mapping[str, None] = dict.fromkeys(verdict.word for verdict in verdicts.values())
    items = [
        f'<li><span class="sign {tone(word)}" aria-hidden="true">{glyph}</span> {escape(word)}</li>'
        for word, glyph in GLYPHS.items()
        if word in said
    ]
    return f'<ul class="legend">{"".join(items)}</ul>' if items else ""
