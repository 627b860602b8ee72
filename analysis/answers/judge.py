"""The judge: is a row better than its reference, a model better than another, does a published value fit the runs?

Tables, `cse compare`, `cse gate`, reports and pages all show a `Judgement`. `analysis.statistics` has the numbers;
`decide` alone chooses a word from intervals, and the functions below it write the reason.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from analysis.statistics.basics import sureness
from analysis.statistics.collapse import SEEDS_TO_COMPARE, find_collapsed
from analysis.statistics.contrasts import EQUAL_VARIANCE, Array, Difference, differences, student
from analysis.statistics.item_error import ItemError
from analysis.statistics.looks import FAMILY, LOOKS, NOMINAL, TIE_MARGIN, level
from analysis.statistics.needed import MOST_ITEMS, MOST_SEEDS_NEEDED, forecast_items, forecast_seeds, seeds_needed
from analysis.sweep_spec import SweepSpec
from analysis.tables.aggregate import NO_SIGNAL_TEXT, Table
from analysis.tables.columns import Column, Entry, Interval, align_by_seed
from analysis.tables.labels import number_of
from analysis.tables.spec import POINTS, MetricScale, Sense, TableError, identify

ModelWord = Literal["better", "worse", "tie", "undecided", "breaks", "no signal", "seeds do nothing"]
"""Words on two models or rows, of which `decide` chooses the first four."""
GateWord = Literal["better", "worse", "tie", "more-seeds", "undecided", "breaks", "no signal", "seeds do nothing"]
"""Words of `cse gate`, where `undecided` is called more-seeds, unless no number of seeds could decide it."""
TableWord = Literal[
    "one seed could give it", "different", "not run", "undecided",
    "same direction", "opposite direction", "tie", "breaks", "no signal", "reference",
]  # fmt: skip
"""Words on published values; a direction is better or worse times the sign of the paper's difference."""
Word = ModelWord | GateWord | TableWord
Scope = Literal["seeds", "sentences", "both"]
"""Sample whose redrawing an interval covers: training seeds, the items (pairs or queries) of the held-out set, both."""
SEEDS_FOR_PERCENTILE = 10
"""Seeds from which a reason states the percentile of a published value."""
SEED_NOISE = 2.0
"""Points between seeds of one setting at the papers' scale (SimCSE, issue 63)."""
MOST_DECIMALS = 4
"""Decimals up to which values are taken for rounded ones: scores in full digits have fifteen."""
ONE_SEED = "one seed on a side: what other seeds would give is not covered"
SEEDS_ALONE = "other sentences are not covered"
SEEDS_THAT_MAY_DIFFER = 2
"""Seeds of each side that are enough to say that seeds do nothing."""
SEEDS_DO_NOTHING = (
    "all {} seeds of each side give one score, so that more of them tell nothing: see that the seed reaches training; "
    "--over sentences judges these models as they are"
)


@dataclass(frozen=True)
class Judgement:
    """Word on one difference, with the interval that decided it and the reason in words."""

    word: Word
    reason: str = ""
    difference: float | None = None
    """Row minus reference, A minus B, or our mean minus the published value; None where one side has no value."""
    interval: Interval | None = None
    """Interval that decided: of the difference (for a tie the shorter one), or of one further seed."""
    level: float | None = None
    """Probability that `interval` misses the truth, at one interim analysis."""
    scope: Scope = "seeds"
    """Sample whose redrawing `interval` covers; the rest counts as fixed."""
    n: int = 0
    """Number of seeds of each side behind `interval`; of items where its scope is sentences."""
    items: int | None = None
    """Number of sentence pairs or queries behind `interval`; None where it covers seeds alone."""
    failed: tuple[int, int] = (0, 0)
    """Failed seeds of the row and of its reference, in no difference: collapsed ones, whose scores are far worse than
    the others of their side, and runs that ended by an error of their own. More of them on the row's side is the word
    "breaks", whatever the other seeds do."""
    published: float | None = None
    """Number of the paper that is judged: a value, or its difference from the reference row."""
    percentile: float | None = None
    """Percentage of the row's seeds at or below a published value (numpy's method "inverted_cdf"); None for a
    difference."""
    seeds_for_effect: int | None = None
    """Seeds of each side that show the effect in question (the paper's difference, else the margin) in four of five
    comparisons; None for over MOST_SEEDS_NEEDED."""
    more_seeds: int | None = 0
    """Further seeds of each side with which half of the futures that the seeds leave open are decided; 0 if decided,
    None if over MOST_SEEDS_NEEDED would, or none."""
    more_seeds_range: tuple[int | None, int | None] | None = None
    """Further seeds with which a quarter and three quarters of these futures are decided (a fifth and four fifths with
    fewer than five seeds), None for over MOST_SEEDS_NEEDED; None as a whole where nothing is forecast."""
    more_items: int | None = None
    """Further items with which half of the futures are decided where seeds alone would not; None elsewhere, and for
    over MOST_ITEMS times as many."""
    more_items_range: tuple[int | None, int | None] | None = None
    """Further items with which a quarter and three quarters of these futures are decided; None as a whole where items
    are not what is lacking."""

    @property
    def seeds_needed(self) -> int | None:
        """Seeds of each side with which an undecided difference would be decided; None where `more_seeds` is."""
        return self.n + self.more_seeds if self.word == "undecided" and self.more_seeds is not None else None


