"""Renders a table's verdicts and the order of its rows as lines of text."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from analysis.answers.judge import Verdicts
from analysis.render.signs import GLYPHS, count_word
from analysis.tables.aggregate import Table
from analysis.tables.labels import MINUTE, duration, label, number_of, some
from analysis.tables.ordering import ORDER_LEVEL, Ordering, PairDifference

LACKING_SHOWN = 2
"""Number of reasons given in full why rows are not compared by sentence pairs."""
PAIRS_SHOWN = 8
"""Number of pairs of rows that a line names."""


def headline(table: Table, verdicts: Verdicts, *, same_scale: bool, seconds: float | None = None) -> str:
    """Returns a sentence such as `E7: 1 same direction, 2 ties, 4 undecided (about 5 more seeds would settle them,
    40 min); not the paper's scale`; empty where nothing was judged.

    `seconds` is the duration of a run. A table without signal says so after its counts.
    """
    counts = Counter(verdict.word for verdict in verdicts.values() if verdict.word != "reference")
    places = {word: place for place, word in enumerate(GLYPHS)}
    words = sorted(counts, key=lambda word: (places.get(word, len(places)), word))
    price = {"undecided": _price(verdicts, seconds)}
    counts_text = ", ".join(f"{count_word(w, counts[w])}{price.get(w, '')}" for w in words)
    reason = f"; {table.no_signal}" if counts["no signal"] and table.no_signal else ""
    scale = "" if same_scale else "; not the paper's scale"
    return f"{table.spec.id}: {counts_text}{reason}{scale}" if counts_text else ""


def _price(verdicts: Verdicts, seconds: float | None) -> str:
    """Returns the cost of deciding undecided values, where known: seeds of their rows, and as many of the reference
    row.

    A row's seeds count in all its columns.
    """
    undecided = {place: verdict for place, verdict in verdicts.items() if verdict.word == "undecided"}
    more_seeds: dict[int, int] = {}
    for (row, _), verdict in undecided.items():
        more_seeds[row] = max(more_seeds.get(row, 0), verdict.more_seeds or 0)
    largest = max(more_seeds.values(), default=0)
    if not largest:
        return ""
    priced = sum(verdict.more_seeds is not None for verdict in undecided.values())
    object_text = "them" if priced == len(undecided) else f"{priced:,}"
    runs = sum(more_seeds.values()) + largest
    time = f", {duration(MINUTE * math.ceil(runs * seconds / MINUTE))}" if seconds else ""
    return f" (about {number_of(largest, 'more seed')} would settle {object_text}{time})"


def add_summary(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> Table:
    """Returns the table with notes added for each column: counts of verdicts, and the verdict on its order."""
    columns: dict[str, Counter[str]] = {}
    for (_, column), verdict in (verdicts or {}).items():
        columns.setdefault(column, Counter())[verdict.word] += 1
    lines = [
        f"{column}: " + ", ".join(f"{number} {word}" for word, number in words.items())
        for column, words in columns.items()
    ]
    return replace(
        table, notes=[*table.notes, *lines, *(f"{order.column}: {_order(order)}" for order in ordering or ())]
    )


def order_lines(table: Table, ordering: Sequence[Ordering]) -> list[str]:
    """Returns lines on the order of rows in each column."""
    names = [label(row.key) for row in table.rows]
    return [f"{order.column}: {line}" for order in ordering for line in order_said(order, names)]


def order_said(order: Ordering, names: Sequence[str]) -> list[str]:
    """Returns lines on one column's order of rows: verdict and reason, agreement of seeds, differing pairs."""
    return [_order(order), *_agreement(order), *_pairs(order, names)]


def _order(order: Ordering) -> str:
    return f"{order.word}; {order.reason}"


def _agreement(order: Ordering) -> list[str]:
    agreement = order.agreement
    if agreement is None:
        return []
    ranking = f"{agreement.seeds} seeds rank {agreement.rows} rows alike with W {agreement.w:.2f}"
    scale = f"1: every seed the same order; rows shuffled within each seed reach it with p {agreement.p:.2g}"
    return [f"{ranking} ({scale}); over seeds, two rows correlate by rho {agreement.rho:.2f}"]


def _pairs(order: Ordering, names: Sequence[str]) -> list[str]:
    """Returns a line on the pairs of rows that differ or, where those are many and the majority, on the other pairs.

    JSON has all pairs.
    """
    different = [pair for pair in order.pairs if pair.differs]
    similar = [pair for pair in order.pairs if not pair.differs]
    summary = f"{len(different)} of {len(order.pairs)} pairs of rows differ on resampled sentence pairs"
    summary += f" (these runs' mean over seeds, Holm at {ORDER_LEVEL:g})"
    if len(different) <= max(PAIRS_SHOWN, len(similar)):
        examples = some([_describe_pair(pair, names) for pair in different], PAIRS_SHOWN, "; ")
    else:
        examples = some([f"{names[pair.left]} and {names[pair.right]}" for pair in similar], PAIRS_SHOWN, "; ")
        examples = f"not told apart: {examples}" if similar else ""
    compared = [summary + (f": {examples}" if examples else "")]
    left_out = [f"not compared by sentence pairs: {some(order.lacking, LACKING_SHOWN, '; ')}"]
    return [*(compared if order.pairs else []), *(left_out if order.lacking else [])]


def _describe_pair(pair: PairDifference, names: Sequence[str]) -> str:
    side = "above" if pair.difference > 0 else "below"
    return f"{names[pair.left]} {side} {names[pair.right]} by {abs(pair.difference):.2f} (p {pair.corrected:.2g})"
