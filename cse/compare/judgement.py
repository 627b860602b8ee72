"""Judges the columns of two models at the level that their question has left, for `cse compare` and `cse gate`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.answers.judge import Judgement, Terms, judge_models
from analysis.answers.models import Model
from analysis.answers.picks import CandidatePool, find_pick
from analysis.ledger import Ledger
from cse.compare.common_columns import CommonColumns
from cse.compare.loop import Loop, LoopQuestion, ask, log_find


@dataclass(frozen=True)
class QuestionJudgement:
    """Question about two models with its place in the log, and the judgement on each of its columns."""

    asked: LoopQuestion
    pool: CandidatePool | None
    """Sweep from whose cells a model was picked, which share the level of `asked`; None for no pick."""
    picked: str
    """Name of the picked model, of those that were given; "" for no pick."""
    terms: Terms
    """Terms of the judgements, at the question's own level."""
    judgements: Mapping[str, Judgement]

    def pick_lines(self) -> list[str]:
        """Returns lines on the pick for people; empty for none."""
        return self.pool.lines(self.picked, self.terms.family) if self.pool else []


def judge_question(
    common: CommonColumns,
    models: tuple[Model, Model],
    ledger: Ledger | None,
    terms: Terms,
    loop: Loop,
    candidates: Sequence[str],
) -> QuestionJudgement:
    """Logs the question, judges its columns at the level that is left, and logs whether one is better.

    `candidates` names the models, the first or both, that may have been picked of a sweep.
    """
    # Differences do not depend on the level, and the log wants them; the words need the level that it then gives.
    first = judge_models(common.columns, terms)
    differences = {column: judgement.difference or 0.0 for column, judgement in first.items()}
    asked = ask(loop, ledger, models, differences, terms.looks, terms.family, common.data, terms.over)
    sides = zip(candidates, (models, models[::-1]), strict=False)
    pools = {name: pool for name, (model, other) in sides if (pool := find_pick(model, other, ledger))}
    picked = max(pools, key=lambda name: pools[name].cells, default="")
    pool = pools.get(picked)
    shared = replace(terms, family=asked.level / (pool.cells if pool else 1))
    judgements = judge_models(common.columns, shared)
    if any(judgement.word == "better" for judgement in judgements.values()):
        asked = log_find(asked, ledger)
    return QuestionJudgement(asked, pool, picked, shared, judgements)
