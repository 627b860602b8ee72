"""Compares two models over seeds and over items, and tells it as text, Markdown or a table."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from analysis.answers.judge import Terms
from analysis.answers.models import Model
from analysis.answers.picks import CandidatePool
from analysis.documents import HIDDEN, OPTIONAL, convert_row
from analysis.ledger import Ledger
from analysis.ledger.schema import digest
from analysis.render.formats import render
from analysis.render.markup import MARKDOWN
from analysis.render.markup import align_table as markdown
from analysis.render.signs import sign_word
from analysis.render.verdicts import LACKING_SHOWN
from analysis.statistics.basics import sureness
from analysis.statistics.needed import MOST_SEEDS_NEEDED
from analysis.tables.aggregate import Row, Table
from analysis.tables.columns import Interval, entry_of
from analysis.tables.labels import number_of
from analysis.tables.spec import SettingDifference, TableSpec
from cse.cli import screen
from cse.compare.answers import (
    ColumnAnswer,
    ModelAnswer,
    answer_columns,
    frame_of,
    interval_text,
    no_ties,
    sign_number,
    tell_failure_bounds,
    word_with_count,
)
from cse.compare.common_columns import CommonColumns, gather
from cse.compare.items import (
    Disagreement,
    PairComparison,
    QueryComparison,
    QueryDifference,
    compare_by_pairs,
    compare_by_queries,
)
from cse.compare.judgement import judge_question
from cse.compare.loop import Loop, LoopQuestion
from cse.compare.missing_scores import Scoring
from cse.compare.question import DifferenceOptions, ModelOptions
from cse_train.data_paths import DataPaths
from cse_train.evaluate.judgements import load_judgements
from cse_train.evaluate.pairs import load_pairs
from cse_train.fields import ConfigError
from cse_train.reading import plain_text

if TYPE_CHECKING:
    import pandas as pd

WIDE_TERMINAL = 100
"""Terminal width from which the table's columns "over" and "needs" are shown."""
TEXT = 160
"""Characters shown of a sentence or query."""
ONE_SEED_LINE = "One seed on a side: no interval covers other seeds; --over sentences judges these models as they are."
NO_ITEMS = "One seed on a side: no interval covers other seeds, and no single pair or query is kept."


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Result of `cse compare`: two models, the columns they have in common, and a word for each column."""

    differing: str = field(default="", metadata=OPTIONAL)
    """Line on settings in which A and B differ beyond those that were asked about."""
    A: ModelAnswer
    B: ModelAnswer
    margin: float
    """Half-width of a tie, in points."""
    level: float
    """Probability that any word of this comparison is wrong."""
    asked: LoopQuestion
    """Place of this comparison among the questions to the same held-out sets, of `cse gate` too."""
    columns: Sequence[ColumnAnswer]
    settings: Sequence[SettingDifference]
    """Settings of the line `differing`, with their values."""
    pairs: Sequence[PairComparison]
    queries: Sequence[QueryComparison]
    notes: Sequence[str]
    """Lines on columns, sentence pairs and queries that are not compared, and in what the models differ."""
    picked_of: CandidatePool | None
    """Sweep from whose cells A or B was picked, which share the level; null for no pick."""
    also: Sequence["Comparison"] = ()
    """Comparisons of A with further models, each at the same share of the level."""
    others: str = field(metadata=HIDDEN)
    """Suffix of better and worse: how many other settings differ."""
    remarks: Sequence[str] = field(metadata=HIDDEN)
    """Lines for people: levels, what the intervals cover, and what is not compared."""

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object that `cse compare --format json` prints."""
        return convert_row(self)

    def to_frame(self) -> "pd.DataFrame":
        """Returns a frame with a line for each column: `word` (the verdict), `difference` (A minus B), its interval
        `low` to `high`, `level` (how often the interval may miss), `scope`, `common` seeds, and `n`, `mean` and
        `sd` of A and of B."""
        return frame_of(self.columns)

    def __str__(self) -> str:
        return text(self, None)

    def _repr_html_(self) -> str:
        return render(table(self), "html")


