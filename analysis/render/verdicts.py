"""A table's verdicts and the order of its rows as lines of text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from analysis.render.signs import GLYPHS, PLURALS
from analysis.tables.aggregate import Table
from analysis.tables.labels import label
from analysis.tables.ordering import LEVEL, Ordering
from analysis.tables.verdict import Verdicts

LACKING = 2
"""Reasons that are given in full why rows are not compared by sentence pairs."""


def headline(table: Table, verdicts: Verdicts, *, same_scale: bool) -> str:
    """The sentence that stands first: `E7: 1 same direction, 2 ties, 4 undecided; not the paper's scale`; empty where
    nothing was judged."""
    counts = Counter(verdict.word for verdict in verdicts.values() if verdict.word != "reference")
    places = {word: place for place, word in enumerate(GLYPHS)}
    words = sorted(counts, key=lambda word: (places.get(word, len(places)), word))
    shown = ", ".join(f"{counts[w]} {w if counts[w] == 1 else PLURALS.get(w, w)}" for w in words)
    scale = "" if same_scale else "; not the paper's scale"
    return f"{table.spec.id}: {shown}{scale}" if shown else ""


def with_summary(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> Table:
    """The table with, among its notes, the verdicts of each column counted and the word for each column's order."""
    counted: dict[str, Counter[str]] = {}
    for (_, column), verdict in (verdicts or {}).items():
        counted.setdefault(column, Counter())[verdict.word] += 1
    lines = [
        f"{column}: " + ", ".join(f"{number} {word}" for word, number in words.items())
        for column, words in counted.items()
    ]
    return replace(table, notes=[*table.notes, *lines, *map(_order, ordering or ())])


def order_lines(table: Table, ordering: Sequence[Ordering]) -> list[str]:
    """Of each column: the word and why, whether seeds agree, which pairs differ on other sentences, what is lacking."""
    return [line for order in ordering for line in (_order(order), *_agreement(order), *_pairs(table, order))]


def _order(order: Ordering) -> str:
    return f"{order.column}: {order.word}; {order.reason}"


def _agreement(order: Ordering) -> list[str]:
    agreement = order.agreement
    if agreement is None:
        return []
    said = f"{order.column}: {agreement.seeds} seeds rank {agreement.rows} rows alike with W {agreement.w:.2f}"
    scale = f"1: every seed the same order; rows shuffled within each seed reach it with p {agreement.p:.2g}"
    return [f"{said} ({scale}); over seeds, two rows correlate by rho {agreement.rho:.2f}"]


def _pairs(table: Table, order: Ordering) -> list[str]:
    differing = [pair for pair in order.pairs if pair.differs]
    names = [label(row.key) for row in table.rows]
    listed = "; ".join(
        f"{names[pair.left]} {'above' if pair.difference > 0 else 'below'} {names[pair.right]} "
        f"by {abs(pair.difference):.2f} (p {pair.corrected:.2g})"
        for pair in differing
    )
    said = f"{order.column}: {len(differing)} of {len(order.pairs)} pairs of rows differ on resampled sentence pairs"
    counted = [f"{said} (these runs' mean over seeds, Holm at {LEVEL:g})" + (f": {listed}" if listed else "")]
    more = f" and {len(order.lacking) - LACKING} more like these" if len(order.lacking) > LACKING else ""
    lacking = [f"{order.column}: not compared by sentence pairs: {'; '.join(order.lacking[:LACKING])}{more}"]
    return [*(counted if order.pairs else []), *(lacking if order.lacking else [])]
