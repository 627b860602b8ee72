"""Answers of `cse compare` and `cse gate` for each model and column: their JSON, a frame, and phrases in text.

A difference is always A minus B.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from analysis.answers.judge import Judgement, ModelWord, Scope, Sides
from analysis.answers.models import Model
from analysis.documents import HIDDEN
from analysis.statistics.basics import sureness
from analysis.tables.columns import Entry, Interval
from analysis.tables.labels import number_of
from analysis.tables.spec import Sense

if TYPE_CHECKING:
    import pandas as pd

FAILURE_RISK = 0.05
"""Probability that more seeds fail than `SideAnswer.failures_at_most` says."""


@dataclass(frozen=True)
class RunAnswer:
    """One run of a compared model."""

    signature: str
    seed: int


@dataclass(frozen=True)
class ModelAnswer:
    """One compared model: runs of the ledger, or folders."""

    name: str
    label: str
    folder: str | None
    """First folder; null for runs of the ledger."""
    folders: Sequence[str]
    runs: Sequence[RunAnswer]
    description: str = field(metadata=HIDDEN)
    """Label with its seeds or folders, for people."""

    @classmethod
    def of(cls, model: Model) -> "ModelAnswer":
        if model.pooler is not None:
            note = ""
        elif model.folders:
            note = f" ({len(model.folders)} folders, each taken for a seed)" * (len(model.folders) > 1)
            note = note or " (a folder, no seeds)"
        else:
            note = f" (seed{'s' * (len(model.seeds) > 1)} {', '.join(map(str, model.seeds))})"
        runs = [RunAnswer(run.signature, run.seed) for run in model.runs]
        folders = [str(folder) for folder in model.folders]
        return cls(model.name, model.label, folders[0] if folders else None, folders, runs, model.label + note)


@dataclass(frozen=True)
class SideAnswer:
    """One model's values in one column."""

    n: int
    mean: float | None
    sd: float | None
    values: Sequence[float]
    """Score of each seed, or of each folder."""
    collapsed: int
    """Number of seeds that failed: their values are far worse than the others, or their run ended by an error."""
    failures_at_most: float | None
    """Largest share of failing seeds with which none of these fails in 5% of cases, 1 - 0.05^(1/n); null where some
    failed, and without seeds."""
    seeds: Sequence[int]
    """Seeds of `values`; empty for model folders, which have none."""
    idle: Sequence[int]
    """Seeds whose runs show no signal of training."""

    @classmethod
    def of(cls, entry: Entry, failed: int) -> "SideAnswer":
        seeds = [seed for seed in entry.seeds if seed >= 0]
        bound = None if failed or not seeds else _failures_at_most(len(seeds))
        return cls(entry.n, entry.mean, entry.sd, entry.values, failed, bound, seeds, entry.idle)


@dataclass(frozen=True)
class ColumnAnswer:
    """Comparison of models A and B in one column: the word, the difference and its interval over seeds."""

    column: str
    word: ModelWord
    """Word on model A: "better" means that A is better than B."""
    difference: float
    """A minus B: the mean over common seeds; without common seeds, the difference of the two means."""
    interval: Interval | None
    """Interval of the difference: the shorter one for a tie; null where seeds give none."""
    level: float
    """Probability that `interval` misses the true difference, at one interim analysis."""
    scope: Scope
    """Sample whose redrawing the word covers: other seeds on this very set (seeds), other pairs or queries for these
    very models (sentences), or other seeds on other sentences (both)."""
    items: int | None
    """Number of sentence pairs or queries behind `interval`; null where it covers seeds alone."""
    more_items: int | None
    """Further pairs or queries that would decide, half of the time, where seeds alone would not; null elsewhere, and
    for over a hundred times as many as there are."""
    more_items_range: tuple[int | None, int | None] | None
    """Further pairs or queries that decide in a quarter and in three quarters of cases; null as a whole where they are
    not what is lacking."""
    common: int
    """Number of seeds that both models have; 0 means that Welch's interval compares the two means."""
    reason: str
    seeds_needed: int | None
    """Seeds of each side that would decide, half of the time; null if decided or for over 200 more."""
    more_seeds: int | None
    """Seeds of each side that are lacking for `seeds_needed`; 0 if decided, null if over 200 or without signal."""
    more_seeds_range: tuple[int | None, int | None] | None
    """Further seeds that decide in a quarter and in three quarters of cases, null for over 200; null as a whole where
    nothing is forecast."""
    seeds_for_margin: int | None
    """Seeds of each side that would show a difference of one margin in four of five comparisons."""
    better: Sense
    """Direction of the metric: whether the higher or the lower value is better."""
    point: float
    """One point in the column's units, in which the margin is given; 0 where the range is unknown, and no tie is
    possible."""
    digits: int
    """Decimals shown for the column's values."""
    A: SideAnswer
    B: SideAnswer


