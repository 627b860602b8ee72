"""Two models by their names: scored where scores are lacking, and compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.ledger import Ledger
from cse.cli import screen
from cse.cli.loader import deferred
from cse.compare.by_pairs import PairComparison, compare_by_pairs
from cse.compare.by_seeds import compare_by_seeds
from cse.compare.gathered import Gathered, gather, suites_to_score
from cse.compare.question import DifferenceOptions, ModelOptions
from cse.compare.text import Comparison
from cse.tables.models import Model
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.fields import ConfigError

with deferred(__name__):
    from cse.compare import scoring as scoring


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


def compare_models(
    a: str,
    b: str,
    ledger: Ledger | None,
    difference: DifferenceOptions,
    named: ModelOptions,
    how: Scoring,
    top: int = 5,
) -> Comparison:
    """A against B; `top`: sentence pairs that are listed. ConfigError for models that have nothing in common."""
    terms, columns = difference.terms(), difference.columns()
    models = named.read_two(a, b, ledger)
    left, right = (_score(model, other, columns, ledger, how) for model, other in (models, models[::-1]))
    common = gather(left, right, ledger, columns, spans=difference.spans())
    pairs = compare_by_pairs(common.cosines, terms, sides=common.columns, columns=len(common.columns), top=top)
    texts = _texts(pairs, common, how.paths)
    return Comparison(left, right, terms, common, compare_by_seeds(common.columns, terms), pairs, texts)


def _score(model: Model, other: Model, columns: Sequence[str] | None, ledger: Ledger | None, how: Scoring) -> Model:
    """The model with the scores that the comparison needs: those of a folder, and of runs those that are asked for."""
    if model.folder is not None:
        names = how.suites or columns or suites_to_score(other, ledger)
        screen.note(f"scoring {model.name}")
        scores = scoring.score_folder(model.folder, names, how.paths, how.pooler, how.max_length)
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