def compare_models(
    a: str,
    b: str,
    ledger: Ledger | None,
    difference: DifferenceOptions,
    naming: ModelOptions,
    evaluation: Scoring,
    top: int = 5,
    also: Sequence[str] = (),
) -> Comparison:
    """Compares A with B, and with each model of `also`; all comparisons share the level of `difference`.

    `top`: number of sentence pairs and queries to list. Raises ConfigError for models that have no column in common.
    """
    model_pairs = [naming.read_two(a, other, ledger) for other in (b, *also)]  # all, before any is scored
    loop = COMPARE_LOOP
    if also:  # one announced loop, so that the order of the models gives none of them more of the level
        names = [model.names or model.name for models in model_pairs for model in models]
        loop = Loop(f"{COMPARE_LOOP.name} {digest(names)[:8]}", len(model_pairs))
    first, *others = [
        _compare(models, ledger, difference, evaluation, top, 1 if place else len(model_pairs), loop)
        for place, models in enumerate(model_pairs)
    ]
    return replace(first, also=others)


def _compare(
    models: tuple[Model, Model],
    ledger: Ledger | None,
    difference: DifferenceOptions,
    evaluation: Scoring,
    top: int,
    number: int,
    loop: Loop,
) -> Comparison:
    """Compares two models; `number` counts the models that the remarks speak of, `loop` holds all of them."""
    terms, columns = difference.terms(), difference.columns()
    evaluation = evaluation.with_sets_of(models, ledger)
    left, right = evaluation.add_scores(models, columns, ledger)
    common = gather(left, right, ledger, columns, spans=difference.spans(), over=terms.over)
    judged = judge_question(common, (left, right), ledger, terms, loop, ("A", "B"))
    asked = judged.asked
    pairs = compare_by_pairs(common.cosines, top=top)
    queries = compare_by_queries(common.queries, top=top)
    answers = answer_columns(common.columns, judged.judgements)
    return Comparison(
        differing=common.difference_line(),
        A=ModelAnswer.of(left),
        B=ModelAnswer.of(right),
        margin=terms.margin,
        level=asked.level,
        asked=asked,
        columns=answers,
        settings=common.differing,
        pairs=_add_texts(pairs, common, evaluation.paths),
        queries=_add_queries(queries, common, evaluation.paths),
        notes=[*common.notes, *common.unread],
        others=common.others(),
        remarks=[
            *_remarks(answers, pairs, queries, common, judged.terms, asked.level, number),
            *asked.lines(),
            *judged.pick_lines(),
        ],
        picked_of=judged.pool,
    )


def _remarks(
    columns: Sequence[ColumnAnswer],
    pairs: Sequence[PairComparison],
    queries: Sequence[QueryComparison],
    common: CommonColumns,
    terms: Terms,
    family: float,
    number: int,
) -> list[str]:
    """Returns lines on the whole comparison: levels, what the intervals cover, and what is not compared.

    `family` is the level of the comparison, of which that of `terms` is one cell's share where a model was picked.
    """
    share = terms.share(1, len(columns))
    tie = f"that of a tie is the {sureness(2 * share)} one, and within ±{terms.margin:g} points"
    shared = ", which the columns share" if len(columns) > 1 else ""
    wrong = f"any word is wrong at most {100 * family:.4g}% of the time{shared}"
    lines = [f"{sureness(share)} intervals; {tie}; {wrong}"]
    over_seeds = [column.column for column in columns if column.interval and column.scope != "sentences"]
    seeded_sides = {common.columns[column].seeded_side for column in over_seeds} - {""}
    lines += [f"intervals over seeds are those of {side}'s; the other side is taken as it is" for side in seeded_sides]
    if any(column.interval is None and min(column.A.n, column.B.n) < 2 for column in columns):
        lines.append(ONE_SEED_LINE if pairs or queries else NO_ITEMS)
    if number > 1:
        percent = 100 * family * number
        lines.append(f"with {number} models compared, any word of all is wrong at most {percent:.4g}% of the time")
    lines += [*tell_failure_bounds(columns), *no_ties(columns), *tell_uneven(columns), *common.notes]
    if common.unread:
        more = len(common.unread) - LACKING_SHOWN
        rest = f"; and {more} more like these" if more > 0 else ""
        reasons = "; ".join(common.unread[:LACKING_SHOWN])
        lines.append(f"not compared by sentence pairs or queries: {reasons}{rest}")
    return lines


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


