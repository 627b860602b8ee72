"""The wall: a card for every table, grouped by paper, under one sentence and a banner on the scale."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from analysis.render.signs import GLYPHS, counted, of_several
from analysis.report.facts import slug
from analysis.site.citation import Citation, read
from analysis.site.content import Scale, Sheet, SheetState, Site, counts, tone
from analysis.site.frame import framed
from analysis.tables.aggregate import Table
from analysis.tables.labels import duration, number_of, some
from analysis.tables.verdict import Verdicts

SHOWN = 2
"""Scales of a table that have a strip on its card; the page has all."""
WIDE = 16
"""Glyphs of a line up to which they have room."""
TITLE = "Published tables, run again"
ORDER_TONES = {"ordering supported": "good", "not supported": "bad", "undecided": "open", "no signal": "grey"}


def wall(site: Site) -> str:
    """index.html; equal sites give equal text."""
    papers = site.papers
    cites = {text: read(text, sheets[0].source) for text, sheets in papers.items()}
    links = "".join(
        f'<li><a href="#{slug(cites[text].name)}">{escape(cites[text].name)}</a> {len(sheets)}</li>'
        for text, sheets in papers.items()
    )
    links += f'<li><a href="#beyond">Beyond the papers</a> {len(site.ours)}</li>' if site.ours else ""
    body = [
        f'<header><p class="kicker">cse-search</p><h1>{TITLE}</h1>',
        f'<p class="headline">{escape(sentence(site))}</p>',
        _tally(counts(site.published)),
        f'<p class="banner" role="note">{escape(banner(site))}</p></header>',
        f'<nav aria-label="Papers"><ul>{links}</ul></nav>',
        _filters(site, cites),
        '<main id="main">',
        *(_paper(cites[text], sheets) for text, sheets in papers.items()),
        _beyond(site.ours),
        "</main>",
        _foot(site),
    ]
    return framed(f"{TITLE} · cse-search", "wall", "\n".join(part for part in body if part), script=True)


def sentence(site: Site) -> str:
    """What all verdicts say together."""
    said = counts(site.published)
    open_ones = {"not run", "reference"}
    decided = ", ".join(counted(word, n) for word, n in said.items() if word not in open_ones)
    run = sum(sheet.main is not None for sheet in site.published)
    tables = f"{len(site.published)} published tables of {len(site.papers)} papers, {run} with runs of ours"
    values = sum(n for word, n in said.items() if word != "reference")
    rest = f"{said.get('not run', 0):,} not run"
    words = ", ".join(part for part in (decided, rest) if part)
    return f"{tables}. Of {values:,} published values, each at the scale that decides most of its table: {words}."


def banner(site: Site) -> str:
    """At which scale the runs were made, and what that allows to say."""
    scales = [scale for sheet in site.published for scale in sheet.scales]
    if not scales:
        return "No run of these tables is in the files behind this page: every value stands as the paper prints it."
    small = sorted({scale.name.partition(",")[0] for scale in scales if not scale.same})
    if not small:
        return "Every run was made at its paper's own scale: values are compared with values."
    named = f"profile {small[0]} trains" if len(small) == 1 else f"profiles {' and '.join(small)} train"
    if any(scale.same for scale in scales):
        return f"Not all at the papers' scale: {named} a smaller model, and there directions are compared, not values."
    return (
        f"Not the papers' scale. No table was run at its paper's own settings: {named} a far smaller model. "
        "Directions are compared with the paper's, values are not."
    )


def _tally(said: Mapping[str, int]) -> str:
    items = [
        f'<li class="{tone(word)}"><span class="sign" aria-hidden="true">{GLYPHS[word]}</span> '
        f"<b>{number:,}</b> {escape(of_several(word, number))}</li>"
        for word, number in said.items()
    ]
    return f'<ul class="tally" aria-label="Verdicts on the wall">{"".join(items)}</ul>'


def _filters(site: Site, cites: Mapping[str, Citation]) -> str:
    sheets = site.published
    choices: Mapping[str, Mapping[str, str]] = {
        "paper": {slug(cite.name): cite.name for cite in cites.values()},
        "method": {name: name for name in sorted({name for sheet in sheets for name in sheet.methods})},
        "metric": {name: name for name in sorted({name for sheet in sheets for name in sheet.suites})},
        "verdict": {slug(word): word for word in counts(sheets)},
        "state": {slug(state): state for state in SheetState if any(sheet.state == state for sheet in sheets)},
    }
    fields = "".join(
        f'<label>{name} <select name="{name}"><option value="">all</option>'
        + "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options.items())
        + "</select></label>"
        for name, options in choices.items()
    )
    return (
        f'<form class="filters" hidden aria-label="Filters">{fields}<button type="reset">Show all</button>'
        '<output aria-live="polite"></output></form>'
    )


def _paper(cite: Citation, sheets: Sequence[Sheet]) -> str:
    id = slug(cite.name)
    links = " · ".join(f'<a href="{escape(to)}">{escape(name)}</a>' for name, to in cite.links.items())
    about = f'<p class="soft">{escape(cite.text)}{" · " if links else ""}{links}</p>'
    cards = "\n".join(_card(sheet, id) for sheet in sheets)
    return (
        f'<section class="paper" aria-labelledby="{id}"><h2 id="{id}">{escape(cite.name)}</h2>{about}\n'
        f'<div class="cards">\n{cards}\n</div></section>'
    )


def _beyond(sheets: Sequence[Sheet]) -> str:
    """Spaces of our own that have runs."""
    if not sheets:
        return ""
    cards = "\n".join(_card(sheet, "beyond") for sheet in sheets)
    about = '<p class="soft">Sweeps of spaces that print no paper\'s table: no verdict can be given on them.</p>'
    return (
        f'<section class="paper" aria-labelledby="beyond"><h2 id="beyond">Beyond the papers</h2>{about}\n'
        f'<div class="cards">\n{cards}\n</div></section>'
    )


def _card(sheet: Sheet, paper: str) -> str:
    facts = {
        "paper": [paper],
        "method": sheet.methods,
        "metric": sheet.suites,
        "verdict": [slug(word) for word in dict.fromkeys(v.word for v in sheet.verdicts.values())],
        "state": [slug(sheet.state)],
    }
    data = " ".join(f'data-{name}="{escape(" ".join(values))}"' for name, values in facts.items())
    where = " · ".join(part for part in (sheet.where, sheet.metric) if part)
    bodies = _scales(sheet) or [_strip_of(sheet, sheet.layout, sheet.verdicts)]
    warning = '<p class="badge bad">two scales contradict each other</p>' if sheet.contradictions else ""
    why = f'<p class="soft">{escape(_brief(sheet.lacking))}</p>' if sheet.state == SheetState.BLOCKED else ""
    return (
        f'<article class="card {slug(sheet.state)}" {data}>'
        f'<h3><a href="tables/{sheet.file}.html"><span class="id">{escape(sheet.id)}</span> '
        f"{escape(_short(sheet))}</a></h3>"
        f'<p class="state">{escape(_state(sheet))}</p>'
        f'<p class="where">{escape(where)}</p>{"".join(bodies)}{warning}{why}</article>'
    )


def _short(sheet: Sheet) -> str:
    """The title without the paper's name, under which the card stands."""
    name = read(sheet.citation, sheet.source).name if sheet.citation else ""
    short = sheet.title.removeprefix(f"{name}: ")
    return short[:1].upper() + short[1:]


