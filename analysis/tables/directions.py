"""Compares each row with the reference row: the measured difference has the paper's direction, the other, or none."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.statistics.basics import sureness
from analysis.statistics.collapse import find_collapsed
from analysis.statistics.differences import Difference, differences
from analysis.statistics.looks import FAMILY, LOOKS, NOMINAL, level
from analysis.statistics.looks import TIE_MARGIN as TIE_MARGIN
from analysis.statistics.needed import MOST_SEEDS_NEEDED, seeds_needed, seeds_to_decide
from analysis.sweep_spec import SweepSpec
from analysis.tables.aggregate import NO_SIGNAL_TEXT
from analysis.tables.columns import Column, Entry, Verdict, Word, align_by_seed
from analysis.tables.labels import number_of
from analysis.tables.spec import TableError

SEED_NOISE = 2.0
"""Points between seeds of one setting at the papers' scale (SimCSE, issue 63)."""


@dataclass(frozen=True)
class Terms:
    """Terms of verdicts, declared before the runs. Raises TableError for a margin of 0 and for too many looks."""

    margin: float = TIE_MARGIN
    """Largest difference of a tie, in points."""
    looks: Sequence[int] | None = None
    """Numbers of seeds at which the table is analysed; None for one look at all seeds."""
    seconds: float | None = None
    """Duration of one run; None if unknown."""
    each: bool = False
    """True if every comparison has the whole error rate for itself, as in a table of two rows; else all share it."""
    family: float = FAMILY
    """Family-wise error rate: how often anything at all may be wrong."""

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
        return level(1, 1, self.looks, self.family) if self.each else level(contrasts, columns, self.looks, self.family)


def read_terms(spec: SweepSpec, seconds: float | None = None) -> Terms:
    """Returns the terms stored with a sweep. Raises TableError as `Terms` does."""
    return Terms(margin=TIE_MARGIN if spec.margin is None else spec.margin, looks=spec.looks, seconds=seconds)


def directions(
    column: Column, reference: int | None, *, terms: Terms, columns: int = 1, no_signal: str = ""
) -> dict[int, Verdict]:
    """Returns row -> verdict for every published value of a column.

    `columns` counts the columns of the table that share its error. `no_signal` is the reason why the table has none;
    then every compared row has the verdict "no signal".
    """
    verdicts = {}
    for index, entry in enumerate(column.entries):
        if entry.published is None:
            continue
        if entry.mean is None:
            verdicts[index] = Verdict("not run", None, entry.published, "no value of ours")
        elif reference is None:
            word: Word = "no signal" if no_signal else "undecided"
            reason = "the paper's default row was not run" + f"; {no_signal}" * bool(no_signal)
            verdicts[index] = Verdict(word, None, entry.published, reason)
        elif index == reference:
            verdicts[index] = Verdict("reference", None, 0.0, "the row that the others are compared with")
    if reference is None:
        return verdicts
    rows = [i for i, entry in enumerate(column.entries) if entry.published is not None and i not in verdicts]
    share = terms.share(len(rows), columns)
    by_row = _differences(column, reference, rows, terms, share) if rows else {}
    for index in rows:
        verdicts[index] = _verdict(column, index, reference, by_row.get(index), terms, share, no_signal)
    return dict(sorted(verdicts.items()))


def lacking_signal(rows: Mapping[str, Entry], word: str) -> str:
    """Returns why a verdict on two rows is void: both are without signal, or one is and the verdict is a tie."""
    phrases = [f"{len(row.idle)} of {row.n} runs of {name}" for name, row in rows.items() if not row.has_signal]
    return f"{' and '.join(phrases)} {NO_SIGNAL_TEXT}" if len(phrases) == 2 or (phrases and word == "tie") else ""


def _differences(
    column: Column, reference: int, rows: Sequence[int], terms: Terms, share: float
) -> dict[int, Difference]:
    """Returns row -> difference at the look that decides it, else at the last; rows without a spread are left out."""
    scored, values = align_by_seed(column.entries)
    by_place = differences(
        values,
        scored.index(reference),
        point=column.point,
        level=share,
        margin=terms.margin * column.scale.point,
        looks=terms.looks,
    )
    return {index: by_place[scored.index(index)] for index in rows if scored.index(index) in by_place}