def _add_texts(comparisons: Sequence[PairComparison], common: CommonColumns, paths: DataPaths) -> list[PairComparison]:
    """Returns comparisons with the sentences of listed pairs, if the data at hand are the scored ones."""

    def add(each: PairComparison) -> PairComparison:
        if not each.disagreements:
            return each
        try:
            texts = load_pairs(each.column, paths)
        except ConfigError:
            return each
        if texts.content_hash != common.data.get(each.column):
            return each
        both = [(texts.left[pair.index], texts.right[pair.index]) for pair in each.disagreements]
        listed = zip(each.disagreements, both, strict=True)
        return replace(each, disagreements=[replace(pair, texts=sentences) for pair, sentences in listed])

    return [add(each) for each in comparisons]


def _add_queries(
    comparisons: Sequence[QueryComparison], common: CommonColumns, paths: DataPaths
) -> list[QueryComparison]:
    """Returns comparisons with the texts of listed queries, if the data at hand are the scored ones."""

    def add(each: QueryComparison) -> QueryComparison:
        file = paths.data_set(each.column.partition(":")[0]) if each.largest else None
        with contextlib.suppress(ConfigError):
            if file is not None and (loaded := load_judgements(file)).content_hash == common.data.get(each.column):
                listed = [replace(query, text=loaded.queries[query.index]) for query in each.largest]
                return replace(each, largest=listed)
        return each

    return [add(each) for each in comparisons]


COMPARE_LOOP = Loop("compare")
"""Loop of the questions of `cse compare`, which count for `cse gate` as those of other loops do."""
SEEDS_HEAD = ["column", "A", "B", "A - B", "interval", "seeds", "over", "A is", "needs"]


def text(comparison: Comparison, width: int | None) -> str:
    """Returns the whole comparison as text: for a terminal `width` characters wide, or as Markdown for None."""
    bold: Callable[[str], str] = screen.bold if width else (lambda text: f"**{MARKDOWN.escape(text)}**")
    names = [f"A: {comparison.A.description}", f"B: {comparison.B.description}"]
    words = [f"{c.column}: {word_with_count(c.word, comparison.others)}; {c.reason}" for c in comparison.columns]
    parts = [
        _bullets([*names, *filter(None, [comparison.differing])], width),
        _part(SEEDS_HEAD, [_row(column) for column in comparison.columns], [1, 2, 3], width),
        _bullets(words, width),
    ]
    listed_pairs = [pairs for pairs in comparison.pairs if pairs.disagreements]
    for pairs in listed_pairs:
        parts.append(bold(f"Ranked most differently in {pairs.column} (of {pairs.pairs}; 1 is least similar)"))
        parts.append(_bullets([_tell_pair(pair) for pair in pairs.disagreements], width))
    first = {each.column.partition(":")[0]: each for each in reversed(comparison.queries)}
    for each in reversed(first.values()):  # the other metrics of a set list much the same queries
        if each.largest:
            parts.append(bold(f"Queries of {each.column} on which they differ most (of {each.queries})"))
            parts.append(_bullets([_tell_query(query) for query in each.largest], width))
    without_texts = [pairs.column for pairs in listed_pairs if pairs.disagreements[0].texts is None]
    more = [f"texts of {', '.join(without_texts)} are not at hand: give --data"] if without_texts else []
    return "\n\n".join(
        [*parts, _bullets([*comparison.remarks, *more], width), *(text(each, width) for each in comparison.also)]
    )