Verdicts = Mapping[tuple[int, str], Judgement]
"""(row index, column) -> judgement on a published value; values that the paper does not print have none."""


@dataclass(frozen=True)
class Terms:
    """Terms of judgements, declared before the runs. Raises TableError for impossible ones."""

    margin: float = TIE_MARGIN
    """Largest difference of a tie, in points."""
    looks: Sequence[int] | None = None
    """Numbers of seeds of the interim analyses; None for one analysis of all seeds."""
    seconds: float | None = None
    """Duration of one run; None if unknown."""
    family: float = FAMILY
    """Family-wise error rate: how often anything at all may be wrong."""
    over: Scope = "both"
    """Scope of words on two models; those on a column whose items are not known have the scope seeds."""

    def __post_init__(self) -> None:
        if not 0 < self.family < 0.5:
            line = f"a level is how often a word may be wrong: level={self.family:g}"
            raise TableError(f"{line}; give a number above 0 and below 0.5, such as {FAMILY:g}")
        if not 0 < self.margin < math.inf:
            advice = f"give points above 0, such as {TIE_MARGIN:g}"
            raise TableError(f"a tie needs a width: margin={self.margin:g}; {advice}")
        if self.looks is not None and len(self.looks) not in NOMINAL:
            raise TableError(f"at most {max(NOMINAL)} looks: looks={list(self.looks)}; leave some out")
        if self.looks is not None and not all(a < b for a, b in itertools.pairwise((1, *self.looks))):
            line = f"looks are growing numbers of seeds: looks={list(self.looks)}"
            raise TableError(f"{line}; give 2 or more first, such as {','.join(map(str, LOOKS))}")

    def declared(self) -> dict[str, object]:
        """Returns the terms that a sweep stores, so that all its pages use them; empty for the default ones."""
        margin: dict[str, object] = {} if self.margin == TIE_MARGIN else {"margin": self.margin}
        return margin if self.looks is None else margin | {"looks": list(self.looks)}

    def share(self, contrasts: int, columns: int) -> float:
        """Returns the significance level of one row's comparison at one interim analysis."""
        return level(contrasts, columns, self.looks, self.family)


def read_terms(spec: SweepSpec, seconds: float | None = None) -> Terms:
    """Returns the terms stored with a sweep. Raises TableError as `Terms` does."""
    return Terms(margin=TIE_MARGIN if spec.margin is None else spec.margin, looks=spec.looks, seconds=seconds)


def decide(interval: Interval, of_tie: Interval, margin: float, better: Sense = "higher") -> Word:
    """Returns better, worse, tie or undecided for two intervals of one difference, of rows and of models alike.

    `of_tie`: the interval at twice the level. Where it is within the margin the word is tie, even where `interval`
    excludes 0: a difference that is surely too small to matter has no direction that does.
    """
    if -margin < of_tie[0] and of_tie[1] < margin:
        return "tie"
    if interval[0] <= 0 <= interval[1]:
        return "undecided"
    return "better" if (interval[0] > 0) == (better == "higher") else "worse"