def _verdict(
    column: Column, index: int, reference: int, measured: Difference | None, terms: Terms, share: float, no_signal: str
) -> Verdict:
    """Returns the verdict on one row, with the reason."""
    entry, base = column.entries[index], column.entries[reference]
    rows = {"this row": entry, "the row of reference": base}
    assert entry.mean is not None and base.mean is not None and entry.published is not None
    published, digits = entry.published - (base.published or 0.0), column.digits
    scored, values = align_by_seed(column.entries)
    fallen = int(find_collapsed(values[None], column.point)[0, scored.index(index)].sum())
    note = f"; {fallen} of {entry.n} seeds collapsed" if fallen else ""
    if measured is None:
        difference = round(entry.mean - base.mean, digits) + 0.0
        unknown = f"; ours {difference:+.{digits}f}, and no setting has two seeds that differ"
        reason = f"paper {published:+.6g}{_note_faintness(published, column)}" + (
            f"{note}, too few are left" if fallen else unknown
        )
        failure = no_signal or lacking_signal(rows, "undecided")
        word: Word = "no signal" if failure else "undecided"
        return Verdict(word, None, published, reason + f"; {failure}" * bool(failure), collapsed=fallen)
    needed = seeds_needed(published, measured.variance, measured.weight, share) if published else None
    margin = terms.margin * column.scale.point
    word, clause, more_seeds = _choose_verdict(measured, published, needed, margin, share)
    failure = no_signal or lacking_signal(rows, word)
    if failure:
        word, clause, more_seeds = "no signal", f"; {failure}", None
    (low, high), level = (
        (measured.tie_interval, measured.tie_level) if word == "tie" else (measured.interval, measured.level)
    )
    needs = f"needs {needed} seeds" if needed else f"needs over {MOST_SEEDS_NEEDED} seeds"
    reason = (
        f"paper {published:+.6g}{_note_faintness(published, column, needs)}; "
        f"ours {round(measured.value, digits) + 0.0:+.{digits}f}, "
        f"{sureness(level)} interval {low:+.{digits}f} to {high:+.{digits}f} ({measured.seeds}){note}"
    )
    if more_seeds and terms.seconds:
        clause += f" ({2 * more_seeds} runs, {math.ceil(2 * more_seeds * terms.seconds / 60)} min)"
    return Verdict(word, (low, high), published, reason + clause, needed, more_seeds, level, fallen)


def _choose_verdict(
    measured: Difference, published: float, needed: int | None, margin: float, share: float
) -> tuple[Word, str, int | None]:
    """Returns the verdict, the clause that explains it, and the further seeds that an undecided row needs."""
    if measured.sign and published:
        return ("same direction" if (measured.sign > 0) == (published > 0) else "opposite direction"), "", None
    if measured.within(margin):
        comparison = ", where the paper's gap is wider" if abs(published) > margin else ", as the paper's gap is"
        return "tie", f"; within ±{margin:g}{comparison}", None
    if measured.sign:
        return "undecided", "; the paper's rows are equal, so that ours has no direction to share", None
    total = seeds_to_decide(measured.value, margin, measured.variance, measured.weight, share)
    more_seeds = None if total is None else max(1, total - measured.count)
    below = published and (needed is None or needed > measured.count)
    clause = "; the paper's own gap is below what seeds do" if below else "; ours is too wide"
    return (
        "undecided",
        f"{clause}; {_describe_more_seeds(more_seeds)} would decide it",
        more_seeds,
    )


def _describe_more_seeds(seeds: int | None) -> str:
    return f"over {MOST_SEEDS_NEEDED} more seeds" if seeds is None else f"about {number_of(seeds, 'more seed')}"


def _note_faintness(difference: float, column: Column, needs: str = "") -> str:
    """Returns notes on a published difference: the seeds that it would need, and whether seeds could cause it."""
    if not difference:
        return " (equal in the paper)"
    limit = SEED_NOISE * column.point
    notes = [f"less than the {limit:g} between seeds"] * (abs(difference) < limit) + [needs] * bool(needs)
    return f" ({', '.join(notes)})" if notes else ""
