"""The wall: a card for every table, grouped by paper, under one sentence and a banner on the scale."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.render.signs import GLYPHS, count_word, name_several
from analysis.render.templates import fill, own
from analysis.report.facts import slug
from analysis.tables.aggregate import Table
from analysis.tables.labels import duration, number_of, some
from analysis.tables.verdict import Verdicts
from cse.site.citation import Citation, read
from cse.site.content import Scale, Sheet, SheetState, Site, counts, tone

SCALES_SHOWN = 2
"""Scales of a table that have a strip on its card; the page has all."""
WIDE_TABLE = 16
"""Glyphs of a line up to which they have room."""
ORDER_TONES = {"ordering supported": "good", "not supported": "bad", "undecided": "open", "no signal": "grey"}


@dataclass(frozen=True)
class Strip:
    """A glyph for every published value in the shape of the table, its longer side across."""

    lines: Sequence[Sequence[str]]
    """Verdicts' words; none where the paper prints no value."""
    said: str
    is_roomy: bool


@dataclass(frozen=True)
class Badge:
    """A few words in a colour, or in none."""

    tone: str
    text: str


@dataclass(frozen=True)
class CardScale:
    """A table as it was run at one scale, or without a run; no strip where it has no value to compare."""

    strip: Strip | None
    badges: Sequence[Badge] = ()


@dataclass(frozen=True)
class Card:
    """One table."""

    sheet: Sheet
    title: str
    """Without the paper's name, under which the card stands."""
    facts: Mapping[str, str]
    """Name of a filter -> the values by which it shows the card."""
    scales: Sequence[CardScale]
    others: str
    """The scales for which there is no room or nothing to compare."""
    lacking: str
    """The first missing input, without the hint behind it."""


@dataclass(frozen=True)
class PaperCards:
    """A paper with its tables."""

    id: str
    cite: Citation
    cards: Sequence[Card]


def wall(site: Site) -> str:
    """index.html; equal sites give equal text."""
    papers = []
    for text, sheets in site.papers.items():
        cite = read(text, sheets[0].source)
        id = slug(cite.name)
        papers.append(PaperCards(id, cite, [_card(sheet, id) for sheet in sheets]))
    script = own("cse/site/wall.js")
    return fill(
        "cse/site/wall.html",
        sentence=sentence(site),
        verdicts=counts(site.published),
        banner=banner(site),
        papers=papers,
        ours=[_card(sheet, "beyond") for sheet in site.ours],
        choices=_choices(site, [paper.cite for paper in papers]),
        sources=", ".join(site.sources),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        tone=tone,
        of_several=name_several,
    )


def sentence(site: Site) -> str:
    """What all verdicts say together."""
    said = counts(site.published)
    open_ones = {"not run", "reference"}
    decided = ", ".join(count_word(word, n) for word, n in said.items() if word not in open_ones)
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


def _choices(site: Site, cites: Sequence[Citation]) -> Mapping[str, Mapping[str, str]]:
    """Name of a filter -> {value: what it is called}."""
    sheets = site.published
    return {
        "paper": {slug(cite.name): cite.name for cite in cites},
        "method": {name: name for name in sorted({name for sheet in sheets for name in sheet.methods})},
        "metric": {name: name for name in sorted({name for sheet in sheets for name in sheet.suites})},
        "verdict": {slug(word): word for word in counts(sheets)},
        "state": {slug(state): state for state in SheetState if any(sheet.state == state for sheet in sheets)},
    }


def _card(sheet: Sheet, paper: str) -> Card:
    facts = {
        "paper": paper,
        "method": " ".join(sheet.methods),
        "metric": " ".join(sheet.suites),
        "verdict": " ".join(slug(word) for word in dict.fromkeys(v.word for v in sheet.verdicts.values())),
        "state": slug(sheet.state),
    }
    shown = [scale for scale in sheet.scales if scale.compared][:SCALES_SHOWN] or list(sheet.scales[:1])
    others = [f"{scale.title} ({number_of(scale.spent.runs, 'run')})" for scale in sheet.scales if scale not in shown]
    scales = [CardScale(_strip(sheet, scale.table, scale.verdicts), _badges(sheet, scale)) for scale in shown]
    more = f" and {len(sheet.lacking) - 1} more" if len(sheet.lacking) > 1 else ""
    name = read(sheet.citation, sheet.source).name if sheet.citation else ""
    title = sheet.title.removeprefix(f"{name}: ")
    return Card(
        sheet,
        title[:1].upper() + title[1:],
        facts,
        scales or [CardScale(_strip(sheet, sheet.layout, sheet.verdicts))],
        some(others, 1) if others else "",
        f"{sheet.lacking[0].partition(';')[0]}{more}" if sheet.lacking else "",
    )


def _badges(sheet: Sheet, scale: Scale) -> list[Badge]:
    order = next((order for order in scale.ordering if order.tau is not None), None)
    is_counted = scale is sheet.main and len(sheet.scales) > 1
    badges = [Badge("", f"counted: {scale.title}" if is_counted else scale.title)]
    if order is not None:
        text = f"order {order.word.replace('ordering ', '')}, τ {order.tau:.2f}".replace("-", "−")
        badges.append(Badge(ORDER_TONES[order.word], text))
    facts = number_of(scale.seeds, "seed"), number_of(scale.spent.runs, "run"), duration(scale.spent.seconds)
    return [*badges, *(Badge("", fact) for fact in facts)]


def _strip(sheet: Sheet, table: Table, verdicts: Verdicts) -> Strip | None:
    """None where nothing was judged."""
    if not verdicts:
        return None
    judged = {index for index, _ in verdicts}
    rows = [index for index in sheet.order(table) if index in judged]
    named = [column for column in table.spec.columns if any(name == column for _, name in verdicts)]
    places = [[(row, column) for column in named] for row in rows]
    if len(named) <= len(rows):
        places = [[(row, column) for row in rows] for column in named]
    lines = [[verdicts[place].word if place in verdicts else "" for place in line] for line in places]
    words = [verdict.word for verdict in verdicts.values()]
    said = ", ".join(count_word(word, words.count(word)) for word in GLYPHS if word in words)
    return Strip(lines, said, max(len(rows), len(named)) <= WIDE_TABLE)