def _part(head: list[str], rows: list[list[str]], numbers: Sequence[int], width: int | None) -> str:
    """Returns a table as Markdown or for a terminal; `numbers` are the indices of columns set to the right there."""
    if width is None:
        escaped = [[MARKDOWN.escape(entry) for entry in row] for row in rows]
        return markdown(head, [[sign_word(entry) for entry in row] for row in escaped], 1)
    last = head.index("A is")
    body: list[list[screen.Entry]] = [[*row[:last], screen.colour_word(row[last]), *row[last + 1 :]] for row in rows]
    # In a narrow terminal the lines below alone say these two.
    shown = [place for place, name in enumerate(head) if width >= WIDE_TERMINAL or name not in ("over", "needs")]
    right = [place in numbers for place in shown]
    return screen.fit_table([head[i] for i in shown], [[row[i] for i in shown] for row in body], right, width)


def _bullets(lines: Sequence[str], width: int | None) -> str:
    plain = [f"- {plain_text(line)}" for line in lines]
    return "\n".join(screen.prose(line, indent="  ") if width else f"- {MARKDOWN.escape(line[2:])}" for line in plain)


def _row(column: ColumnAnswer) -> list[str]:
    sides = []
    for side in (column.A, column.B):
        spread = "" if side.sd is None else f" ± {side.sd:.{column.digits}f}"
        sides.append(f"{side.mean:.{column.digits}f}{spread}")
    is_folder = any(side.n == 1 and not side.seeds for side in (column.A, column.B))
    needs = f"{column.seeds_needed} seeds" if column.seeds_needed else f"over {MOST_SEEDS_NEEDED} seeds"
    return [
        column.column,
        *sides,
        sign_number(column.difference, column.digits),
        _sure_interval(column.interval, column.digits, column.level),
        str(column.common) if column.common else f"{column.A.n}/{column.B.n}",
        column.scope,
        column.word,
        "" if column.word != "undecided" or is_folder or column.more_items_range else needs,
    ]


def _sure_interval(interval: Interval | None, digits: int, level: float) -> str:
    """Returns an interval with its coverage, such as `+0.35 to +3.33 (95%)`."""
    return interval_text(interval, digits) + ("" if interval is None else f" ({sureness(level)})")


def _tell_pair(pair: Disagreement) -> str:
    ranks = f"A {pair.left_rank:.0f}, B {pair.right_rank:.0f}; grade {pair.grade:g} (rank {pair.grade_rank:.0f})"
    line = f"pair {pair.index}: {ranks}; nearer: {pair.nearer}"
    return line if pair.texts is None else f"{line}: {_short(pair.texts[0])} | {_short(pair.texts[1])}"


def _tell_query(query: QueryDifference) -> str:
    line = f"query {query.index}: A {query.left:.2f}, B {query.right:.2f}"
    return line if query.text is None else f"{line}: {_short(query.text)}"


def _short(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def table(first: Comparison) -> Table:
    """Returns a table with a row for each column, A and B side by side; further models follow below."""
    rows, words, comparisons = list[Row](), list[str](), [first, *first.also]
    for comparison in comparisons:
        right = {"against": comparison.B.label} if first.also else {}
        for column in comparison.columns:
            shown = _row(column)
            key = right | {"column": shown[0], "A - B": shown[3], "interval": shown[4]}
            key |= {"over": column.scope, "A is": word_with_count(column.word, comparison.others)}
            sides = {"A": column.A, "B": column.B}
            rows.append(Row(key, {name: entry_of(dict(enumerate(side.values))) for name, side in sides.items()}))
        words += comparison.remarks
    against = " and ".join(comparison.B.description for comparison in comparisons)
    title = f"{first.A.description} against {against}"
    spec = TableSpec(id="comparison", title=title, axes=list(rows[0].key), columns=["A", "B"], best="none")
    differing = "; ".join(comparison.differing for comparison in comparisons if comparison.differing)
    return Table(spec, rows, [], {}, list(dict.fromkeys(words)), compared_settings=differing)
