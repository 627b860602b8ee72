"""A table's page: its verdict first, the table as the paper prints it, pictures, and the runs behind every entry."""

from collections.abc import Sequence
from html import escape

from analysis.render.grid import difference_line, remark_lines
from analysis.render.verdicts import order_said
from analysis.report.page import boxed
from analysis.site.citation import Citation, read
from analysis.site.content import Scale, Sheet
from analysis.site.frame import framed
from analysis.site.grid import legend, sheet_table, toggles
from analysis.site.plots import of_columns
from analysis.site.runs import behind
from analysis.tables.labels import duration


def page(sheet: Sheet, before: Sheet | None, after: Sheet | None) -> str:
    """tables/ID.html; equal sheets give equal text."""
    cite = read(sheet.citation, sheet.source) if sheet.citation else None
    body = [
        _navigation(before, after),
        f"<header><h1>{escape(' · '.join(part for part in (sheet.id, sheet.title) if part))}</h1>",
        *_headlines(sheet),
        *_contradictions(sheet),
        _about(sheet, cite),
        "</header>",
        '<main id="main">',
        *(_scale(sheet, scale) for scale in sheet.scales),
        "" if sheet.scales else _printed(sheet),
        _lacking(sheet),
        _citing(sheet, cite),
        "</main>",
    ]
    return framed(f"{sheet.id} · {sheet.title}", "table", "\n".join(part for part in body if part))


def _navigation(before: Sheet | None, after: Sheet | None) -> str:
    links = ['<li><a href="../index.html">All tables</a></li>']
    links += [
        f'<li><a rel="{rel}" href="{sheet.file}.html">{arrow}</a></li>'
        for rel, sheet, arrow in (
            ("prev", before, f"← {escape(before.id)}" if before else ""),
            ("next", after, f"{escape(after.id)} →" if after else ""),
        )
        if sheet is not None
    ]
    return f'<nav aria-label="Tables"><ul>{"".join(links)}</ul></nav>'


def _headlines(sheet: Sheet) -> list[str]:
    """The verdicts counted: of the main scale in a sentence of its own, of the others in a list."""
    if not sheet.scales:
        return [f'<p class="headline">{escape(sheet.id)}: {sheet.state.text}</p>']
    said = [scale.headline.partition(": ")[2] or sheet.state.text for scale in sheet.scales]
    items = "".join(
        f'<li>at <a href="#{scale.file}">profile {escape(scale.name)}</a>: {escape(text.partition(";")[0])}</li>'
        for scale, text in zip(sheet.scales[1:], said[1:], strict=True)
    )
    more = [f'<ul class="soft" aria-label="Other scales">{items}</ul>'] if items else []
    first = f"{sheet.id} at profile {sheet.scales[0].name}: {said[0]}"
    return [f'<p class="headline">{escape(first)}</p>', *more]


def _contradictions(sheet: Sheet) -> list[str]:
    lines = sheet.contradictions
    if not lines:
        return []
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return [f'<div class="banner bad" role="note"><p>Two scales contradict each other:</p><ul>{items}</ul></div>']


def _about(sheet: Sheet, cite: Citation | None) -> str:
    if cite is None:
        return '<p class="soft">A space of our own: no paper prints this table.</p>'
    links = " · ".join(f'<a href="{escape(to)}">{escape(name)}</a>' for name, to in cite.links.items())
    return f'<p class="soft">{escape(cite.text)}, {escape(sheet.where)}. {links}</p>'


def _scale(sheet: Sheet, scale: Scale) -> str:
    """One section: the table, its pictures, the runs."""
    id = scale.file
    same = "The paper's own settings" if scale.same else "Not the paper's scale"
    same = same if sheet.citation else "No paper's table"
    facts = f"{same}; {scale.spent.runs} runs, {scale.seeds} seeds, {duration(scale.spent.seconds)} of runs in sum"
    if scale.unlike and sheet.citation:
        facts += f". Other than in the paper: {', '.join(scale.unlike)}"
    downloads = " · ".join(
        f'<a href="{file_name(sheet, scale, suffix)}" download>{suffix.upper()}</a>' for suffix in scale.files
    )
    pictures, runs = of_columns(sheet, scale), behind(sheet, scale)
    parts = [
        f'<section class="scale" aria-labelledby="{id}"><h2 id="{id}">Profile {escape(scale.name)}</h2>',
        f'<p class="soft">{escape(facts)}.</p>',
        f'<p class="soft">{escape(difference_line(scale.table))}.</p>' if scale.table.differing else "",
        toggles(id) if any(scale.verdicts) else "",
        boxed(sheet_table(sheet, scale.table, scale.verdicts, scale), 0, f"{sheet.id} at profile {scale.name}"),
        legend(scale.verdicts),
        f'<p class="downloads">Download: {downloads}</p>',
        f"<h3>Compared with the paper</h3>{pictures}" if pictures else "",
        _order(sheet, scale),
        f"<h3>Behind each row</h3>\n{runs}" if runs else "",
        _remarks(scale),
        f"<h3>Repeat the table</h3><pre><code>{escape(scale.study.command)}</code></pre>",
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _order(sheet: Sheet, scale: Scale) -> str:
    """A block for each column, of which a single one is open; empty where no column has an order to compare."""
    if all(order.tau is None for order in scale.ordering):
        return ""
    names = [sheet.row_name(row) for row in scale.table.rows]
    blocks = []
    for order in scale.ordering:
        first, *more = order_said(order, names)
        head = f"<summary><b>{escape(order.column)}</b> {escape(first)}</summary>"
        lines = "".join(f"<li>{escape(line)}</li>" for line in more)
        opened = " open" if len(scale.ordering) == 1 else ""
        blocks.append(f"<details{opened}>{head}<ul>{lines}</ul></details>")
    return "\n".join(["<h3>Order of the rows</h3>", *blocks])


def _remarks(scale: Scale) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in remark_lines(scale.table))
    return f"<h3>Notes</h3><ul>{lines}</ul>" if lines else ""


def _printed(sheet: Sheet) -> str:
    """The paper's numbers alone."""
    notes = "".join(f"<li>{escape(line)}</li>" for line in sheet.notes)
    table = boxed(sheet_table(sheet, sheet.layout, {}, None), 0, sheet.id)
    more = f"<ul>{notes}</ul>" if notes else ""
    return f'<section class="scale"><h2>As the paper prints it</h2>{table}{more}</section>'


def _lacking(sheet: Sheet) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in sheet.lacking)
    return f'<section class="lacking"><h2>Missing input</h2><ul>{items}</ul></section>' if items else ""


def _citing(sheet: Sheet, cite: Citation | None) -> str:
    if cite is None:
        return ""
    return (
        f"<section><h2>Cite the paper</h2><pre><code>{escape(cite.bibtex)}</code></pre>"
        f'<p class="downloads">Download: <a href="{sheet.file}.bib" download>BibTeX</a></p></section>'
    )


def file_name(sheet: Sheet, scale: Scale, suffix: str) -> str:
    """A download's name beside the page."""
    return f"{sheet.file}-{scale.file}.{suffix}"


def neighbours(sheets: Sequence[Sheet], place: int) -> tuple[Sheet | None, Sheet | None]:
    """The tables before and after one."""
    return (sheets[place - 1] if place else None), (sheets[place + 1] if place + 1 < len(sheets) else None)
