"""Scores what a table prints and nobody trains, and stores it in the ledger: rows of encoders, and models of papers.

Rows of a table's encoders are untrained poolers, whitening, word counts, an idf bag of words and, where installed,
GloVe. Models of a paper are those of its rows with `evaluated:`. Nothing is computed twice.
"""

import contextlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from analysis.answers.baselines import UNTRAINED_NAMES, distinct, key_of
from analysis.answers.build import columns_of
from analysis.ledger import Baselines, Ledger, UntrainedScore
from analysis.ledger.baselines import Key
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.folders import content_hash, locate
from cse_train.encoder.identity import backbone_identity, prompt_identity
from cse_train.evaluate import baselines as rows
from cse_train.evaluate.embedding import NotFinite
from cse_train.evaluate.models import open_model
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.run_suites import evaluate
from cse_train.evaluate.suites.registry import columns, data_hash
from cse_train.evaluate.vectors import TextModel
from cse_train.fields import ConfigError
from cse_train.plugins.snapshot import call_apart, code_of
from cse_train.results import Score
from cse_train.text.corpora import open_source
from cse_train.text.files import file_hash
from cse_train.text.vector_files import names_vectors, word_vectors_file
from search_spaces.cells import ResolvedSpace, setups
from search_spaces.identity.missing_inputs import lack_of
from search_spaces.paper import Evaluated

ROWS_VERSION = "2"
"""Version of the computed rows; raised when they change, so that stored ones are computed again."""
IDF = "idf bag of words"
Tell = Callable[[str], object]
"""Callback that takes a line before work that takes long."""
Reasons = dict[str, str]
"""Label of a table's row -> why a score of its model is missing."""


def ensure(resolved: ResolvedSpace, ledger: Ledger, paths: DataPaths) -> None:
    """Computes and stores the rows of untrained encoders that a space's table lacks.

    Left out are sets whose data are not at hand, and runs on word vectors, which are no encoder before training.
    """
    stored = {entry.key: entry for entry in ledger.baselines()}
    encoders = [setup for setup in distinct(setups(resolved)) if not names_vectors(str(setup["train.encoder"]))]
    for key in (key_of(setup, column) for setup in encoders for column in columns_of(resolved)):
        with contextlib.suppress(ConfigError):
            required = Baselines(*key, _inputs(key, paths), {})
            if key not in stored or stored[key].inputs != required.inputs:
                alike = _without_corpus(required)
                shared = next((other.rows for other in stored.values() if _without_corpus(other) == alike), None)
                if shared is None and sys.stderr.isatty():
                    print(f"scoring the rows without training on {key[0]} ...", file=sys.stderr, flush=True)
                stored[key] = replace(required, rows=_compute(key, paths, shared))
                ledger.store_baselines([stored[key]])


def _without_corpus(entry: Baselines) -> tuple[str, int, dict[str, str]]:
    """Returns the inputs of all rows except the idf bag of words, which alone depends on the corpus."""
    inputs = {name: value for name, value in entry.inputs.items() if name != "corpus"}
    return entry.suite, entry.dev_max_length, inputs


def _inputs(key: Key, paths: DataPaths) -> dict[str, str]:
    """Returns content hashes of the inputs from which the rows are computed."""
    suite, encoder, corpus, _ = key
    prompt = prompt_identity(encoder, None)
    return {
        **({"prompt": prompt} if prompt else {}),
        "rows": ROWS_VERSION,
        "encoder": backbone_identity(encoder)[0],
        "corpus": open_source(corpus, paths).content_hash,
        "suite": load_pairs(suite, paths).content_hash,
    }


def _compute(key: Key, paths: DataPaths, shared: Mapping[str, float] | None) -> dict[str, float]:
    """Returns row name -> score on one set, without rows whose cosines cannot be ranked.

    `shared`: rows of the same encoder and set, computed for another corpus, of which only the idf row is computed anew.
    """
    suite, encoder, corpus, length = key
    pairs = load_pairs(suite, paths)
    values = dict(shared or {})
    if shared is None:
        scores = rows.score_untrained(load_backbone(encoder), pairs, length)
        values = {UNTRAINED_NAMES.get(name, f"untrained {name}"): value for name, value in scores.items()}
        values["word counts"] = rows.word_counts(pairs)
    values[IDF] = rows.idf_bag_of_words(pairs, (row[0] for row in open_source(corpus, paths).rows()))
    if shared is None and (glove := rows.glove_average(pairs)) is not None:
        values["GloVe-50d average"] = glove
    return {name: value for name, value in values.items() if math.isfinite(value)}


def score_models(spaces: Iterable[ResolvedSpace], ledger: Ledger, paths: DataPaths, tell: Tell) -> list[Reasons]:
    """Scores the paper's models of each table on suites that the ledger lacks; returns reasons for missing scores.

    A model or a suite that lacks an input is left out.
    """
    scorer, reasons = _Scorer(ledger, paths, tell), list[Reasons]()
    for resolved in spaces:
        models, reasons_of_table = resolved.evaluated(), Reasons()
        paper = resolved.space.paper
        for row in paper.references if paper else ():
            if paper is None or (model := models.get(row.label)) is None:
                continue
            suites = paper.suites_of(row, resolved.space.evaluate).values()
            missing_input = lack_of(model, paths)
            lines = [missing_input] if missing_input else [scorer.reason(model, suite) for suite in suites]
            if reason := "; ".join(filter(None, dict.fromkeys(lines))):
                reasons_of_table[row.label] = reason
        reasons.append(reasons_of_table)
    return reasons


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
        values = [score.value if math.isfinite(score.value) else None for score in scores]
        self.ledger.store_untrained(
            [
                UntrainedScore(name, weights, pooler, score.column, data, value, score.protocol)
                for score, value in zip(scores, values, strict=True)
            ]
        )


def _evaluate(place: Path, pooler: str | None, suite: str, paths: DataPaths) -> list[Score]:
    return evaluate(open_model(place, pooler=pooler), paths, [suite], {})
