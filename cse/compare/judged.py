"""Judges a candidate model against a reference: the verdict, the seeds it lacks and their cost, its place in a loop."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from analysis.answers.judge import Judgement, Terms, Word, judge_models, judge_over_columns
from analysis.answers.models import Model
from analysis.ledger import Ledger, RunRow
from analysis.statistics.needed import MOST_SEEDS_NEEDED
from cse.cli.exit import DONE
from cse.cli.listing import duration
from cse.compare.by_seeds import ColumnAnswer, compare_by_seeds
from cse.compare.common_columns import CommonColumns, gather, suites_to_score
from cse.compare.compared import Scoring, score_model
from cse.compare.facts import frame_of, model_dict
from cse.compare.loop import Loop, LoopQuestion, ask, refuse_other_seeds
from cse.compare.question import DifferenceOptions, ModelOptions
from cse.compare.text import interval_text, no_ties, sign_number, word_with_count
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError

if TYPE_CHECKING:
    import pandas as pd

WORSE, MORE_SEEDS = 3, 4
EXIT_CODES: dict[Word, int] = {
    "better": DONE, "tie": DONE, "worse": WORSE, "more-seeds": MORE_SEEDS, "no signal": MORE_SEEDS,
}  # fmt: skip


@dataclass(frozen=True)
class MoreSeeds:
    """Seeds and runs that would decide an open `cse gate` verdict, if the difference does not change."""

    seeds: int | None
    """Number of common seeds that a verdict still lacks; 0 if decided, None for over MOST_SEEDS_NEEDED or no signal."""
    runs: int | None
    """Runs that both sides lack in total; a side that has more seeds lacks fewer."""
    seconds: float | None
    """Seconds for `runs` one after the other, by the mean time of each side's runs; None where no run has a time."""

    def line(self) -> str:
        """Returns a sentence for people."""
        if self.seeds is None:
            return f"over {MOST_SEEDS_NEEDED} more seeds, or none, would decide it: look for another candidate"
        if not self.seeds:
            return "no more seeds are needed"
        time = "time unknown" if self.seconds is None else f"{duration(self.seconds)} one after the other"
        return f"{self.seeds} more seeds of both would decide it: {self.runs} runs, {time}, by the runs of this ledger"


