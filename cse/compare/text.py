"""Two models side by side in words: for a terminal, as Markdown, and as a table of the registry's formats."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from analysis.answers.models import Model
from analysis.render.formats import render
from analysis.render.markup import MARKDOWN
from analysis.render.markup import align_table as markdown
from analysis.render.signs import sign_word
from analysis.render.verdicts import LACKING_SHOWN
from analysis.statistics.basics import sureness
from analysis.statistics.needed import MOST_SEEDS_NEEDED
from analysis.tables.aggregate import Row, Table
from analysis.tables.columns import Interval
from analysis.tables.directions import Terms
from analysis.tables.labels import number_of
from analysis.tables.spec import TableSpec
from cse.cli import screen
from cse.compare.by_pairs import Disagreement, PairComparison
from cse.compare.by_queries import QueryComparison, QueryDifference
from cse.compare.by_seeds import ColumnComparison, side_with_seeds
from cse.compare.facts import column_dict, frame_of, model_dict, pairs_dict, queries_dict
from cse.compare.gathered import Gathered
from cse_train.evaluate.pairs import Pairs
from cse_train.reading import plain_text

if TYPE_CHECKING:
    import pandas as pd

WIDE_TERMINAL = 100
"""Columns of a terminal that has room for the last column."""
TEXT = 160
"""Characters shown of a text."""
SEEDS_ALONE = "One seed on a side: only the {} speaks, and it does not cover other seeds."
NOTHING_SPEAKS = SEEDS_ALONE.format("bootstrap over sentence pairs").replace("only", "no cosines are kept, so not even")


@dataclass(frozen=True)
class Comparison:
    """Two models, what they have in common, and what is said of it."""

    left: Model
    right: Model
    terms: Terms
    gathered: Gathered
    columns: Sequence[ColumnComparison]
    pairs: Sequence[PairComparison]
    texts: Mapping[str, Pairs]
    """Column -> the set's texts, where they are at hand."""
    queries: Sequence[QueryComparison] = ()
    asked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Column -> the set's queries, where they are at hand."""
    also: Sequence["Comparison"] = ()
    """A against further models, at the same share of the level."""

    def notes(self) -> list[str]:
        """What holds for all numbers, for people."""
        share = self.terms.share(1, len(self.columns))
        tie = f"that of a tie is the {sureness(2 * share)} one, and within ±{self.terms.margin:g} points"
        sure = f"{sureness(share)} intervals; {tie}"
        shared = ", which the columns share" if len(self.columns) > 1 else ""
        lines = [f"{sure}; any word is wrong at most {100 * self.terms.family:.4g}% of the time{shared}"]
        alone = {side_with_seeds(column.left, column.right) for column in self.columns if column.interval} - {""}
        lines += [f"intervals over seeds are those of {side}'s; the other side is taken as it is" for side in alone]
        if any(column.interval is None and min(column.left.n, column.right.n) < 2 for column in self.columns):
            spoken = {"bootstrap over sentence pairs": self.pairs, "interval over queries": self.queries}
            what = " and the ".join(name for name, made in spoken.items() if made)
            lines.append(SEEDS_ALONE.format(what) if what else NOTHING_SPEAKS)
        unread = self.gathered.unread
        more = f"; and {len(unread) - LACKING_SHOWN} more like these" if len(unread) > LACKING_SHOWN else ""
        aside = (
            [f"not compared by sentence pairs or queries: {'; '.join(unread[:LACKING_SHOWN])}{more}"] if unread else []
        )
        every = 100 * self.terms.family * (1 + len(self.also))
        all_of = [
            f"with {1 + len(self.also)} models compared, any word of all is wrong at most {every:.4g}% of the time"
        ]
        of_columns = [*no_ties(self.columns), *tell_uneven(self.columns)]
        return [*lines, *all_of[: len(self.also)], *of_columns, *self.gathered.notes, *aside]

    def as_dict(self) -> dict[str, object]:
        """What `cse compare --format json` prints."""
        apart = self.gathered.difference_line()
        return {
            **({"differing": apart} if apart else {}),
            "A": model_dict(self.left),
            "B": model_dict(self.right),
            "margin": self.terms.margin,
            "level": self.terms.family,
            "columns": [column_dict(column) for column in self.columns],
            "settings": [asdict(setting) for setting in self.gathered.differing],
            "pairs": [pairs_dict(pairs, self.texts.get(pairs.column)) for pairs in self.pairs],
            "queries": [queries_dict(queries, self.asked.get(queries.column)) for queries in self.queries],
            "notes": [*self.gathered.notes, *self.gathered.unread],
            "also": [each.as_dict() for each in self.also],
        }

    def to_frame(self) -> "pd.DataFrame":
        """A line for each column: `cse.compare.facts.frame_of` says what stands in it."""
        return frame_of(self.columns)

    def __str__(self) -> str:
        return text(self, None)

    def _repr_html_(self) -> str:
        return render(table(self), "html")