def _state(sheet: Sheet) -> str:
    return "blocked: missing input" if sheet.state == SheetState.BLOCKED else sheet.state


def _brief(lines: Sequence[str]) -> str:
    """The first missing input, without the hint behind it."""
    more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
    return f"{lines[0].partition(';')[0]}{more}" if lines else ""


def _scales(sheet: Sheet) -> list[str]:
    """The scales that compare a value, and by name those for which there is no room or nothing to compare."""
    shown = [scale for scale in sheet.scales if scale.compared][:SHOWN] or list(sheet.scales[:1])
    others = [f"{scale.name} ({number_of(scale.spent.runs, 'run')})" for scale in sheet.scales if scale not in shown]
    bodies = [_scale(sheet, scale, alone=len(sheet.scales) == 1) for scale in shown]
    return [*bodies, f'<p class="soft">Also at {escape(some(others, 1))}.</p>'] if others else bodies


def _scale(sheet: Sheet, scale: Scale, *, alone: bool) -> str:
    order = next((order for order in scale.ordering if order.tau is not None), None)
    is_counted = scale is sheet.main and not alone
    badges = [("", f"counted: profile {scale.name}" if is_counted else f"profile {scale.name}")]
    if order is not None:
        colour = ORDER_TONES[order.word]
        badges.append((colour, f"order {order.word.replace('ordering ', '')}, τ {order.tau:.2f}".replace("-", "−")))
    badges += [("", number_of(scale.seeds, "seed")), ("", number_of(scale.spent.runs, "run"))]
    badges.append(("", duration(scale.spent.seconds)))
    shown = "".join(f'<li class="badge {colour}">{escape(text)}</li>' for colour, text in badges)
    drawn = _strip_of(sheet, scale.table, scale.verdicts)
    return f'{drawn}<ul class="badges">{shown}</ul>'


def _strip_of(sheet: Sheet, table: Table, verdicts: Verdicts) -> str:
    """The strip, or why there is none."""
    if verdicts:
        return strip(verdicts, sheet.order(table), table.spec.columns)
    if not sheet.citation:
        return ""
    others = "Every row is a model that nobody trains here." if sheet.layout.spec.references else ""
    return f'<p class="soft">{others or "The paper prints no number here."}</p>'


def strip(verdicts: Verdicts, order: Sequence[int], columns: Sequence[str]) -> str:
    """A glyph for every published value in the shape of the table, its longer side across."""
    judged = {index for index, _ in verdicts}
    rows = [index for index in order if index in judged]
    named = [column for column in columns if any(name == column for _, name in verdicts)]
    upright = len(named) > len(rows)
    lines: Iterable[list[tuple[int, str]]] = (
        [[(row, column) for column in named] for row in rows]
        if upright
        else [[(row, column) for row in rows] for column in named]
    )
    across = max(len(rows), len(named))
    drawn = "".join(f"<span>{''.join(_glyph(verdicts, place) for place in line)}</span>" for line in lines)
    said = [verdict.word for verdict in verdicts.values()]
    text = ", ".join(counted(w, said.count(w)) for w in GLYPHS if w in said)
    return f'<div class="strip{" roomy" * (across <= WIDE)}" role="img" aria-label="{escape(text)}">{drawn}</div>'


def _glyph(verdicts: Verdicts, place: tuple[int, str]) -> str:
    verdict = verdicts.get(place)
    if verdict is None:
        return "<i> </i>"
    colour = "ref" if verdict.word == "reference" else tone(verdict.word)
    return f"<i class={colour}>{GLYPHS[verdict.word]}</i>" if colour else f"<i>{GLYPHS[verdict.word]}</i>"


def _foot(site: Site) -> str:
    names = ", ".join(site.sources)
    return (
        f'<footer><p class="soft">Made by <code>cse site</code> from {escape(names)}. '
        '<a href="site.json">All of it as JSON</a>. Nothing on these pages is fetched from elsewhere.</p></footer>'
    )
