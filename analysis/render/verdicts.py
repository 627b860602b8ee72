"""Verdicts and orderings as text and as plain data."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from analysis.render.markup import MARKDOWN, aligned
from analysis.tables.aggregate import Table
from analysis.tables.labels import axis_text, row_text
from analysis.tables.ordering import LEVEL, Ordering
from analysis.tables.verdict import Interval, Verdict, Verdicts


def markdown(table: Table, verdicts: Verdicts, ordering: Sequence[Ordering]) -> str:
    """What stands under a table: one line per verdict, then what is said of each column's order; empty for nothing."""
    axes = table.spec.axes
    header = [*map(MARKDOWN.escape, axes), "column", "verdict", "why"]
    body = [
        [
            *(MARKDOWN.escape(axis_text(table.rows[index].key[axis])) for axis in axes),
            *(MARKDOWN.escape(text) for text in (column, verdict.word, verdict.reason)),
        ]
        for (index, column), verdict in verdicts.items()
    ]
    parts = ["**Verdicts**", aligned(header, body, len(header))] if verdicts else []
    lines = [f"- {MARKDOWN.escape(line)}" for line in order_lines(table, ordering)]
    parts += ["**Order of the rows**", "\n".join(lines)] if lines else []
    return "\n\n".join(parts) + "\n" if parts else ""


def summary(table: Table, verdicts: Verdicts, ordering: Sequence[Ordering]) -> list[str]:
    """One line per column with its verdicts counted, then one per column with the word for its order."""
    counted: dict[str, Counter[str]] = {}
    for (_, column), verdict in verdicts.items():
        counted.setdefault(column, Counter())[verdict.word] += 1
    lines = [
        f"{column}: " + ", ".join(f"{number} {word}" for word, number in words.items())
        for column, words in counted.items()
    ]
    return [*lines, *(_order(one) for one in ordering)]


def order_lines(table: Table, ordering: Sequence[Ordering]) -> list[str]:
    """Of each column: the word and why, whether seeds agree, which pairs differ on other sentences, what is lacking."""
    return [line for one in ordering for line in (_order(one), *_agreement(one), *_pairs(table, one))]


def _order(one: Ordering) -> str:
    return f"{one.column}: {one.word}; {one.reason}"


def _agreement(one: Ordering) -> list[str]:
    found = one.agreement
    if found is None:
        return []
    said = f"{one.column}: {found.seeds} seeds rank {found.rows} rows alike with W {found.w:.2f}"
    return [f"{said} (1: every seed the same order; rows shuffled within each seed reach it with p {found.p:.2g})"]


def _pairs(table: Table, one: Ordering) -> list[str]:
    differing = [pair for pair in one.pairs if pair.differs]
    names = [row_text(row.key) for row in table.rows]
    listed = "; ".join(
        f"{names[pair.left]} {'above' if pair.difference > 0 else 'below'} {names[pair.right]} "
        f"by {abs(pair.difference):.2f} (p {pair.corrected:.2g})"
        for pair in differing
    )
    said = f"{one.column}: {len(differing)} of {len(one.pairs)} pairs of rows differ on resampled sentence pairs"
    counted = [f"{said} (these runs' mean over seeds, Holm at {LEVEL:g})" + (f": {listed}" if listed else "")]
    return [
        *(counted if one.pairs else []),
        *(f"{one.column}: not compared by sentence pairs: {x}" for x in one.lacking),
    ]


def as_dict(table: Table, verdicts: Verdicts, ordering: Sequence[Ordering]) -> dict[str, Any]:
    """Plain data: `verdicts` with the key of their row, `ordering` with every pair."""
    return {
        "verdicts": [
            {"key": table.rows[index].key, "column": column, **_verdict(verdict)}
            for (index, column), verdict in verdicts.items()
        ],
        "ordering": [_ordering(table, one) for one in ordering],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "word": verdict.word,
        "interval": _ends(verdict.interval),
        "published": verdict.published,
        "reason": verdict.reason,
    }


def _ordering(table: Table, one: Ordering) -> dict[str, Any]:
    return {
        "column": one.column,
        "word": one.word,
        "rows": one.rows,
        "tau": one.tau,
        "interval": _ends(one.interval),
        "reason": one.reason,
        "pairs": [
            {
                "rows": [table.rows[pair.left].key, table.rows[pair.right].key],
                "difference": pair.difference,
                "interval": _ends(pair.interval),
                "p": pair.p,
                "corrected": pair.corrected,
                "differs": pair.differs,
            }
            for pair in one.pairs
        ],
        "lacking": list(one.lacking),
        "agreement": None if one.agreement is None else asdict(one.agreement),
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)