def word_with_count(word: str, others: str) -> str:
    """The word; of what is better or worse also how many settings differ that nobody asked about."""
    return word + others if word in ("better", "worse") else word


def tell_uneven(columns: Sequence[ColumnComparison]) -> list[str]:
    """A line for columns whose means stand on other seeds than their difference, which is not that of the means."""
    by_counts: dict[tuple[int, int, int], list[str]] = {}
    for column in columns:
        if column.common and column.common < max(column.left.n, column.right.n):
            by_counts.setdefault((column.common, column.left.n, column.right.n), []).append(column.column)
    return [
        f"A - B of {', '.join(names)} is over the {number_of(common, 'seed')} that both have; "
        f"A's mean is over {left}, B's over {right}"
        for (common, left, right), names in by_counts.items()
    ]


def no_ties(columns: Sequence[ColumnComparison]) -> list[str]:
    """A line on the columns whose range is not known."""
    unknown = [column.column for column in columns if not column.point]
    if not unknown:
        return []
    how = " ".join(f"--scale {name}=1" for name in unknown)
    return [f"no tie is told in {', '.join(unknown)}, whose range is not known: give {how}, or how wide it is"]


SEEDS_HEAD = ["column", "A", "B", "A - B", "interval", "seeds", "A is", "needs"]


def text(made: Comparison, width: int | None) -> str:
    """All of it, for a terminal of this width or as Markdown."""
    bold: Callable[[str], str] = screen.bold if width else (lambda text: f"**{MARKDOWN.escape(text)}**")
    apart, others = made.gathered.difference_line(), made.gathered.others()
    parts = [_bullets([f"A: {_who(made.left)}", f"B: {_who(made.right)}", *([apart] if apart else [])], width)]
    rows = [_row(column) for column in made.columns]
    parts += [_part(SEEDS_HEAD, rows, [i in (1, 2, 3) for i in range(len(SEEDS_HEAD))], width)]
    parts.append(
        _bullets(
            [f"{column.column}: {word_with_count(column.word, others)}; {column.reason}" for column in made.columns],
            width,
        )
    )
    if made.pairs:
        parts.append(bold("Sentence pairs: these runs on other sentences"))
        parts.append(_items("pairs", [(pairs, pairs.pairs) for pairs in made.pairs], width))
    for pairs in made.pairs:
        if pairs.disagreements:
            parts.append(bold(f"Ranked most differently in {pairs.column} (of {pairs.pairs}; 1 is least similar)"))
            texts = made.texts.get(pairs.column)
            parts.append(_bullets([_disagreement(pair, texts) for pair in pairs.disagreements], width))
    if made.queries:
        parts.append(bold("Queries: these runs on other queries"))
        parts.append(_items("queries", [(each, each.queries) for each in made.queries], width))
    first = {each.column.partition(":")[0]: each for each in reversed(made.queries)}
    for each in reversed(first.values()):  # the other metrics of a set list much the same queries
        if each.apart:
            parts.append(bold(f"Queries of {each.column} on which they differ most (of {each.queries})"))
            asked = made.asked.get(each.column)
            parts.append(_bullets([_tell_query(query, asked) for query in each.apart], width))
    lacking = [p.column for p in made.pairs if p.disagreements and p.column not in made.texts]
    more = [f"texts of {', '.join(lacking)} are not at hand: give --data"] if lacking else []
    return "\n\n".join([*parts, _bullets([*made.notes(), *more], width), *(text(each, width) for each in made.also)])


def _part(head: list[str], rows: list[list[str]], right: list[bool], width: int | None) -> str:
    if width is None:
        escaped = [[MARKDOWN.escape(entry) for entry in row] for row in rows]
        return markdown(head, [[sign_word(entry) for entry in row] for row in escaped], 1)
    last = head.index("A is")
    body: list[list[screen.Entry]] = [[*row[:last], screen.colour_word(row[last]), *row[last + 1 :]] for row in rows]
    narrow = width < WIDE_TERMINAL and head[-1] == "needs"  # the lines below say it too
    shown = slice(None, -1 if narrow else None)
    return screen.fit_table(head[shown], [row[shown] for row in body], right[shown], width)


def _bullets(lines: Sequence[str], width: int | None) -> str:
    plain = [f"- {plain_text(line)}" for line in lines]
    return "\n".join(screen.prose(line, indent="  ") if width else f"- {MARKDOWN.escape(line[2:])}" for line in plain)