def answer_columns(columns: Mapping[str, Sides], judged: Mapping[str, Judgement]) -> list[ColumnAnswer]:
    """Returns the answer on each judged column."""
    answers = []
    for column, judgement in judged.items():
        sides = columns[column]
        assert judgement.difference is not None and judgement.level is not None
        answers.append(
            ColumnAnswer(
                column=column,
                word=cast(ModelWord, judgement.word),
                difference=judgement.difference,
                interval=judgement.interval,
                level=judgement.level,
                scope=judgement.scope,
                items=judgement.items,
                more_items=judgement.more_items,
                more_items_range=judgement.more_items_range,
                common=sides.common,
                reason=judgement.reason,
                seeds_needed=judgement.seeds_needed,
                more_seeds=judgement.more_seeds,
                more_seeds_range=judgement.more_seeds_range,
                seeds_for_margin=judgement.seeds_for_effect,
                better=sides.scale.better or "higher",
                point=sides.scale.point,
                digits=sides.scale.digits(sides.values),
                A=SideAnswer.of(sides.left, judgement.failed[0]),
                B=SideAnswer.of(sides.right, judgement.failed[1]),
            )
        )
    return answers


def frame_of(columns: Sequence[ColumnAnswer]) -> "pd.DataFrame":
    """Returns a frame with a line for each column.

    It has `column`, `word`, `difference` (A minus B), its interval from `low` to `high`, `level` (the probability that
    the interval misses), `scope`, `common` seeds, and `n`, `mean` and `sd` of A and of B, in the column's units.
    """
    lines = []
    for column in columns:
        low, high = column.interval or (None, None)
        numbers = {"column": column.column, "word": column.word, "difference": column.difference}
        numbers |= {"low": low, "high": high, "level": column.level, "scope": column.scope, "common": column.common}
        for side, values in (("A", column.A), ("B", column.B)):
            numbers |= {f"{side} n": values.n, f"{side} mean": values.mean, f"{side} sd": values.sd}
        lines.append(numbers)
    import pandas  # half a second, and only notebooks ask

    return pandas.DataFrame(lines)


def word_with_count(word: str, others: str) -> str:
    """Returns a word; better and worse with the number of other settings that differ."""
    return word + others if word in ("better", "worse") else word


def tell_failure_bounds(columns: Sequence[ColumnAnswer], names: tuple[str, str] = ("A", "B")) -> list[str]:
    """Returns a line on the share of further seeds that may fail, of sides of several seeds without a failed one; empty
    where both have none such."""
    names_by_count = dict[int, list[str]]()
    for name, sides in zip(names, ([each.A for each in columns], [each.B for each in columns]), strict=True):
        if all(side.failures_at_most is not None and len(side.seeds) > 1 for side in sides):
            names_by_count.setdefault(min(len(side.seeds) for side in sides), []).append(name)
    told = [
        f"0 of {number_of(count, 'seed')} of {' and of '.join(sides)} failed: up to {_failures_at_most(count):.0%}"
        for count, sides in names_by_count.items()
    ]
    return [f"{'; '.join(told)} of further ones may ({sureness(FAILURE_RISK)})"] if told else []


def _failures_at_most(seeds: int) -> float:
    return float(1 - FAILURE_RISK ** (1 / seeds))


def no_ties(columns: Sequence[ColumnAnswer]) -> list[str]:
    """Returns a line on the columns whose range is unknown, in which no tie is possible; empty where all are known."""
    unknown = [column.column for column in columns if not column.point]
    if not unknown:
        return []
    flags = " ".join(f"--scale {name}=1" for name in unknown)
    return [f"no tie is told in {', '.join(unknown)}, whose range is not known: give {flags}, or how wide it is"]


def sign_number(value: float, digits: int) -> str:
    """Returns the number with its sign; 0 is `+0`, never `-0`."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def interval_text(interval: Interval | None, digits: int) -> str:
    """Returns an interval such as `+0.35 to +3.33`; "-" for None."""
    return "-" if interval is None else " to ".join(sign_number(end, digits) for end in interval)
