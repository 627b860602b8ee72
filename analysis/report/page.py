"""A report as one HTML page: nothing is fetched, nothing runs, every text is escaped."""

import html
from pathlib import Path
from string import Template

from analysis.figures.canvas import data_uri, save
from analysis.render.formats import render
from analysis.report.facts import Grid
from analysis.report.report import Picture, Report, Section

LONG = 60
"""Rows above which a table has a box of its own to scroll in; print shows it whole."""
SAID = 40
"""Characters from which an entry is a sentence, whose column stays wide enough to read."""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""The browser itself refuses scripts and addresses, whatever a text may hold."""
FRAME, STYLE = (Path(__file__).with_name(name) for name in ("page.html", "page.css"))


def page(report: Report) -> str:
    """The whole page; equal reports give equal text."""
    ids = [f"s{number}" for number in range(len(report.sections))]
    links = [
        f'<li><a href="#{id}">{html.escape(section.heading)}</a></li>'
        for id, section in zip(ids, report.sections, strict=True)
    ]
    return Template(FRAME.read_text(encoding="utf8")).substitute(
        policy=POLICY,
        style=STYLE.read_text(encoding="utf8"),
        title=html.escape(report.title),
        headline=f'<p class="headline">{html.escape(report.headline)}</p>' if report.headline else "",
        summary=html.escape(report.summary),
        links="".join(links),
        sections="\n".join(_section(id, section) for id, section in zip(ids, report.sections, strict=True)),
    )


def _section(id: str, section: Section) -> str:
    parts = [f'<section aria-labelledby="{id}"><h2 id="{id}">{html.escape(section.heading)}</h2>']
    parts += [f"<p>{html.escape(text)}</p>" for text in section.texts]
    if section.table is not None:
        parts.append(boxed(render(section.table, "html"), len(section.table.rows), "Results"))
    parts += [_picture(picture) for picture in section.pictures]
    parts += [boxed(grid_table(grid), len(grid.body), grid.caption) for grid in section.grids]
    if section.code:
        parts.append(f"<pre><code>{html.escape(section.code)}</code></pre>")
    return "\n".join([*parts, "</section>"])


def boxed(text: str, rows: int, name: str) -> str:
    """A table that may be wider than the page, or longer than a screen; the keyboard scrolls it."""
    long = " long" if rows > LONG else ""
    return f'<div class="wide{long}" role="region" aria-label="{html.escape(name)}" tabindex="0">{text}</div>'


def _picture(picture: Picture) -> str:
    width, height = (round(96 * inches) for inches in picture.figure.get_size_inches())
    source, alt = data_uri(picture.figure), html.escape(picture.alt)
    return (
        f'<figure id="{html.escape(picture.name)}"><div class="wide" role="region" aria-label="Figure" tabindex="0">'
        f'<img src="{source}" width="{width}" height="{height}" alt="{alt}"></div>'
        f"<figcaption>{html.escape(picture.caption)}</figcaption></figure>"
    )


def grid_table(grid: Grid) -> str:
    """A small table; every text is escaped."""
    marks = [' class="text"' if place < grid.texts else "" for place in range(len(grid.header))]
    head = "".join(
        f'<th scope="col"{mark}>{html.escape(name)}</th>' for name, mark in zip(grid.header, marks, strict=True)
    )
    tones = grid.tones or [""] * len(grid.body)
    body = [
        f"<tr>{''.join(_entry(grid, i, entry, tone) for i, entry in enumerate(line))}</tr>"
        for line, tone in zip(grid.body, tones, strict=True)
    ]
    caption = f"<caption>{html.escape(grid.caption)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(body) + "\n</tbody></table>"


def _entry(grid: Grid, place: int, entry: str, tone: str) -> str:
    if place == 0:
        return f'<th scope="row">{html.escape(entry)}</th>'
    kinds = ["text"] * (place < grid.texts) + ["said"] * (len(entry) > SAID)
    kinds += [tone] * (place == grid.judged and bool(tone))
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<td{kind}>{html.escape(entry)}</td>"


def write_report(report: Report, folder: Path, *, figures: bool = False) -> Path:
    """Writes `index.html` and, on request, each figure as PNG and PDF beside it; returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for picture in report.pictures if figures else ():
        for suffix in ("png", "pdf"):
            save(picture.figure, folder / f"{picture.name}.{suffix}")
    target, aside = folder / "index.html", folder / ".index.html.part"
    aside.write_text(page(report), encoding="utf8")
    return aside.replace(target)
