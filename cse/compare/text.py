"""A comparison of two models in words: for a terminal, as Markdown, and as a table in any of the table formats."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from analysis.answers.judge import Terms
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
from analysis.tables.labels import number_of
from analysis.tables.spec import TableSpec
from cse.cli import screen
from cse.compare.by_pairs import Disagreement, PairComparison
from cse.compare.by_queries import QueryComparison, QueryDifference
from cse.compare.by_seeds import ColumnAnswer
from cse.compare.common_columns import CommonColumns
from cse.compare.facts import frame_of, model_dict, pairs_dict, queries_dict
from cse_train.evaluate.pairs import Pairs
from cse_train.reading import plain_text

if TYPE_CHECKING:
    import pandas as pd

WIDE_TERMINAL = 100
"""Terminal width from which the last table column ("needs") is shown."""
TEXT = 160
"""Characters shown of a sentence or query."""
SEEDS_ALONE = "One seed on a side: only the {} speaks, and it does not cover other seeds."
NOTHING_SPEAKS = SEEDS_ALONE.format("bootstrap over sentence pairs").replace("only", "no cosines are kept, so not even")


@dataclass(frozen=True)
class Comparison:
    """Result of `cse compare`: two models, the columns they have in common, and a verdict for each column."""

    left: Model
    right: Model
    terms: Terms
    gathered: CommonColumns
    columns: Sequence[ColumnAnswer]
    pairs: Sequence[PairComparison]
    texts: Mapping[str, Pairs]
    """Column -> sentence pairs of its set, where the data are at hand."""
    queries: Sequence[QueryComparison] = ()
    asked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Column -> queries of its set, where the data are at hand."""
    also: Sequence["Comparison"] = ()
    """Comparisons of A with further models, each at the same share of the level."""

    def notes(self) -> list[str]:
        """Returns lines for people on the whole comparison: levels, what the intervals cover, and what is
        not compared."""
        share = self.terms.share(1, len(self.columns))
        tie = f"that of a tie is the {sureness(2 * share)} one, and within ±{self.terms.margin:g} points"
        sure = f"{sureness(share)} intervals; {tie}"
        shared = ", which the columns share" if len(self.columns) > 1 else ""
        lines = [f"{sure}; any word is wrong at most {100 * self.terms.family:.4g}% of the time{shared}"]
        sides = self.gathered.columns
        seeded_sides = {sides[column.column].seeded_side for column in self.columns if column.interval} - {""}
        lines += [
            f"intervals over seeds are those of {side}'s; the other side is taken as it is" for side in seeded_sides
        ]
        if any(column.interval is None and min(column.A.n, column.B.n) < 2 for column in self.columns):
            intervals = {"bootstrap over sentence pairs": self.pairs, "interval over queries": self.queries}
            interval_names = " and the ".join(name for name, comparisons in intervals.items() if comparisons)
            lines.append(SEEDS_ALONE.format(interval_names) if interval_names else NOTHING_SPEAKS)
        unread = self.gathered.unread
        more = f"; and {len(unread) - LACKING_SHOWN} more like these" if len(unread) > LACKING_SHOWN else ""
        missing = (
            [f"not compared by sentence pairs or queries: {'; '.join(unread[:LACKING_SHOWN])}{more}"] if unread else []
        )
        percent = 100 * self.terms.family * (1 + len(self.also))
        all_of = [
            f"with {1 + len(self.also)} models compared, any word of all is wrong at most {percent:.4g}% of the time"
        ]
        of_columns = [*no_ties(self.columns), *tell_uneven(self.columns)]
        return [*lines, *all_of[: len(self.also)], *of_columns, *self.gathered.notes, *missing]

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object that `cse compare --format json` prints."""
        differing = self.gathered.difference_line()
        return {
            **({"differing": differing} if differing else {}),
            "A": model_dict(self.left),
            "B": model_dict(self.right),
            "margin": self.terms.margin,
            "level": self.terms.family,
            "columns": [asdict(column) for column in self.columns],
            "settings": [asdict(setting) for setting in self.gathered.differing],
            "pairs": [pairs_dict(pairs, self.texts.get(pairs.column)) for pairs in self.pairs],
            "queries": [queries_dict(queries, self.asked.get(queries.column)) for queries in self.queries],
            "notes": [*self.gathered.notes, *self.gathered.unread],
            "also": [each.as_dict() for each in self.also],
        }

    def to_frame(self) -> "pd.DataFrame":
        """Returns a frame with a line for each column: `word` (the verdict), `difference` (A minus B), its interval
        `low` to `high`, `level` (how often the interval may miss), `common` seeds, and `n`, `mean` and `sd` of A and of
        B."""
        return frame_of(self.columns)

    def __str__(self) -> str:
        return text(self, None)

    def _repr_html_(self) -> str:
        return render(table(self), "html")


def word_with_count(word: str, others: str) -> str:
    """Returns the verdict; for better and worse, with the number of other settings that differ."""
    return word + others if word in ("better", "worse") else word


def tell_uneven(columns: Sequence[ColumnAnswer]) -> list[str]:
    """Returns a line for columns whose means cover other seeds than their difference, which is then not mean minus
    mean."""
    by_counts: dict[tuple[int, int, int], list[str]] = {}
    for column in columns:
        if column.common and column.common < max(column.A.n, column.B.n):
            by_counts.setdefault((column.common, column.A.n, column.B.n), []).append(column.column)
    return [
        f"A - B of {', '.join(names)} is over the {number_of(common, 'seed')} that both have; "
        f"A's mean is over {left}, B's over {right}"
        for (common, left, right), names in by_counts.items()
    ]


def no_ties(columns: Sequence[ColumnAnswer]) -> list[str]:
    """Returns a line on the columns whose range is unknown, in which no tie is possible; empty where all are known."""
    unknown = [column.column for column in columns if not column.point]
    if not unknown:
        return []
    flags = " ".join(f"--scale {name}=1" for name in unknown)
    return [f"no tie is told in {', '.join(unknown)}, whose range is not known: give {flags}, or how wide it is"]


SEEDS_HEAD = ["column", "A", "B", "A - B", "interval", "seeds", "A is", "needs"]


def text(comparison: Comparison, width: int | None) -> str:
    """Returns the whole comparison as text: for a terminal `width` characters wide, or as Markdown for None."""
    bold: Callable[[str], str] = screen.bold if width else (lambda text: f"**{MARKDOWN.escape(text)}**")
    differing, others = comparison.gathered.difference_line(), comparison.gathered.others()
    parts = [
        _bullets(
            [f"A: {_who(comparison.left)}", f"B: {_who(comparison.right)}", *([differing] if differing else [])], width
        )
    ]
    rows = [_row(column) for column in comparison.columns]
    parts += [_part(SEEDS_HEAD, rows, [i in (1, 2, 3) for i in range(len(SEEDS_HEAD))], width)]
    parts.append(
        _bullets(
            [
                f"{column.column}: {word_with_count(column.word, others)}; {column.reason}"
                for column in comparison.columns
            ],
            width,
        )
    )
    if comparison.pairs:
        parts.append(bold("Sentence pairs: these runs on other sentences"))
        parts.append(_items("pairs", [(pairs, pairs.pairs) for pairs in comparison.pairs], width))
    for pairs in comparison.pairs:
        if pairs.disagreements:
            parts.append(bold(f"Ranked most differently in {pairs.column} (of {pairs.pairs}; 1 is least similar)"))
            texts = comparison.texts.get(pairs.column)
            parts.append(_bullets([_disagreement(pair, texts) for pair in pairs.disagreements], width))
    if comparison.queries:
        parts.append(bold("Queries: these runs on other queries"))
        parts.append(_items("queries", [(each, each.queries) for each in comparison.queries], width))
    first = {each.column.partition(":")[0]: each for each in reversed(comparison.queries)}
    for each in reversed(first.values()):  # the other metrics of a set list much the same queries
        if each.apart:
            parts.append(bold(f"Queries of {each.column} on which they differ most (of {each.queries})"))
            query_texts = comparison.asked.get(each.column)
            parts.append(_bullets([_tell_query(query, query_texts) for query in each.apart], width))
    without_texts = [p.column for p in comparison.pairs if p.disagreements and p.column not in comparison.texts]
    more = [f"texts of {', '.join(without_texts)} are not at hand: give --data"] if without_texts else []
    return "\n\n".join(
        [*parts, _bullets([*comparison.notes(), *more], width), *(text(each, width) for each in comparison.also)]
    )


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


def _row(column: ColumnAnswer) -> list[str]:
    sides = [f"{side.mean:.{column.digits}f}" for side in (column.A, column.B)]
    spreads = ["" if side.sd is None else f" ± {side.sd:.{column.digits}f}" for side in (column.A, column.B)]
    return [
        column.column,
        *(mean + spread for mean, spread in zip(sides, spreads, strict=True)),
        sign_number(column.difference, column.digits),
        _sure_interval(column.interval, column.digits, column.level),
        str(column.common) if column.common else f"{column.A.n}/{column.B.n}",
        column.word,
        needs_text(column),
    ]


def needs_text(column: ColumnAnswer) -> str:
    """Returns how many seeds of each side would decide the column; "" if decided, and for a single folder, which has no
    seeds."""
    is_folder = any(side.n == 1 and not side.seeds for side in (column.A, column.B))
    if column.word != "undecided" or is_folder:
        return ""
    return f"{column.seeds_needed} seeds" if column.seeds_needed else f"over {MOST_SEEDS_NEEDED} seeds"


def _items(unit: str, counted: Sequence[tuple[PairComparison | QueryComparison, int]], width: int | None) -> str:
    """Returns a table with a line for each set, its number of sentence pairs or queries, and its verdict."""
    head = ["set", unit, "A", "B", "A - B", "interval", "A is"]
    rows = []
    for comparison, count in counted:
        numbers = [f"{comparison.left:.2f}", f"{comparison.right:.2f}", sign_number(comparison.difference, 2)]
        rows.append(
            [
                comparison.column,
                str(count),
                *numbers,
                _sure_interval(comparison.interval, 2, comparison.level),
                comparison.word,
            ]
        )
    return _part(head, rows, [i in (1, 2, 3, 4) for i in range(len(head))], width)


def sign_number(value: float, digits: int) -> str:
    """Returns the number with its sign; 0 is `+0`, never `-0`."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def interval_text(interval: Interval | None, digits: int) -> str:
    """Returns an interval such as `+0.35 to +3.33`; "-" for None."""
    return "-" if interval is None else " to ".join(sign_number(end, digits) for end in interval)


