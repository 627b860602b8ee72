"""One word on a candidate against a reference, with the seeds that it lacks, their cost, and its place in a loop."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from analysis.answers.models import Model
from analysis.ledger import Ledger, RunRow
from analysis.statistics.needed import MOST_SEEDS_NEEDED
from analysis.tables.directions import Terms
from cse.cli.exit import DONE
from cse.cli.listing import duration
from cse.compare.by_seeds import ColumnComparison, GateWord, compare_by_seeds, verdict_of
from cse.compare.compared import Scoring, score_model
from cse.compare.facts import column_dict, frame_of, model_dict
from cse.compare.gathered import Gathered, gather, suites_to_score
from cse.compare.loop import Loop, LoopQuestion, ask, refuse_other_seeds
from cse.compare.question import DifferenceOptions, ModelOptions
from cse.compare.text import interval_text, no_ties, sign_number, word_with_count
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError

if TYPE_CHECKING:
    import pandas as pd

WORSE, MORE_SEEDS = 3, 4
EXIT_CODES: dict[GateWord, int] = {
    "better": DONE, "tie": DONE, "worse": WORSE, "more-seeds": MORE_SEEDS, "no signal": MORE_SEEDS,
}  # fmt: skip


@dataclass(frozen=True)
class MoreSeeds:
    """What would decide an open question, if the difference stays what it is."""

    seeds: int | None
    """Of both, in common; None for over MOST_SEEDS_NEEDED and without signal, 0 for what is decided."""
    runs: int | None
    """That either side lacks for it; one that has more seeds than the other lacks fewer."""
    seconds: float | None
    """Of these runs one after the other, by the mean of each side's own runs; None where no run has a time."""

    def line(self) -> str:
        """For people."""
        if self.seeds is None:
            return f"over {MOST_SEEDS_NEEDED} more seeds, or none, would decide it: look for another candidate"
        if not self.seeds:
            return "no more seeds are needed"
        time = "time unknown" if self.seconds is None else f"{duration(self.seconds)} one after the other"
        return f"{self.seeds} more seeds of both would decide it: {self.runs} runs, {time}, by the runs of this ledger"


@dataclass(frozen=True)
class GateVerdict:
    """What a gate says of a candidate. Differences are candidate minus reference, in the column's own units."""

    word: GateWord
    columns: Sequence[ColumnComparison]
    more: MoreSeeds
    asked: LoopQuestion
    terms: Terms
    """As they were given; `asked.level` is what this question had of its level."""
    candidate: Model
    reference: Model
    gathered: Gathered

    @property
    def exit_code(self) -> int:
        """0 for better and tie, 3 for worse, 4 for more-seeds and no signal."""
        return EXIT_CODES[self.word]

    def __str__(self) -> str:
        return self.text()

    def text(self, n_more: bool = False) -> str:
        """`better: sts_dev +3.00 (+0.52 to +5.48: better, the 95% interval excludes 0)`, and a line for each remark."""
        more = self.more.seeds
        lacking = "" if self.word != "more-seeds" else f" {more}" if more is not None else f" over {MOST_SEEDS_NEEDED}"
        said = "; ".join([*map(_tell_column, self.columns), *no_ties(self.columns)])
        apart = self.gathered.difference_line()
        return "\n".join(
            [
                f"{word_with_count(self.word, self.gathered.others())}{lacking}: {said}",
                *([apart] if apart else []),
                *([self.more.line()] if n_more else []),
                *self.asked.lines(),
            ]
        )

    def to_frame(self) -> "pd.DataFrame":
        """A line for each column: word, difference, low, high, level, and n, mean and sd of both sides."""
        return frame_of(self.columns)

    def _repr_html_(self) -> str:
        return str(self.to_frame().assign(gate=self.word).to_html(index=False))

    def as_dict(self) -> dict[str, object]:
        """What `cse gate --format json` prints."""
        apart = self.gathered.difference_line()
        return {
            "verdict": self.word,
            **({"differing": apart} if apart else {}),
            "more_seeds": self.more.seeds,
            "more_runs": self.more.runs,
            "more_seconds": self.more.seconds,
            "exit_code": self.exit_code,
            "margin": self.terms.margin,
            "level": self.terms.family,
            "looks": self.terms.looks,
            "asked": asdict(self.asked),
            "columns": [column_dict(column) for column in self.columns],
            "candidate": model_dict(self.candidate),
            "reference": model_dict(self.reference),
            "settings": [asdict(setting) for setting in self.gathered.differing],
            "notes": list(self.gathered.notes),
        }


def judge_candidate(
    candidate: str,
    against: str,
    ledger: Ledger | None,
    difference: DifferenceOptions,
    named: ModelOptions,
    looks: Sequence[int] | None,
    loop: Loop,
    how: Scoring,
) -> GateVerdict:
    """The word at the level that this question of the loop has; what lacks a score is scored first, as by compare.

    ConfigError for what cannot be judged.
    """
    terms = difference.terms(looks)
    models = named.read_two(candidate, against, ledger)
    refuse_other_seeds(*models, ledger)
    how = how.with_sets_of(models, ledger)
    wanted = difference.columns() or how.suites or _list_dev_sets(*models, how.paths)
    left, right = models = (
        score_model(models[0], models[1], wanted, ledger, how),
        score_model(models[1], models[0], wanted, ledger, how),
    )
    common = gather(left, right, ledger, wanted, spans=difference.spans(), cosines=False)
    first = compare_by_seeds(common.columns, terms)
    seen = {column.column: column.difference for column in first}
    asked = ask(loop, ledger, (left, right), seen, looks, terms.family)
    columns = compare_by_seeds(common.columns, replace(terms, family=asked.level))
    word, more = verdict_of(columns)
    return GateVerdict(word, columns, _price(columns, more, models), asked, terms, left, right, common)


def _list_dev_sets(candidate: Model, reference: Model, paths: DataPaths) -> list[str]:
    """The set that picked the checkpoints of both, of which a folder's is not known. ConfigError for two."""
    if not (candidate.runs and reference.runs):
        return suites_to_score(candidate if candidate.runs else reference, None, paths)
    if candidate.dev != reference.dev:
        raise ConfigError([f"unlike dev sets: candidate {candidate.dev}, reference {reference.dev}; give --column"])
    return [str(candidate.dev)]


def _price(columns: Sequence[ColumnComparison], more: int | None, models: Sequence[Model]) -> MoreSeeds:
    """The runs that both sides lack of as many seeds as decide every column, and their seconds."""
    if more is None:
        return MoreSeeds(None, None, None)
    total = max((column.seeds_needed or 0 for column in columns if column.word == "undecided"), default=0)
    lacking = [max(0, total - len(model.names)) if more else 0 for model in models]
    each = [_mean_seconds(model.runs) for model in models]
    is_timed = all(seconds is not None or not runs for seconds, runs in zip(each, lacking, strict=True))
    seconds = sum(runs * (seconds or 0.0) for seconds, runs in zip(each, lacking, strict=True))
    return MoreSeeds(more, sum(lacking), seconds if is_timed else None)


def _mean_seconds(runs: Sequence[RunRow]) -> float | None:
    timed = [run.seconds for run in runs if run.seconds]
    return fmean(timed) if timed else None


def _tell_column(column: ColumnComparison) -> str:
    interval = "no interval" if column.interval is None else interval_text(column.interval, column.digits)
    difference = sign_number(column.difference, column.digits)
    return f"{column.column} {difference} ({interval}: {column.word}, {column.reason})"
