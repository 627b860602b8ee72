"""Two models by their names: scored where scores are lacking, and compared."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.answers.lookup import spaces_of_run
from analysis.answers.models import Model
from analysis.ledger import Ledger
from cse.cli import exit, options, screen
from cse.cli.loader import deferred
from cse.compare.by_pairs import PairComparison, compare_by_pairs
from cse.compare.by_queries import QueryComparison, compare_by_queries
from cse.compare.by_seeds import compare_by_seeds
from cse.compare.gathered import Gathered, gather, suites_to_score
from cse.compare.question import DifferenceOptions, ModelOptions, ScoringOptions
from cse.compare.text import Comparison
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.evaluate.user_sets.judgements import load_judgements
from cse_train.fields import ConfigError
from cse_train.user_files import map_files

with deferred(__name__):
    from cse.compare import scoring as scoring
    from search_spaces.identity import user_files as user_files
    from search_spaces.user_data import references as references


@dataclass(frozen=True)
class Scoring:
    """How what lacks a score gets it."""

    suites: Sequence[str] | None
    """None for those that the other model has scores of."""
    paths: DataPaths
    pooler: str | None = None
    """Of a plain encoder, which brings none."""
    max_length: int | None = None
    """Tokens."""

    @classmethod
    def of(cls, given: ScoringOptions) -> "Scoring":
        """Of suites by name or by their files, as `cse eval` takes them; a line says what each file holds.

        ConfigError for a file that cannot be read.
        """
        paths = options.data_paths(given.data, None, given.senteval)
        if not given.suite:
            return cls(None, paths, given.pooler, given.max_length)
        names, files = references.read_suites(list(given.suite), Path.cwd())
        paths = user_files.add_user_files(paths, files)
        exit.say(user_files.describe_files(paths))
        return cls(list(dict.fromkeys(names)), paths, given.pooler, given.max_length)

    def with_sets_of(self, models: Sequence[Model], ledger: Ledger | None) -> "Scoring":
        """With the user's own sets that the models' sweeps name, but for names that are given already."""
        runs = [model.runs[0] for model in models if model.runs]
        spaces = [space for run in runs for space in spaces_of_run(run.signature, ledger)] if ledger else []
        files = map_files([*(file for space in spaces for file in space.files), *self.paths.files])
        return replace(self, paths=replace(self.paths, files=tuple(files.values())))


def compare_models(
    a: str,
    b: str,
    ledger: Ledger | None,
    difference: DifferenceOptions,
    named: ModelOptions,
    how: Scoring,
    top: int = 5,
    also: Sequence[str] = (),
) -> Comparison:
    """A against B, and against each of `also`, which share the level; `top`: sentence pairs and queries to list.

    ConfigError for models that have nothing in common.
    """
    shared = replace(difference, level=difference.level / (1 + len(also)))
    read = [named.read_two(a, other, ledger) for other in (b, *also)]  # all, before any is scored
    first, *others = [_compare(models, ledger, shared, how, top) for models in read]
    return replace(first, also=others)


def _compare(
    models: tuple[Model, Model], ledger: Ledger | None, difference: DifferenceOptions, how: Scoring, top: int
) -> Comparison:
    terms, columns = difference.terms(), difference.columns()
    how = how.with_sets_of(models, ledger)
    left, right = (score_model(model, other, columns, ledger, how) for model, other in (models, models[::-1]))
    common = gather(left, right, ledger, columns, spans=difference.spans())
    pairs = compare_by_pairs(common.cosines, terms, sides=common.columns, columns=len(common.columns), top=top)
    queries = compare_by_queries(common.queries, terms, common.columns, top=top)
    texts, asked = _texts(pairs, common, how.paths), _query_texts(queries, common, how.paths)
    by_seeds = compare_by_seeds(common.columns, terms)
    return Comparison(left, right, terms, common, by_seeds, pairs, texts, queries, asked)


def score_model(
    model: Model, other: Model, columns: Sequence[str] | None, ledger: Ledger | None, how: Scoring
) -> Model:
    """The model with the scores that the comparison needs: those of a folder, and of runs those that are asked for."""
    if model.folder is not None:
        names = how.suites or columns or suites_to_score(other, ledger, how.paths)
        screen.note(f"scoring {model.name}")
        pooler, length = model.pooler or how.pooler, model.max_length or how.max_length
        scores = [scoring.score_folder(folder, names, how.paths, pooler, length) for folder in model.folders]
        return replace(model, scores=scores)
    if how.suites and ledger is not None:
        screen.note(f"scoring {len(model.runs)} runs of {model.name}")
        scoring.score_runs(model, how.suites, ledger, how.paths)
    return model


def _texts(pairs: Sequence[PairComparison], common: Gathered, paths: DataPaths) -> dict[str, Pairs]:
    """The sets whose disagreements are listed, as far as they are at hand and are those that were scored."""
    texts = {}
    for column in (entry.column for entry in pairs if entry.disagreements):
        try:
            loaded = load_pairs(column, paths)
        except ConfigError:
            continue
        if loaded.content_hash == common.data.get(column):
            texts[column] = loaded
    return texts


def _query_texts(queries: Sequence[QueryComparison], common: Gathered, paths: DataPaths) -> dict[str, Sequence[str]]:
    """The queries of the sets whose differences are listed, as `_texts`."""
    texts = dict[str, Sequence[str]]()
    for column in (entry.column for entry in queries if entry.apart):
        file = paths.data_set(column.partition(":")[0])
        with contextlib.suppress(ConfigError):
            if file is not None and (loaded := load_judgements(file)).content_hash == common.data.get(column):
                texts[column] = loaded.queries
    return texts