# A published table: its values at the paper's own scale, else the direction of each row from a reference row.


def judge(table: Table, *, same_scale: bool, terms: Terms | None = None) -> Verdicts:
    """Returns a judgement on every published value of a table.

    `same_scale` says that the runs are the paper's, setting by setting. Then values are compared, which needs no
    signal, and share the error of one table equally.
    """
    verdicts: dict[tuple[int, str], Judgement] = {}
    names = [name for name in table.spec.columns if any(row.entries[name].published is not None for row in table.rows)]
    terms = terms or Terms()
    share = terms.share(sum(row.entries[name].delta is not None for row in table.rows for name in names), 1)
    for name in names:
        column = Column([row.entries[name] for row in table.rows], table.seed_spread(name), table.scale(name))
        if same_scale:
            printed = [i for i, entry in enumerate(column.entries) if entry.published is not None]
            judged = {i: _judge_value(column, column.entries[i], share) for i in printed}
        else:
            judged = _judge_directions(column, reference_row(table, name), terms, len(names), table.no_signal)
        verdicts.update({(index, name): judgement for index, judgement in judged.items()})
    return verdicts


def reference_row(table: Table, column: str) -> int | None:
    """Returns the index of the reference row: the paper's default, else the first with both numbers, else None."""
    entries = [row.entries[column] for row in table.rows]
    scored_rows = [i for i, entry in enumerate(entries) if entry.mean is not None and entry.published is not None]
    if table.spec.default is None:
        return scored_rows[0] if scored_rows else None
    default_key = identify({axis: table.spec.default.get(axis) for axis in table.spec.axes})
    return next((i for i in scored_rows if identify(table.rows[i].key) == default_key), None)


def _judge_value(column: Column, entry: Entry, level: float) -> Judgement:
    published = entry.published
    assert published is not None
    if entry.mean is None:
        return Judgement("not run", "no value of ours", published=published)
    spread = column.spread(entry)
    at_or_below = int(np.count_nonzero(np.asarray(entry.values) <= published))
    percentile = 100 * at_or_below / entry.n
    if spread is None:
        reason = "no setting has two seeds that differ: seed noise is not known"
        return Judgement(
            "undecided", reason, entry.delta, n=entry.n, published=published, percentile=percentile, more_seeds=None
        )
    digits, source = column.digits, number_of(entry.n, "seed")
    # One further seed is below the k-th lowest of n, or above the k-th highest, in 2k of n + 1 cases, normal or not.
    if rank := int(level * (entry.n + 1) / 2):
        ordered, level = sorted(entry.values), 2 * rank / (entry.n + 1)
        low, high = interval = ordered[rank - 1], ordered[-rank]
        span = f"{low:.{digits}f} to {high:.{digits}f} ({source}, by ranks)"
    else:
        reach = float(student(level, spread.freedom)) * spread.sd * math.sqrt(1 + 1 / entry.n)
        interval = entry.mean - reach, entry.mean + reach
        source += "" if entry.sd else "; sd pooled over the column"
        span = f"{entry.mean:.{digits}f} ± {reach:.{digits}f} ({source})"
    inside = interval[0] - column.rounding <= published <= interval[1] + column.rounding
    side = "in" if inside else "above" if published > interval[1] else "below"
    reason = f"{published:g} lies {side} the {sureness(level)} interval of one further seed, {span}"
    if entry.n >= SEEDS_FOR_PERCENTILE:
        reason += f", {_tell_place(published, at_or_below, entry)}"
    return Judgement(
        "one seed could give it" if inside else "different", reason, entry.delta, interval, level, n=entry.n,
        published=published, percentile=percentile,
    )  # fmt: skip


def _tell_place(published: float, at_or_below: int, entry: Entry) -> str:
    """Returns the percentile of a published value among an entry's seeds, or that it lies outside of all of them."""
    if not min(entry.values) <= published <= max(entry.values):
        side = "above" if at_or_below else "below"
        return f"{side} all of them, as 1 further seed in {entry.n + 1} is"
    percentile = 100 * at_or_below // entry.n
    last = "th" if percentile // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(percentile % 10, "th")
    return f"at the {percentile}{last} percentile of them"


