"""Compares two models given by name: scores what lacks scores first, then compares by seeds, sentence pairs and
queries."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.answers.judge import judge_models
from analysis.answers.lookup import spaces_of_run
from analysis.answers.models import Model
from analysis.ledger import Ledger
from cse.cli import exit, options, screen
from cse.cli.loader import deferred
from cse.compare.by_pairs import PairComparison, compare_by_pairs
from cse.compare.by_queries import QueryComparison, compare_by_queries
from cse.compare.by_seeds import compare_by_seeds
from cse.compare.common_columns import CommonColumns, gather, suites_to_score
from cse.compare.question import DifferenceOptions, ModelOptions, ScoringOptions
from cse.compare.text import Comparison
from cse_train.data_paths import DataPaths
from cse_train.evaluate.judgements import load_judgements
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.fields import ConfigError
from cse_train.user_files import map_files

with deferred(__name__):
    from cse.compare import scoring as scoring
    from search_spaces import user_data
    from search_spaces.identity import user_files as user_files


@dataclass(frozen=True)
class Scoring:
    """Suites and settings with which models that lack scores are evaluated before a comparison."""

    suites: Sequence[str] | None
    """Suites to score; None means the suites of which the other model has scores."""
    paths: DataPaths
    pooler: str | None = None
    """Pooler of a plain encoder folder, which has none of its own."""
    max_length: int | None = None
    """Longest input in tokens; None for the model's own limit."""

    @classmethod
    def of(cls, scoring_options: ScoringOptions) -> "Scoring":
        """Reads suites given by name or by file, as `cse eval` takes them, and prints a line on what each file holds.

        Raises ConfigError for a file that cannot be read.
        """
        paths = options.data_paths(scoring_options.data, None, scoring_options.senteval)
        if not scoring_options.suite:
            return cls(None, paths, scoring_options.pooler, scoring_options.max_length)
        names, files = user_data.read_suites(list(scoring_options.suite), Path.cwd())
        paths = user_files.add_user_files(paths, files)
        exit.say(user_files.describe_files(paths))
        return cls(list(dict.fromkeys(names)), paths, scoring_options.pooler, scoring_options.max_length)

    def with_sets_of(self, models: Sequence[Model], ledger: Ledger | None) -> "Scoring":
        """Returns a copy with the user's data sets of the models' sweeps added; names already there are kept."""
        runs = [model.runs[0] for model in models if model.runs]
        spaces = [space for run in runs for space in spaces_of_run(run.signature, ledger)] if ledger else []
        files = map_files([*(file for space in spaces for file in space.files), *self.paths.files])
        return replace(self, paths=replace(self.paths, files=tuple(files.values())))


def compare_models(
    a: str,
    b: str,
    ledger: Ledger | None,
    difference: DifferenceOptions,
    naming: ModelOptions,
    evaluation: Scoring,
    top: int = 5,
    also: Sequence[str] = (),
) -> Comparison:
    """Compares A with B, and with each model of `also`; all comparisons share the level of `difference`.

    `top`: number of sentence pairs and queries to list. Raises ConfigError for models that have no column in common.
    """
    shared = replace(difference, level=difference.level / (1 + len(also)))
    model_pairs = [naming.read_two(a, other, ledger) for other in (b, *also)]  # all, before any is scored
    first, *others = [_compare(models, ledger, shared, evaluation, top) for models in model_pairs]
    return replace(first, also=others)


def _compare(
    models: tuple[Model, Model], ledger: Ledger | None, difference: DifferenceOptions, evaluation: Scoring, top: int
) -> Comparison:
    terms, columns = difference.terms(), difference.columns()
    evaluation = evaluation.with_sets_of(models, ledger)
    left, right = (score_model(model, other, columns, ledger, evaluation) for model, other in (models, models[::-1]))
    common = gather(left, right, ledger, columns, spans=difference.spans())
    pairs = compare_by_pairs(common.cosines, terms, sides=common.columns, columns=len(common.columns), top=top)
    queries = compare_by_queries(common.queries, terms, common.columns, top=top)
    texts, query_texts = _texts(pairs, common, evaluation.paths), _query_texts(queries, common, evaluation.paths)
    by_seeds = compare_by_seeds(common.columns, judge_models(common.columns, terms))
    return Comparison(left, right, terms, common, by_seeds, pairs, texts, queries, query_texts)


def score_model(
    model: Model, other: Model, columns: Sequence[str] | None, ledger: Ledger | None, evaluation: Scoring
) -> Model:
    """Returns the model with the scores that the comparison needs: all of a folder; of runs, the suites asked for."""
    if model.folder is not None:
        names = evaluation.suites or columns or suites_to_score(other, ledger, evaluation.paths)
        screen.note(f"scoring {model.name}")
        pooler, length = model.pooler or evaluation.pooler, model.max_length or evaluation.max_length
        scores = [scoring.score_folder(folder, names, evaluation.paths, pooler, length) for folder in model.folders]
        return replace(model, scores=scores)
    if evaluation.suites and ledger is not None:
        screen.note(f"scoring {len(model.runs)} runs of {model.name}")
        scoring.score_runs(model, evaluation.suites, ledger, evaluation.paths)
    return model


def _texts(pairs: Sequence[PairComparison], common: CommonColumns, paths: DataPaths) -> dict[str, Pairs]:
    """Returns column -> sentence pairs of sets whose disagreements are listed, if the data at hand are the
    scored ones."""
    texts = {}
    for column in (entry.column for entry in pairs if entry.disagreements):
        try:
            loaded = load_pairs(column, paths)
        except ConfigError:
            continue
        if loaded.content_hash == common.data.get(column):
            texts[column] = loaded
    return texts


def _query_texts(
    queries: Sequence[QueryComparison], common: CommonColumns, paths: DataPaths
) -> dict[str, Sequence[str]]:
    """Returns column -> queries of sets whose differences are listed, if the data at hand are the scored ones."""
    texts = dict[str, Sequence[str]]()
    for column in (entry.column for entry in queries if entry.apart):
        file = paths.data_set(column.partition(":")[0])
        with contextlib.suppress(ConfigError):
            if file is not None and (loaded := load_judgements(file)).content_hash == common.data.get(column):
                texts[column] = loaded.queries
    return texts
