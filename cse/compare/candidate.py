"""Judges a candidate model against a reference: the word, the seeds it lacks and their cost, its place in a loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Literal, cast

from analysis.answers.judge import GateWord, Judgement, Scope, judge_over_columns
from analysis.answers.models import Model
from analysis.answers.picks import CandidatePool
from analysis.documents import HIDDEN, OPTIONAL, convert_row, spell_key
from analysis.ledger import Ledger
from analysis.statistics.needed import MOST_SEEDS_NEEDED
from analysis.tables.spec import SettingDifference
from cse.cli.listing import duration
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
from cse.compare.common_columns import gather
from cse.compare.judgement import judge_question
from cse.compare.loop import Loop, LoopQuestion, refuse_chosen_seeds
from cse.compare.missing_scores import Scoring, suites_to_score
from cse.compare.question import DifferenceOptions, ModelOptions
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError

if TYPE_CHECKING:
    import pandas as pd

ExitCode = Literal[0, 3, 4, 5]
WORSE: ExitCode = 3
MORE_SEEDS: ExitCode = 4
NO_SEED_EFFECT: ExitCode = 5
EXIT_CODES: Mapping[GateWord, ExitCode] = {
    "better": 0, "tie": 0, "worse": WORSE, "breaks": WORSE, "more-seeds": MORE_SEEDS, "undecided": MORE_SEEDS,
    "no signal": MORE_SEEDS, "seeds do nothing": NO_SEED_EFFECT,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GateVerdict:
    """Verdict of `cse gate` on a candidate; differences are candidate minus reference, in the column's own units."""

    word: GateWord = field(metadata=spell_key("verdict"))
    differing: str = field(default="", metadata=OPTIONAL)
    """Line on settings in which candidate and reference differ beyond those that were asked about."""
    more_seeds: int | None
    """Common seeds that a verdict still lacks; 0 if decided, null for over 200, and where no seeds would do."""
    more_seeds_range: tuple[int | None, int | None] | None
    """Seeds that are lacking in a quarter and in three quarters of cases, null for over 200; null as a whole where
    nothing is forecast."""
    scope: Scope
    """Sample whose redrawing the verdict covers, in the column that decided it: seeds, sentences or both."""
    more_runs: int | None
    """Runs that both sides lack in total; a side that has more seeds lacks fewer."""
    more_seconds: float | None
    """Seconds for `more_runs` one after the other, by the mean time of each side's runs; null where no run has a
    time."""
    exit_code: ExitCode
    """0 for better and tie, 3 for worse and breaks, 4 for more-seeds, undecided and no signal, 5 where seeds do
    nothing."""
    margin: float
    """Half-width of a tie, in points."""
    level: float
    """Level as the caller gave it; `asked.level` is this question's share."""
    interim_analyses: Sequence[int] | None = field(metadata=spell_key("looks"))
    """Numbers of seeds at which the caller planned to look; null for one look."""
    asked: LoopQuestion
    picked_of: CandidatePool | None
    """Sweep from whose cells the candidate was picked, which share the level of `asked`; null for no pick."""
    columns: Sequence[ColumnAnswer]
    candidate: ModelAnswer
    reference: ModelAnswer
    settings: Sequence[SettingDifference]
    """Settings of the line `differing`, with their values."""
    notes: Sequence[str]
    """Lines on columns that are not compared, and in what the models differ."""
    others: str = field(metadata=HIDDEN)
    """Suffix of better and worse: how many other settings differ."""
    pick_lines: Sequence[str] = field(metadata=HIDDEN)
    """Line for people on the sweep that the candidate was picked of; empty for no pick."""

    def __str__(self) -> str:
        return self.text()

    def text(self, n_more: bool = False) -> str:
        """Returns `better: sts_dev +3.00 (+0.52 to +5.48: better, the 95% interval excludes 0)`, and a line for each
        remark."""
        needed = f"over {MOST_SEEDS_NEEDED}" if self.more_seeds is None else str(self.more_seeds)
        suffix = f" {needed}" if self.word == "more-seeds" else ""
        column_texts = "; ".join([*map(_tell_column, self.columns), *no_ties(self.columns)])
        lines = [f"{word_with_count(self.word, self.others)}{suffix}: {column_texts}", self.differing]
        is_decided = self.word in ("better", "tie", "worse")
        bounds = tell_failure_bounds(self.columns, ("the candidate", "the reference")) if is_decided else []
        more = [self._tell_more()] if n_more else []
        return "\n".join([*filter(None, lines), *more, *self.asked.lines(), *self.pick_lines, *bounds])

    def _tell_more(self) -> str:
        if self.word in ("undecided", "seeds do nothing"):
            return "more seeds would not decide it"
        if self.more_seeds is None:
            return f"over {MOST_SEEDS_NEEDED} more seeds, or none, would decide it: look for another candidate"
        if not self.more_seeds:
            return "no more seeds are needed"
        time = "time unknown" if self.more_seconds is None else f"{duration(self.more_seconds)} one after the other"
        seeds = f"{self.more_seeds} more seeds of both would decide it"
        return f"{seeds}: {self.more_runs} runs, {time}, by the runs of this ledger"

    def to_frame(self) -> "pd.DataFrame":
        """Returns a frame with a line for each column: word, difference, low, high, level, and n, mean and sd of both
        sides."""
        return frame_of(self.columns)

    def _repr_html_(self) -> str:
        return str(self.to_frame().assign(gate=self.word).to_html(index=False))

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object that `cse gate --format json` prints."""
        return convert_row(self)


def judge_candidate(
    candidate: str,
    against: str,
    ledger: Ledger | None,
    difference: DifferenceOptions,
    naming: ModelOptions,
    interim_analyses: Sequence[int] | None,
    loop: Loop,
    evaluation: Scoring,
) -> GateVerdict:
    """Judges a candidate model against a reference, at the level that is left in its loop of candidates.

    Models that lack scores are scored first, as `compare_models` does. Raises ConfigError for what cannot be judged.
    """
    terms = difference.terms(interim_analyses)
    models = naming.read_two(candidate, against, ledger)
    refuse_chosen_seeds(*models, ledger)
    evaluation = evaluation.with_sets_of(models, ledger)
    wanted = difference.columns() or evaluation.suites or _list_dev_sets(*models, evaluation.paths)
    left, right = models = evaluation.add_scores(models, wanted, ledger)
    common = gather(left, right, ledger, wanted, spans=difference.spans(), over=terms.over)
    question = judge_question(common, models, ledger, terms, loop, ("the candidate",))
    judged = question.judgements
    overall = judge_over_columns([*judged.values()])
    word = cast(GateWord, overall.word)
    runs, seconds = _price(judged, overall.more_seeds, models)
    return GateVerdict(
        word=word,
        differing=common.difference_line(),
        more_seeds=overall.more_seeds,
        more_seeds_range=overall.more_seeds_range,
        scope=overall.scope,
        more_runs=runs,
        more_seconds=seconds,
        exit_code=EXIT_CODES[word],
        margin=terms.margin,
        level=terms.family,
        interim_analyses=terms.looks,
        asked=question.asked,
        picked_of=question.pool,
        pick_lines=question.pick_lines(),
        columns=answer_columns(common.columns, judged),
        candidate=ModelAnswer.of(left),
        reference=ModelAnswer.of(right),
        settings=common.differing,
        notes=common.notes,
        others=common.others(),
    )


def _list_dev_sets(candidate: Model, reference: Model, paths: DataPaths) -> list[str]:
    """Returns the dev set by which both models' checkpoints were picked; a folder takes the other's. ConfigError for
    two."""
    if not (candidate.runs and reference.runs):
        return suites_to_score(candidate if candidate.runs else reference, None, paths)
    if candidate.dev != reference.dev:
        raise ConfigError([f"unlike dev sets: candidate {candidate.dev}, reference {reference.dev}; give --column"])
    return [str(candidate.dev)]


def _price(
    judged: Mapping[str, Judgement], more_seeds: int | None, models: Sequence[Model]
) -> tuple[int | None, float | None]:
    """Returns the runs that both sides lack until every column is decided, and their seconds; None if unknown."""
    if more_seeds is None:
        return None, None
    total = max((judgement.seeds_needed or 0 for judgement in judged.values()), default=0)
    missing_runs = [max(0, total - len(model.names)) if more_seeds else 0 for model in models]
    seconds = 0.0
    for model, missing in zip(models, missing_runs, strict=True):
        times = [run.seconds for run in model.runs if run.seconds]
        if missing and not times:
            return sum(missing_runs), None
        seconds += missing * fmean(times) if times else 0.0
    return sum(missing_runs), seconds


def _tell_column(column: ColumnAnswer) -> str:
    interval = "no interval" if column.interval is None else interval_text(column.interval, column.digits)
    difference = sign_number(column.difference, column.digits)
    return f"{column.column} {difference} ({interval}: {column.word}, {column.reason})"