def _judge_directions(
    column: Column, reference: int | None, terms: Terms, columns: int, no_signal: str
) -> dict[int, Judgement]:
    """Returns row -> judgement for every published value of a column; `columns` of the table share its error.

    `no_signal` is the reason why the table has none; then every compared row is "no signal".
    """
    judged: dict[int, Judgement] = {}
    for index, entry in enumerate(column.entries):
        if entry.published is None:
            continue
        if entry.mean is None:
            judged[index] = Judgement("not run", "no value of ours", published=entry.published)
        elif reference is None:
            word: Word = "no signal" if no_signal else "undecided"
            reason = "the paper's default row was not run" + f"; {no_signal}" * bool(no_signal)
            judged[index] = Judgement(word, reason, published=entry.published, more_seeds=None)
        elif index == reference:
            judged[index] = Judgement("reference", "the row that the others are compared with", published=0.0)
    rows = [i for i, entry in enumerate(column.entries) if entry.published is not None and i not in judged]
    if reference is None or not rows:
        return judged
    share = terms.share(len(rows), columns)
    scored, values = align_by_seed(column.entries)
    margin = terms.margin * column.scale.point
    by_place, collapsed = _measure(values, scored.index(reference), column.scale, column.point, margin, share, terms)
    for index in rows:
        place = scored.index(index)
        base = column.entries[reference]
        failed = (
            collapsed[place] + column.entries[index].failed, collapsed[scored.index(reference)] + base.failed
        )  # fmt: skip
        judged[index] = _judge_direction(
            column, index, reference, by_place.get(place), failed, margin, share, terms.seconds, no_signal
        )
    return dict(sorted(judged.items()))


def _judge_direction(
    column: Column, index: int, reference: int, measured: Difference | None, failed: tuple[int, int], margin: float,
    share: float, seconds: float | None, no_signal: str,
) -> Judgement:  # fmt: skip
    """Returns the judgement on one row's direction; `measured` is None where seeds give no interval."""
    entry, base = column.entries[index], column.entries[reference]
    rows = {"this row": entry, "the row of reference": base}
    assert entry.mean is not None and base.mean is not None and entry.published is not None
    published, digits = entry.published - (base.published or 0.0), column.digits
    note = f"; {_tell_failed(failed[0], entry.n + entry.failed)}" if failed[0] else ""
    breaks = failed[0] > failed[1]
    if measured is None:
        difference = entry.mean - base.mean
        unknown = f"; ours {round(difference, digits) + 0.0:+.{digits}f}, and no setting has two seeds that differ"
        gap = f"paper {published:+.6g}{_note_faintness(published, column)}"
        failure = no_signal or _lacking_signal(rows, "undecided")
        return Judgement(
            "no signal" if failure else "breaks" if breaks else "undecided",
            gap + (f"{note}, too few are left" if failed[0] else unknown) + f"; {failure}" * bool(failure),
            difference, n=min(entry.n, base.n), failed=failed, published=published, more_seeds=0 if breaks else None,
        )  # fmt: skip
    needed = seeds_needed(published, measured.variance, measured.weight, share) if published else None
    more_seeds: int | None = 0
    ends = None
    word = decide(measured.interval, measured.tie_interval, margin)
    if word == "tie":
        clause = f"; within ±{margin:g}"
        clause += ", where the paper's gap is wider" if abs(published) > margin else ", as the paper's gap is"
    elif word == "undecided":
        more_seeds, ends = _forecast(measured, margin, measured.count)
        below = published and (needed is None or needed > measured.count)
        clause = "; the paper's own gap is below what seeds do" if below else "; ours is too wide"
        clause += f"; {_tell_more_seeds(more_seeds, ends)}"
    elif published:
        word, clause = "same direction" if (word == "better") == (published > 0) else "opposite direction", ""
    else:
        word, more_seeds = "undecided", None
        clause = "; the paper's rows are equal, so that ours has no direction to share"
    interval, of_level = _deciding(measured, word)
    if breaks:
        word, clause, more_seeds, ends = "breaks", "", 0, None
    if failure := no_signal or _lacking_signal(rows, word):
        word, clause, more_seeds, ends = "no signal", f"; {failure}", None, None
    needs = f"needs {needed} seeds" if needed else f"needs over {MOST_SEEDS_NEEDED} seeds"
    reason = (
        f"paper {published:+.6g}{_note_faintness(published, column, needs)}; "
        f"ours {round(measured.value, digits) + 0.0:+.{digits}f}, {sureness(of_level)} interval "
        f"{interval[0]:+.{digits}f} to {interval[1]:+.{digits}f} ({_tell_seeds(measured)}){note}"
    )
    if more_seeds and seconds:
        clause += f" ({2 * more_seeds} runs, {math.ceil(2 * more_seeds * seconds / 60)} min)"
    return Judgement(
        word, reason + clause, measured.value, interval, of_level, n=measured.count, failed=failed,
        published=published, seeds_for_effect=needed, more_seeds=more_seeds, more_seeds_range=ends,
    )  # fmt: skip