def _sure_interval(interval: Interval | None, digits: int, level: float) -> str:
    """Returns an interval with its coverage, such as `+0.35 to +3.33 (95%)`."""
    return interval_text(interval, digits) + ("" if interval is None else f" ({sureness(level)})")


def _disagreement(pair: Disagreement, texts: Pairs | None) -> str:
    ranks = f"A {pair.left_rank:.0f}, B {pair.right_rank:.0f}; grade {pair.grade:g} (rank {pair.grade_rank:.0f})"
    line = f"pair {pair.index}: {ranks}; nearer: {pair.nearer}"
    if texts is None:
        return line
    return f"{line}: {_short(texts.left[pair.index])} | {_short(texts.right[pair.index])}"


def _tell_query(query: QueryDifference, texts: Sequence[str] | None) -> str:
    line = f"query {query.index}: A {query.left:.2f}, B {query.right:.2f}"
    return line if texts is None else f"{line}: {_short(texts[query.index])}"


def _short(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def table(first: Comparison) -> Table:
    """Returns a table with a row for each column, A and B side by side; further models follow below."""
    rows, words, comparisons = list[Row](), list[str](), [first, *first.also]
    for comparison in comparisons:
        others, right = comparison.gathered.others(), {"against": comparison.right.label} if first.also else {}
        for column in comparison.columns:
            shown = _row(column)
            key = right | {"column": shown[0], "A - B": shown[3], "interval": shown[4]}
            key |= {"A is": word_with_count(shown[6], others)}
            sides = comparison.gathered.columns[column.column]
            rows.append(Row(key, {"A": sides.left, "B": sides.right}))
        words += [*_item_words(comparison), *comparison.notes()]
    against = " and ".join(_who(comparison.right) for comparison in comparisons)
    spec = TableSpec(id="comparison", title=f"{_who(first.left)} against {against}", axes=list(rows[0].key),
                     columns=["A", "B"], best="none")  # fmt: skip
    differing = "; ".join(filter(None, (comparison.gathered.difference_line() for comparison in comparisons)))
    return Table(spec, rows, [], {}, list(dict.fromkeys(words)), apart=differing)


def _item_words(comparison: Comparison) -> list[str]:
    items: list[tuple[str, PairComparison | QueryComparison]] = [
        *(("on resampled sentence pairs", pairs) for pairs in comparison.pairs),
        *(("over queries", each) for each in comparison.queries),
    ]
    return [f"{p.column}: {scope} {p.word}, {sign_number(p.difference, 2)}, "
            f"{sureness(p.level)} interval {interval_text(p.interval, 2)}" for scope, p in items]  # fmt: skip