@dataclass(frozen=True)
class GateVerdict:
    """Verdict of `cse gate` on a candidate; differences are candidate minus reference, in the column's own units."""

    word: Word
    columns: Sequence[ColumnAnswer]
    more: MoreSeeds
    asked: LoopQuestion
    terms: Terms
    """Margin, level and looks as the caller gave them; `asked.level` is this question's share of the level."""
    candidate: Model
    reference: Model
    gathered: CommonColumns

    @property
    def exit_code(self) -> int:
        """Exit code of `cse gate`: 0 for better and tie, 3 for worse, 4 for more-seeds and no signal."""
        return EXIT_CODES[self.word]

    def __str__(self) -> str:
        return self.text()

    def text(self, n_more: bool = False) -> str:
        """Returns `better: sts_dev +3.00 (+0.52 to +5.48: better, the 95% interval excludes 0)`, and a line for each
        remark."""
        more = self.more.seeds
        suffix = "" if self.word != "more-seeds" else f" {more}" if more is not None else f" over {MOST_SEEDS_NEEDED}"
        column_texts = "; ".join([*map(_tell_column, self.columns), *no_ties(self.columns)])
        differing = self.gathered.difference_line()
        return "\n".join(
            [
                f"{word_with_count(self.word, self.gathered.others())}{suffix}: {column_texts}",
                *([differing] if differing else []),
                *([self.more.line()] if n_more else []),
                *self.asked.lines(),
            ]
        )

    def to_frame(self) -> "pd.DataFrame":
        """Returns a frame with a line for each column: word, difference, low, high, level, and n, mean and sd of both
        sides."""
        return frame_of(self.columns)

    def _repr_html_(self) -> str:
        return str(self.to_frame().assign(gate=self.word).to_html(index=False))

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object that `cse gate --format json` prints."""
        differing = self.gathered.difference_line()
        return {
            "verdict": self.word,
            **({"differing": differing} if differing else {}),
            "more_seeds": self.more.seeds,
            "more_runs": self.more.runs,
            "more_seconds": self.more.seconds,
            "exit_code": self.exit_code,
            "margin": self.terms.margin,
            "level": self.terms.family,
            "looks": self.terms.looks,
            "asked": asdict(self.asked),
            "columns": [asdict(column) for column in self.columns],
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
    naming: ModelOptions,
    looks: Sequence[int] | None,
    loop: Loop,
    evaluation: Scoring,
) -> GateVerdict:
    """Judges a candidate model against a reference, at the level that is left in its loop of candidates.

    Models that lack scores are scored first, as `compare_models` does. Raises ConfigError for what cannot be judged.
    """
    terms = difference.terms(looks)
    models = naming.read_two(candidate, against, ledger)
    refuse_other_seeds(*models, ledger)
    evaluation = evaluation.with_sets_of(models, ledger)
    wanted = difference.columns() or evaluation.suites or _list_dev_sets(*models, evaluation.paths)
    left, right = models = (
        score_model(models[0], models[1], wanted, ledger, evaluation),
        score_model(models[1], models[0], wanted, ledger, evaluation),
    )
    common = gather(left, right, ledger, wanted, spans=difference.spans(), cosines=False)
    # Differences do not depend on the level, and the log wants them; the verdicts need the level that it then gives.
    differences = {
        column: judgement.difference or 0.0 for column, judgement in judge_models(common.columns, terms).items()
    }
    asked = ask(loop, ledger, (left, right), differences, looks, terms.family)
    judged = judge_models(common.columns, replace(terms, family=asked.level))
    overall, columns = judge_over_columns([*judged.values()]), compare_by_seeds(common.columns, judged)
    return GateVerdict(overall.word, columns, _price(judged, overall, models), asked, terms, left, right, common)


def _list_dev_sets(candidate: Model, reference: Model, paths: DataPaths) -> list[str]:
    """Returns the dev set by which both models' checkpoints were picked; a folder takes the other's. ConfigError for
    two."""
    if not (candidate.runs and reference.runs):
        return suites_to_score(candidate if candidate.runs else reference, None, paths)
    if candidate.dev != reference.dev:
        raise ConfigError([f"unlike dev sets: candidate {candidate.dev}, reference {reference.dev}; give --column"])
    return [str(candidate.dev)]


def _price(judged: Mapping[str, Judgement], overall: Judgement, models: Sequence[Model]) -> MoreSeeds:
    """Returns the runs that each side lacks until every column is decided, and their seconds."""
    more = overall.more_seeds
    if more is None:
        return MoreSeeds(None, None, None)
    total = max((judgement.seeds_needed or 0 for judgement in judged.values()), default=0)
    missing_runs = [max(0, total - len(model.names)) if more else 0 for model in models]
    each = [_mean_seconds(model.runs) for model in models]
    is_timed = all(seconds is not None or not runs for seconds, runs in zip(each, missing_runs, strict=True))
    seconds = sum(runs * (seconds or 0.0) for seconds, runs in zip(each, missing_runs, strict=True))
    return MoreSeeds(more, sum(missing_runs), seconds if is_timed else None)


def _mean_seconds(runs: Sequence[RunRow]) -> float | None:
    timed = [run.seconds for run in runs if run.seconds]
    return fmean(timed) if timed else None


def _tell_column(column: ColumnAnswer) -> str:
    interval = "no interval" if column.interval is None else interval_text(column.interval, column.digits)
    difference = sign_number(column.difference, column.digits)
    return f"{column.column} {difference} ({interval}: {column.word}, {column.reason})"