def _note_faintness(difference: float, column: Column, needs: str = "") -> str:
    """Returns notes on a published difference: the seeds that it would need, and whether seeds could cause it."""
    if not difference:
        return " (equal in the paper)"
    limit = SEED_NOISE * column.point
    notes = [f"less than the {limit:g} between seeds"] * (abs(difference) < limit) + [needs] * bool(needs)
    return f" ({', '.join(notes)})" if notes else ""


# Two models, as in `cse compare` and `cse gate`. A difference is always A minus B.


@dataclass(frozen=True)
class Sides:
    """Values of model A (`left`) and of model B (`right`) in one column, at least one each, and the metric's scale."""

    left: Entry
    right: Entry
    scale: MetricScale = POINTS
    items: ItemError | None = None
    """Spread of the difference over sentence pairs or queries; None where single items are not known on both sides."""
    is_release: bool = False
    """True where both sides are single models, named by folder or run: the word is on these two, whatever their
    seeds."""

    def scope(self, over: Scope) -> Scope:
        """Returns the scope of the word on this column where `over` is asked for."""
        if self.items is None:
            return "seeds"
        return "sentences" if over == "both" and self.is_release else over

    @property
    def values(self) -> list[float]:
        return [*self.left.values, *self.right.values]

    @property
    def tried(self) -> tuple[int, int]:
        """Seeds of A and of B: those with a value, and those whose run failed."""
        return self.left.n + self.left.failed, self.right.n + self.right.failed

    @property
    def common(self) -> int:
        """Number of seeds that both models have; 0 means that Welch's interval compares the two means."""
        return len({*self.left.seeds} & {*self.right.seeds})

    @property
    def seeded_side(self) -> str:
        """The side, "A" or "B", that has seeds while the other is a single folder without any; "" for all other
        pairs."""
        entries = (("A", self.left), ("B", self.right))
        seeded = [name for name, entry in entries if entry.n != 1 or min(entry.seeds) >= 0]
        return seeded[0] if len(seeded) == 1 else ""

    def lacking_signal(self, word: Word) -> str:
        """Returns why runs that trained without signal rule out this word; "" where nothing rules it out."""
        return _lacking_signal({"A": self.left, "B": self.right}, word)


def judge_models(columns: Mapping[str, Sides], terms: Terms) -> dict[str, Judgement]:
    """Returns a judgement on model A in each column; all columns share the level of `terms`.

    Its scope is that of `terms` where single items are known, else seeds; a candidate that breaks does so in any scope.
    """
    share = terms.share(1, len(columns))
    judged = {}
    for column, sides in columns.items():
        scope = sides.scope(terms.over)
        judgement = _judge_sides(sides, terms, share)
        if scope == "sentences" and judgement.word != "breaks":
            judgement = _judge_items(sides, terms, share)
        if no_signal := sides.lacking_signal(judgement.word):  # runs that trained without signal decide nothing
            judgement = replace(
                judgement, word="no signal", reason=no_signal, more_seeds=None, more_seeds_range=None, more_items=None,
                more_items_range=None,
            )  # fmt: skip
        judged[column] = judgement
    return judged