def _who(model: Model) -> str:
    if model.pooler is not None:
        return model.label
    if len(model.folders) > 1:
        return f"{model.label} ({len(model.folders)} folders, each taken for a seed)"
    if model.folder is not None:
        return f"{model.label} (a folder, no seeds)"
    seeds = f"seed{'s' * (len(model.seeds) > 1)} {', '.join(map(str, model.seeds))}"
    return f"{model.label} ({seeds})"


def _row(column: ColumnComparison) -> list[str]:
    sides = [f"{side.mean:.{column.digits}f}" for side in (column.left, column.right)]
    spreads = ["" if side.sd is None else f" ± {side.sd:.{column.digits}f}" for side in (column.left, column.right)]
    return [
        column.column,
        *(mean + spread for mean, spread in zip(sides, spreads, strict=True)),
        sign_number(column.difference, column.digits),
        _sure_interval(column.interval, column.digits, column.level),
        str(column.common) if column.common else f"{column.left.n}/{column.right.n}",
        column.word,
        needs_text(column),
    ]


def needs_text(column: ColumnComparison) -> str:
    """Seeds of each side that would decide it; empty for what is decided, and beside one folder, which has none."""
    alone = any(side.n == 1 and side.seeds[0] < 0 for side in (column.left, column.right))
    if column.word != "undecided" or alone:
        return ""
    return f"{column.seeds_needed} seeds" if column.seeds_needed else f"over {MOST_SEEDS_NEEDED} seeds"


def _items(what: str, counted: Sequence[tuple[PairComparison | QueryComparison, int]], width: int | None) -> str:
    """A line for each set with its number of pairs or queries."""
    head = ["set", what, "A", "B", "A - B", "interval", "A is"]
    rows = []
    for made, count in counted:
        numbers = [f"{made.left:.2f}", f"{made.right:.2f}", sign_number(made.difference, 2)]
        rows.append([made.column, str(count), *numbers, _sure_interval(made.interval, 2, made.level), made.word])
    return _part(head, rows, [i in (1, 2, 3, 4) for i in range(len(head))], width)


def sign_number(value: float, digits: int) -> str:
    """With its sign, and never -0."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def interval_text(interval: Interval | None, digits: int) -> str:
    """`+0.35 to +3.33`; a dash where no seeds tell."""
    return "-" if interval is None else " to ".join(sign_number(end, digits) for end in interval)


def _sure_interval(interval: Interval | None, digits: int, level: float) -> str:
    """`+0.35 to +3.33 (95%)`."""
    return interval_text(interval, digits) + ("" if interval is None else f" ({sureness(level)})")


def _disagreement(pair: Disagreement, texts: Pairs | None) -> str:
    ranks = f"A {pair.left_rank:.0f}, B {pair.right_rank:.0f}; grade {pair.grade:g} (rank {pair.grade_rank:.0f})"
    said = f"pair {pair.index}: {ranks}; nearer: {pair.nearer}"
    if texts is None:
        return said
    return f"{said}: {_short(texts.left[pair.index])} | {_short(texts.right[pair.index])}"


def _tell_query(query: QueryDifference, texts: Sequence[str] | None) -> str:
    said = f"query {query.index}: A {query.left:.2f}, B {query.right:.2f}"
    return said if texts is None else f"{said}: {_short(texts[query.index])}"


def _short(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def table(first: Comparison) -> Table:
    """As a table of the registry's formats: a row for each column, A and B beside each other; further models below."""
    rows, words, every = list[Row](), list[str](), [first, *first.also]
    for made in every:
        others, right = made.gathered.others(), {"against": made.right.label} if first.also else {}
        for column in made.columns:
            shown = _row(column)
            key = right | {"column": shown[0], "A - B": shown[3], "interval": shown[4]}
            key |= {"A is": word_with_count(shown[6], others)}
            rows.append(Row(key, {"A": column.left, "B": column.right}))
        words += [*_item_words(made), *made.notes()]
    against = " and ".join(_who(made.right) for made in every)
    spec = TableSpec(id="comparison", title=f"{_who(first.left)} against {against}", axes=list(rows[0].key),
                     columns=["A", "B"], best="none")  # fmt: skip
    apart = "; ".join(filter(None, (made.gathered.difference_line() for made in every)))
    return Table(spec, rows, [], {}, list(dict.fromkeys(words)), apart=apart)


def _item_words(made: Comparison) -> list[str]:
    items: list[tuple[str, PairComparison | QueryComparison]] = [
        *(("on resampled sentence pairs", pairs) for pairs in made.pairs),
        *(("over queries", each) for each in made.queries),
    ]
    return [f"{p.column}: {what} {p.word}, {sign_number(p.difference, 2)}, "
            f"{sureness(p.level)} interval {interval_text(p.interval, 2)}" for what, p in items]  # fmt: skip
