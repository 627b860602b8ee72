"""A report as one HTML page: nothing is fetched, nothing runs, every text is escaped."""

import html
from pathlib import Path

from analysis.figures.canvas import data_uri, save
from analysis.render.formats import render
from analysis.report.facts import Grid
from analysis.report.report import Picture, Report, Section

LONG = 60
"""Rows above which a table is folded."""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""The browser itself refuses scripts and addresses, whatever a text may hold."""
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --page: #fff; --stripe: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9da7b1; --line: #3d444d; --page: #0d1117; --stripe: #161b22; }
}
body { color: var(--ink); background: var(--page); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 60rem; padding: 1.5rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; font-size: .9rem; }
a { color: inherit; }
figure { margin: 1rem 0 1.6rem; break-inside: avoid; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 6px; padding: .5rem; box-sizing: border-box; }
figcaption, caption, .soft, ul { color: var(--soft); font-size: .88rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; margin: .6rem 0; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th[scope=row], td.text { text-align: left; font-weight: normal; overflow-wrap: anywhere; }
thead th { border-bottom: 2px solid var(--ink); }
tbody tr:nth-child(even) { background: var(--stripe); }
pre { background: var(--stripe); border: 1px solid var(--line); border-radius: 6px; padding: .8rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
@media print {
  :root { --ink: #000; --soft: #333; --line: #999; --page: #fff; --stripe: #f2f2f2; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  h2 { break-after: avoid; }
}
"""


def page(report: Report) -> str:
    """The whole page; equal reports give equal text."""
    ids = [f"s{number}" for number in range(len(report.sections))]
    links = [
        f'<li><a href="#{id}">{html.escape(section.heading)}</a></li>'
        for id, section in zip(ids, report.sections, strict=True)
    ]
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(report.title)}</title>",
        '<link rel="icon" href="data:,">',
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        f"<header><h1>{html.escape(report.title)}</h1>",
        f"<p>{html.escape(report.summary)}</p></header>",
        f'<nav aria-label="Sections"><ul>{"".join(links)}</ul></nav>',
        "<main>",
        *(_section(id, section) for id, section in zip(ids, report.sections, strict=True)),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _section(id: str, section: Section) -> str:
    parts = [f'<section aria-labelledby="{id}"><h2 id="{id}">{html.escape(section.heading)}</h2>']
    parts += [f"<p>{html.escape(text)}</p>" for text in section.texts]
    if section.table is not None:
        parts.append(_folded(f'<div class="wide">{render(section.table, "html")}</div>', len(section.table.rows)))
    parts += [_picture(picture) for picture in section.pictures]
    parts += [_folded(_grid(grid), len(grid.body)) for grid in section.grids]
    if section.code:
        parts.append(f"<pre><code>{html.escape(section.code)}</code></pre>")
    return "\n".join([*parts, "</section>"])


def _folded(text: str, rows: int) -> str:
    """Long tables open on a click."""
    return f"<details><summary>{rows} rows</summary>\n{text}\n</details>" if rows > LONG else text


def _picture(picture: Picture) -> str:
    width, height = (round(96 * inches) for inches in picture.figure.get_size_inches())
    source, alt = data_uri(picture.figure), html.escape(picture.alt)
    return (
        f'<figure id="{html.escape(picture.name)}"><img src="{source}" width="{width}" height="{height}" alt="{alt}">'
        f"<figcaption>{html.escape(picture.caption)}</figcaption></figure>"
    )


def _grid(grid: Grid) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in grid.header)
    body = [f"<tr>{''.join(_entry(grid, i, entry) for i, entry in enumerate(line))}</tr>" for line in grid.body]
    caption = f"<caption>{html.escape(grid.caption)}</caption>"
    return (
        f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(body)
        + "\n</tbody></table></div>"
    )


def _entry(grid: Grid, place: int, entry: str) -> str:
    if place == 0:
        return f'<th scope="row">{html.escape(entry)}</th>'
    kind = ' class="text"' if place < grid.texts else ""
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