def judge_over_columns(judgements: Sequence[Judgement]) -> Judgement:
    """Returns the judgement of `cse gate` over all columns: the first of them with the word that counts most.

    In this order: breaks, worse, undecided, seeds do nothing, no signal, better, tie. Undecided is called more-seeds
    where seeds could decide some column.
    """
    order: tuple[Word, ...] = ("breaks", "worse", "undecided", "seeds do nothing", "no signal", "better", "tie")
    deciding = min(judgements, key=lambda judgement: order.index(judgement.word))
    if deciding.word != "undecided":
        return deciding
    undecided = [judgement for judgement in judgements if judgement.word == "undecided"]
    if all(judgement.scope == "sentences" or judgement.more_items_range is not None for judgement in undecided):
        return max(undecided, key=lambda judgement: judgement.more_items or math.inf)
    slowest = max(undecided, key=lambda each: math.inf if each.more_seeds is None else each.more_seeds)
    return replace(
        deciding, word="more-seeds", more_seeds=slowest.more_seeds, more_seeds_range=slowest.more_seeds_range
    )


def _judge_items(sides: Sides, terms: Terms, share: float) -> Judgement:
    """Returns the judgement on two models as they are, over the items of the set: Student's interval."""
    items, scale = sides.items, sides.scale
    assert items is not None
    left, right = np.nanmean(_align_sides(sides), axis=1)
    difference, margin = float(left - right), terms.margin * scale.point
    half, tie_half = items.half(share), items.half(2 * share)
    interval, of_tie = (difference - half, difference + half), (difference - tie_half, difference + tie_half)
    word = decide(interval, of_tie, margin, scale.better or "higher")
    decides, of_level = (of_tie, 2 * share) if word == "tie" else (interval, share)
    more, ends = _forecast_items(difference, margin, share, items) if word == "undecided" else (None, None)
    sign = 0 if interval[0] <= 0 <= interval[1] else 1 if difference > 0 else -1
    sample = f"{_tell_items(items)}; other seeds are not covered"
    reason = _tell_difference(sign, share, word, margin, sample, _tell_more_items(more, ends, items))
    return Judgement(
        word, reason, difference, decides, of_level, "sentences", items.count, items.count,
        more_seeds=0 if word != "undecided" else None, more_items=more, more_items_range=ends,
    )  # fmt: skip


def _judge_sides(sides: Sides, terms: Terms, share: float) -> Judgement:
    """Returns the judgement on two models over seeds, or over seeds and items, whether or not they trained with
    signal."""
    scale, values, common = sides.scale, _align_sides(sides), sides.common
    point, margin = scale.unit(sides.values), terms.margin * scale.point
    items = sides.items if sides.scope(terms.over) == "both" else None
    by_place, collapsed = _measure(values, 1, scale, point, margin, share, terms, items)
    failed = collapsed[0] + sides.left.failed, collapsed[1] + sides.right.failed
    note = "".join(
        f"; {_tell_failed(failed[i], sides.tried[i], f' of {name}')}" for i, name in enumerate("AB") if failed[i]
    )
    breaks = failed[0] > failed[1]
    measured = by_place.get(0) if not terms.looks or common >= terms.looks[0] else None
    means, least = np.nanmean(values, axis=1), int(np.isfinite(values).sum(axis=1).min())
    does_nothing = least >= SEEDS_THAT_MAY_DIFFER and _are_constant(values, point)
    if measured is None or does_nothing:  # scores that differ by a rounding error have an interval of no width
        reason, more = _tell_no_interval(common or least, common, terms, any(collapsed))
        if does_nothing:
            reason, more = SEEDS_DO_NOTHING.format(least), None
        word: Word = "breaks" if breaks else "seeds do nothing" if does_nothing else "undecided"
        return Judgement(
            word, reason + note, float(means[0] - means[1]), level=share,
            n=common or min(sides.left.n, sides.right.n), failed=failed, more_seeds=0 if breaks else more,
        )  # fmt: skip
    seeds, sense = common or measured.count, scale.better or "higher"
    word = decide(measured.interval, measured.tie_interval, margin, sense)
    more_seeds, ends = _forecast(measured, margin, seeds, terms.looks) if word == "undecided" else (0, None)
    more_items, item_ends = None, None
    if more_seeds is None and items:
        more_items, item_ends = _forecast_items(measured.value, margin, share, items)
    interval, of_level = _deciding(measured, word)
    sample = _tell_seeds(measured)
    if side := sides.seeded_side:
        sample += f" of {side}, and {'B' if side == 'A' else 'A'} has none"
    sample += f", {_tell_items(items)}" if items else f"; {SEEDS_ALONE}"
    if item_ends is not None and items is not None:
        needs = _tell_more_items(more_items, item_ends, items)
    else:
        needs = _tell_more_seeds(more_seeds, ends)
    reason = _tell_difference(measured.sign, measured.level, word, margin, sample, needs) + note
    if any(collapsed):
        digits = scale.digits(sides.values)
        reason += f"; {means[0] - means[1] + 0.0:+.{digits}f} with the collapsed seeds"
    return Judgement(
        "breaks" if breaks else word, reason, measured.value, interval, of_level, "both" if items else "seeds", seeds,
        items.count if items else None, failed, more_seeds=0 if breaks else more_seeds,
        more_seeds_range=None if breaks else ends,
        more_items=None if breaks else more_items, more_items_range=None if breaks else item_ends,
        seeds_for_effect=seeds_needed(margin, measured.variance, measured.weight, share, items) if margin else None,
    )  # fmt: skip


