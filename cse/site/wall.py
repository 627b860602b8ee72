"""Overview page of the site: a card for every table, grouped by paper, under a summary and a banner on the scale."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.answers.judge import Verdicts
from analysis.render.signs import GLYPHS, count_word, name_several
from analysis.render.templates import fill, own
from analysis.report.facts import slug
from analysis.tables.aggregate import Table
from analysis.tables.labels import duration, number_of, some
from cse.site.citation import read
from cse.site.content import Scale, Sheet, SheetState, Site, counts, tone

SCALES_SHOWN = 2
"""Maximum number of scales that a table's card shows; its page has all of them."""
WIDE_TABLE = 16
"""Maximum number of glyphs in a line of a card."""
ORDER_TONES = {"ordering supported": "good", "not supported": "bad", "undecided": "open", "no signal": "grey"}


@dataclass(frozen=True)
class Strip:
    """Grid of glyphs, one for every published value, in the shape of the table; the longer side is horizontal."""

    lines: Sequence[Sequence[str]]
    """Verdict of each value; "" where the paper prints none."""
    said: str
    is_roomy: bool


@dataclass(frozen=True)
class Card:
    """Card of one table."""

    sheet: Sheet
    title: str
    """Title without the paper's name, which is above the cards."""
    facts: Mapping[str, str]
    """Filter -> values for which it shows the card."""
    scales: Sequence[tuple[Strip | None, Sequence[tuple[str, str]]]]
    """For each scale shown its glyphs, None if there is no value to compare, and badges: (colour class, text)."""
    others: str
    """Scales that the card has no room for, or that have nothing to compare."""
    lacking: str
    """First missing input, without its hint."""


def wall(site: Site) -> str:
    """Returns the HTML of index.html; equal sites give equal text."""
    papers = []
    for text, sheets in site.papers.items():
        cite = read(text, sheets[0].source)
        papers.append((slug(cite.name), cite, [_card(sheet, slug(cite.name)) for sheet in sheets]))
    published = site.published
    choices: Mapping[str, Mapping[str, str]] = {
        "paper": {id: cite.name for id, cite, _ in papers},
        "method": {name: name for name in sorted({name for sheet in published for name in sheet.methods})},
        "metric": {name: name for name in sorted({name for sheet in published for name in sheet.suites})},
        "verdict": {slug(word): word for word in counts(published)},
        "state": {slug(state): state for state in SheetState if any(sheet.state == state for sheet in published)},
    }
    script = own("cse/site/wall.js")
    return fill(
        "cse/site/wall.html",
        sentence=sentence(site),
        verdicts=counts(site.published),
        banner=banner(site),
        papers=papers,
        ours=[_card(sheet, "beyond") for sheet in site.ours],
        choices=choices,
        sources=", ".join(site.sources),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        tone=tone,
        of_several=name_several,
    )


def sentence(site: Site) -> str:
    """Returns the sentence that sums up all verdicts."""
    word_counts = counts(site.published)
    open_ones = {"not run", "reference"}
    decided = ", ".join(count_word(word, n) for word, n in word_counts.items() if word not in open_ones)
    run = sum(sheet.main is not None for sheet in site.published)
    tables = f"{len(site.published)} published tables of {len(site.papers)} papers, {run} with runs of ours"
    values = sum(n for word, n in word_counts.items() if word != "reference")
    not_run = f"{word_counts.get('not run', 0):,} not run"
    words = ", ".join(part for part in (decided, not_run) if part)
    return f"{tables}. Of {values:,} published values, each at the scale that decides most of its table: {words}."


def banner(site: Site) -> str:
    """Returns the banner on the scale of the runs, and on what may be compared at it."""
    scales = [scale for sheet in site.published for scale in sheet.scales]
    if not scales:
        return "No run of these tables is in the files behind this page: every value stands as the paper prints it."
    small = sorted({scale.name.partition(",")[0] for scale in scales if not scale.same})
    if not small:
        return "Every run was made at its paper's own scale: values are compared with values."
    profiles = f"profile {small[0]} trains" if len(small) == 1 else f"profiles {' and '.join(small)} train"
    if any(scale.same for scale in scales):
        return (
            f"Not all at the papers' scale: {profiles} a smaller model, and there directions are compared, not values."
        )
    return (
        f"Not the papers' scale. No table was run at its paper's own settings: {profiles} a far smaller model. "
        "Directions are compared with the paper's, values are not."
    )


def _card(sheet: Sheet, paper: str) -> Card:
    facts = {
        "paper": paper,
        "method": " ".join(sheet.methods),
        "metric": " ".join(sheet.suites),
        "verdict": " ".join(slug(word) for word in dict.fromkeys(v.word for v in sheet.verdicts.values())),
        "state": slug(sheet.state),
    }
    shown_scales = [scale for scale in sheet.scales if scale.compared][:SCALES_SHOWN] or list(sheet.scales[:1])
    others = [
        f"{scale.title} ({number_of(scale.spent.runs, 'run')})" for scale in sheet.scales if scale not in shown_scales
    ]
    scales = [(_strip(sheet, scale.table, scale.verdicts), _badges(sheet, scale)) for scale in shown_scales]
    more = f" and {len(sheet.lacking) - 1} more" if len(sheet.lacking) > 1 else ""
    name = read(sheet.citation, sheet.source).name if sheet.citation else ""
    title = sheet.title.removeprefix(f"{name}: ")
    return Card(
        sheet,
        title[:1].upper() + title[1:],
        facts,
        scales or [(_strip(sheet, sheet.layout, sheet.verdicts), ())],
        some(others, 1) if others else "",
        f"{sheet.lacking[0].partition(';')[0]}{more}" if sheet.lacking else "",
    )


def _badges(sheet: Sheet, scale: Scale) -> list[tuple[str, str]]:
    """Returns (colour class, text) of a scale's badges on the card."""
    is_counted = scale is sheet.main and len(sheet.scales) > 1
    badges = [("", f"counted: {scale.title}" if is_counted else scale.title)]
    if (order := next((order for order in scale.ordering if order.tau is not None), None)) is not None:
        text = f"order {order.word.replace('ordering ', '')}, τ {order.tau:.2f}".replace("-", "−")
        badges.append((ORDER_TONES[order.word], text))
    facts = number_of(scale.seeds, "seed"), number_of(scale.spent.runs, "run"), duration(scale.spent.seconds)
    return [*badges, *(("", fact) for fact in facts)]


def _strip(sheet: Sheet, table: Table, verdicts: Verdicts) -> Strip | None:
    """Returns the glyphs of a table; None where nothing was judged."""
    if not verdicts:
        return None
    judged = {index for index, _ in verdicts}
    rows = [index for index in sheet.order(table) if index in judged]
    columns = [column for column in table.spec.columns if any(name == column for _, name in verdicts)]
    places = [[(row, column) for column in columns] for row in rows]
    if len(columns) <= len(rows):
        places = [[(row, column) for row in rows] for column in columns]
    lines = [[verdicts[place].word if place in verdicts else "" for place in line] for line in places]
    words = [verdict.word for verdict in verdicts.values()]
    description = ", ".join(count_word(word, words.count(word)) for word in GLYPHS if word in words)
    return Strip(lines, description, max(len(rows), len(columns)) <= WIDE_TABLE)
