"""Scores models that a paper prints and nobody trains, and stores the scores in the ledger."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from analysis.ledger import Ledger, UntrainedScore
from cse_train.backbone.folders import content_hash, locate
from cse_train.data_paths import DataPaths
from cse_train.evaluate.embedding import NotFinite
from cse_train.evaluate.models import open_model
from cse_train.evaluate.run_suites import evaluate
from cse_train.evaluate.suites.registry import columns, data_hash
from cse_train.evaluate.vectors import TextModel
from cse_train.fields import ConfigError
from cse_train.plugins.apart import call_apart
from cse_train.plugins.snapshot import code_of
from cse_train.results import Score
from cse_train.text.files import file_hash
from cse_train.text.vector_files import word_vectors_file
from search_spaces.cells import ResolvedSpace
from search_spaces.identity.missing_inputs import lack_of
from search_spaces.paper import Evaluated

Tell = Callable[[str], object]
"""Callback that takes a line before work that takes long."""
Reasons = dict[str, str]
"""Label of a table's row -> why a score of its model is missing."""


def score_models(spaces: Iterable[ResolvedSpace], ledger: Ledger, paths: DataPaths, tell: Tell) -> list[Reasons]:
    """Scores the untrained models of each table on suites that the ledger lacks; returns reasons for missing scores.

    Nothing is computed twice; a model or a suite that lacks an input is left out.
    """
    scorer = _Scorer(ledger, paths, tell)
    return [_score_table(resolved, scorer) for resolved in spaces]


def _score_table(resolved: ResolvedSpace, scorer: "_Scorer") -> Reasons:
    paper, reasons = resolved.space.paper, dict[str, list[str]]()
    models = resolved.evaluated()
    for row in paper.references if paper else ():
        model = models.get(row.label)
        if paper is None or model is None:
            continue
        missing_input = lack_of(model, scorer.paths)
        suites = dict.fromkeys(paper.suites_of(row, resolved.space.evaluate).values())
        lines = [missing_input] if missing_input else [scorer.reason(model, suite) for suite in suites]
        reasons[row.label] = [line for line in dict.fromkeys(lines) if line]
    return {label: "; ".join(lines) for label, lines in reasons.items() if lines}


@dataclass
class _Scorer:
    """Scores untrained models suite by suite; keeps hashes of data, the last model and reasons for missing scores."""

    ledger: Ledger
    paths: DataPaths
    tell: Tell
    reasons: dict[tuple[Evaluated, str], str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    opened: tuple[Evaluated, TextModel] | None = None
    """The model that was opened last; only one is kept, since two large ones may not fit in memory."""

    def reason(self, model: Evaluated, suite: str) -> str:
        """Returns why a suite cannot score a model; "" once the ledger has its scores."""
        if (model, suite) not in self.reasons:
            try:
                self._score(model, suite)
                self.reasons[model, suite] = ""
            except (ConfigError, NotFinite) as error:
                self.reasons[model, suite] = "; ".join(getattr(error, "problems", [str(error)]))
        return self.reasons[model, suite]

    def _score(self, model: Evaluated, suite: str) -> None:
        """Scores one suite, unless the ledger has all of its columns for the same weights and data."""
        name, pooler = model.key
        if suite not in self.data:
            self.data[suite] = data_hash(suite, self.paths)
        place = word_vectors_file(name, self.paths) if model.vectors else locate(name)
        weights = file_hash(place) if model.vectors else content_hash(place)
        data = self.data[suite]
        inputs = (name, weights, pooler, data)
        scored = {
            s.suite for s in self.ledger.untrained_scores() if (s.model, s.model_hash, s.pooler, s.data_hash) == inputs
        }
        if scored.issuperset(columns(suite)):
            return
        self.tell(f"scoring without training: {name}, {pooler}, on {suite}")
        if code_of("", [suite]):
            scores = call_apart(_evaluate, place, model.pooler, suite, self.paths)
        else:
            if self.opened is None or self.opened[0] != model:
                self.opened = model, open_model(place, pooler=model.pooler)
            scores = evaluate(self.opened[1], self.paths, [suite], {})
        values = [score.value if np.isfinite(score.value) else None for score in scores]
        self.ledger.store_untrained(
            [
                UntrainedScore(name, weights, pooler, score.column, data, value, score.protocol)
                for score, value in zip(scores, values, strict=True)
            ]
        )


def _evaluate(place: Path, pooler: str | None, suite: str, paths: DataPaths) -> list[Score]:
    return evaluate(open_model(place, pooler=pooler), paths, [suite], {})