def _are_constant(values_2S: Array, point: float) -> bool:
    """Returns whether all seeds of A have one score, and all of B, but for rounding errors."""
    ranges = np.nanmax(values_2S, axis=1) - np.nanmin(values_2S, axis=1)
    return bool((ranges <= math.sqrt(EQUAL_VARIANCE) * point).all())


def _align_sides(sides: Sides) -> Array:
    """Returns values [2, S] of A and B over their common seeds; without common seeds, over all seeds.

    A single folder has no seed: its value is repeated beside each seed of the other side.
    """
    _, values = align_by_seed([sides.left, sides.right])
    if sides.seeded_side:
        seeds_S = np.isfinite(values["AB".index(sides.seeded_side)])
        return np.where(np.isfinite(values), values, np.nanmax(values, axis=1, keepdims=True))[:, seeds_S]
    common = np.isfinite(values).all(axis=0)
    return values[:, common] if common.any() else values


def _tell_difference(sign: int, level: float, word: Word, margin: float, sample: str, needs: str) -> str:
    """Returns the reason for a word; `sign` is that of a difference whose interval excludes 0, else 0."""
    sure, tied = sureness(level), sureness(2 * level)
    if word == "tie":
        aside = f", and the {sure} interval {'above' if sign > 0 else 'below'} 0" if sign else ""
        return f"the {tied} interval is within ±{margin:g}{aside} ({sample})"
    if word != "undecided":
        return f"the {sure} interval excludes 0 ({sample})"
    leaves = f", and the {tied} one leaves ±{margin:g}" if margin else "; no tie can be told, its scale is not known"
    return f"the {sure} interval holds 0{leaves} ({sample}); {needs}"


def _tell_no_interval(seeds: int, common: int, terms: Terms, has_failed: bool) -> tuple[str, int | None]:
    """Returns why the seeds give no interval, and the least number of further seeds that could; None if none could."""
    if terms.looks and common < terms.looks[0]:
        return f"{common} common seeds, and the first look is at {terms.looks[0]}", terms.looks[0] - common
    if seeds < 2:
        return ONE_SEED, LOOKS[0] - seeds
    if has_failed:
        return "too few seeds are left", max(1, SEEDS_TO_COMPARE - seeds)
    more = max(1, LOOKS[0] - seeds) if seeds < SEEDS_TO_COMPARE else None
    return "no two seeds differ on either side, so that no seed tells anything", more


# What both have in common.


def _tell_failed(failed: int, tried: int, of_side: str = "") -> str:
    """Returns `2 of 5 seeds failed`, or with the side's name `2 of 5 seeds of A failed`."""
    return f"{failed} of {number_of(tried, 'seed')}{of_side} failed"


