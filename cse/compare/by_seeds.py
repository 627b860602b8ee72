"""Model A against model B column by column, over seeds; a difference is always A minus B."""

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.answers.judge import Judgement, Sides, Word
from analysis.tables.columns import Entry, Interval
from analysis.tables.spec import Sense


@dataclass(frozen=True)
class SideAnswer:
    """One model's values in one column."""

    n: int
    mean: float | None
    sd: float | None
    values: tuple[float, ...]
    """Score of each seed, or of each folder."""
    collapsed: int
    """Number of seeds that collapsed: their values lie far below the others."""
    seeds: tuple[int, ...]
    """Seeds of `values`; empty for model folders, which have none."""
    idle: tuple[int, ...]
    """Seeds whose runs show no signal of training."""

    @classmethod
    def of(cls, entry: Entry, failed: int) -> "SideAnswer":
        seeds = tuple(seed for seed in entry.seeds if seed >= 0)
        return cls(entry.n, entry.mean, entry.sd, entry.values, failed, seeds, entry.idle)


@dataclass(frozen=True)
class ColumnAnswer:
    """Comparison of models A and B in one column: the word, the difference and its interval over seeds."""

    column: str
    word: Word
    """Word on model A: "better" means that A is better than B."""
    difference: float
    """A minus B: the mean over common seeds; without common seeds, the difference of the two means."""
    interval: Interval | None
    """Interval of the difference over seeds: the shorter one for a tie; None where seeds give none."""
    level: float
    """Probability that `interval` misses the true difference, at one interim analysis."""
    common: int
    """Number of seeds that both models have; 0 means that Welch's interval compares the two means."""
    reason: str
    seeds_needed: int | None
    """Seeds of each side that would decide, if the difference does not change; None if decided or over
    MOST_SEEDS_NEEDED."""
    more_seeds: int | None
    """Seeds of each side that are lacking for `seeds_needed`; 0 if decided, None if over MOST_SEEDS_NEEDED or no
    signal."""
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


def compare_by_seeds(columns: Mapping[str, Sides], judged: Mapping[str, Judgement]) -> list[ColumnAnswer]:
    """Returns an answer for each judged column."""
    answers = []
    for column, judgement in judged.items():
        sides = columns[column]
        assert judgement.difference is not None and judgement.level is not None
        answers.append(
            ColumnAnswer(
                column=column,
                word=judgement.word,
                difference=judgement.difference,
                interval=judgement.interval,
                level=judgement.level,
                common=sides.common,
                reason=judgement.reason,
                seeds_needed=judgement.seeds_needed,
                more_seeds=judgement.more_seeds,
                seeds_for_margin=judgement.seeds_for_effect,
                better=sides.scale.better or "higher",
                point=sides.scale.point,
                digits=sides.scale.digits(sides.values),
                A=SideAnswer.of(sides.left, judgement.failed[0]),
                B=SideAnswer.of(sides.right, judgement.failed[1]),
            )
        )
    return answers