def _measure(
    values_RS: Array,
    reference: int,
    scale: MetricScale,
    point: float,
    margin: float,
    level: float,
    terms: Terms,
    items: ItemError | None = None,
) -> tuple[dict[int, Difference], list[int]]:
    """Returns row -> difference from the reference row, and the number of collapsed seeds of each row.

    Where lower values are better, the negated values are judged: a seed with a high loss has collapsed, one with a low
    loss has not.
    """
    sign = -1.0 if scale.better == "lower" else 1.0
    oriented_RS = sign * values_RS
    measured = differences(
        oriented_RS, reference, point=point, level=level, margin=margin, interim_analyses=terms.looks,
        resolution=find_resolution(values_RS), items=items,
    )  # fmt: skip
    collapsed = [int(count) for count in find_collapsed(oriented_RS[None], point)[0].sum(axis=1)]
    return {row: each if sign > 0 else each.mirrored() for row, each in measured.items()}, collapsed


def find_resolution(values: Array) -> float:
    """Returns the last digit of values that are all rounded to MOST_DECIMALS or fewer, such as 0.01; else 0.

    Whole numbers may be exact, and count as known to a tenth.
    """
    known = values[np.isfinite(values)]
    for decimals in range(1, MOST_DECIMALS + 1):
        if np.allclose(known, known.round(decimals), rtol=0.0, atol=1e-9 * 10.0**-decimals):
            return 10.0**-decimals
    return 0.0


def _lacking_signal(rows: Mapping[str, Entry], word: Word) -> str:
    """Returns why a word on two rows is void: both are without signal, or one is and the word is tie."""
    phrases = [f"{len(row.idle)} of {row.n} runs of {name}" for name, row in rows.items() if not row.has_signal]
    return f"{' and '.join(phrases)} {NO_SIGNAL_TEXT}" if len(phrases) == 2 or (phrases and word == "tie") else ""


def _deciding(measured: Difference, word: Word) -> tuple[Interval, float]:
    """Returns the interval that decided on a word, with its level."""
    return (measured.tie_interval, 2 * measured.level) if word == "tie" else (measured.interval, measured.level)


def _forecast(
    measured: Difference, margin: float, seeds: int, interim_analyses: Sequence[int] | None = None
) -> tuple[int | None, tuple[int | None, int | None]]:
    """Returns the seeds beyond `seeds` that would decide, the median and the two ends, each up to a planned look."""

    def beyond(more: int | None) -> int | None:
        if more is None:
            return None
        least = max(measured.count + more, seeds + 1)
        return next((look for look in interim_analyses or () if look >= least), least) - seeds

    low, median, high = map(beyond, forecast_seeds(measured, margin))
    return median, (low, high)


def _forecast_items(
    difference: float, margin: float, share: float, items: ItemError
) -> tuple[int | None, tuple[int | None, int | None] | None]:
    """Returns the further items that would decide, the median and the two ends; no ends where seeds alone may."""
    size = abs(difference)
    if size > items.half(share) or size + items.half(2 * share) < margin:
        return None, None
    low, median, high = forecast_items(difference, margin, share, items)
    return median, (low, high)


def _tell_items(items: ItemError) -> str:
    return f"{items.count} {items.unit}"


def _tell_more_items(median: int | None, ends: tuple[int | None, int | None] | None, items: ItemError) -> str:
    over = f"over {MOST_ITEMS * items.count}"
    return _tell_more(over if median is None else f"about {median}", f"more {items.unit}", median, ends, over)


def _tell_more_seeds(median: int | None, ends: tuple[int | None, int | None] | None) -> str:
    """Returns `14 more seeds would decide it, half of the time between 4 and 29`."""
    over = f"over {MOST_SEEDS_NEEDED}"
    unit = "more seed" if median == 1 else "more seeds"
    return _tell_more(over if median is None else str(median), unit, median, ends, over)


def _tell_more(count: str, unit: str, median: int | None, ends: tuple[int | None, int | None] | None, over: str) -> str:
    low, high = ends or (None, None)
    span = f", half of the time between {low} and {high or over}" if median is not None and low != high else ""
    return f"{count} {unit} would decide it{span}"


def _tell_seeds(measured: Difference) -> str:
    left, right = measured.counts
    return number_of(left, "seed") if measured.paired else f"{left}/{right} seeds, none in common"
