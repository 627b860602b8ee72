"""Evaluations by name: groups of them (`sts`, `transfer`, ...), and single sets and tasks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.protocol import Result
from cse_train.evaluate.suites import declutr, geometry, lengths, repetition, retrieval, sts
from cse_train.evaluate.suites.registry import is_known, names
from cse_train.evaluate.suites.sts import ScoredPairs, score_sets, with_average
from cse_train.evaluate.suites.transfer import suite as transfer
from cse_train.evaluate.suites.transfer.loaders import TASKS
from cse_train.fields import ConfigError, nearest

Store = Callable[[ScoredPairs], object]
"""What to do with the per-pair cosines of a graded set."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What may be chosen; each suite reads what concerns it and states it in its protocol."""

    aggregation: str = "all"
    """Of a year's subsets: all, mean or wmean."""
    classifier: transfer.Classifier = "senteval"
    """Protocol of the transfer tasks."""
    mode: transfer.Mode = "test"
    """What the transfer tasks report."""
    queries: tuple[str, ...] = retrieval.QUERIES
    """Texts whose nearest neighbours `retrieval` lists."""
    positives: tuple[str, ...] = ("gold > 4", "gold == 5")
    """Pairs that count as positives of `geometry`'s alignment."""


SUITES: dict[str, Callable[[TextModel, DataPaths, Options], list[Result]]] = {
    "transfer": lambda model, paths, chosen: transfer.evaluate(
        model, paths, protocol=chosen.classifier, mode=chosen.mode
    ),
    "transfer_dev": lambda model, paths, chosen: transfer.evaluate(
        model, paths, protocol=chosen.classifier, mode="dev"
    ),
    "retrieval": lambda model, paths, chosen: retrieval.evaluate(model, paths, queries=chosen.queries),
    "geometry": lambda model, paths, chosen: geometry.evaluate(model, paths, positives=chosen.positives),
    "lengths": lambda model, paths, chosen: lengths.evaluate(model, paths),
    "repetition": lambda model, paths, chosen: repetition.evaluate(model, paths),
    "declutr": lambda model, paths, chosen: declutr.score(model, paths),
}
"""The groups beside `sts`, whose cosines can be kept."""


def options(
    classifier: str,
    mode: str,
    aggregation: str,
    queries: Sequence[str] | None = None,
    positives: Sequence[str] | None = None,
) -> Options:
    """Options from words of a command line; None keeps a default. ConfigError lists every unknown word."""
    choices = {
        "protocol": (classifier, get_args(transfer.Classifier)),
        "mode": (mode, get_args(transfer.Mode)),
        "aggregation": (aggregation, sts.AGGREGATIONS),
    }
    wrong = [
        f"unknown {what}: {what}={given}; {nearest(given, known)}"
        for what, (given, known) in choices.items()
        if given not in known
    ]
    known = geometry.POSITIVES
    wrong += [
        f"unknown positives: positives={name}; valid: {', '.join(known)}"
        for name in positives or []
        if name not in known
    ]
    if wrong:
        raise ConfigError(wrong)
    own = {"queries": tuple(queries or ()), "positives": tuple(positives or ())}
    return Options(
        aggregation=aggregation,
        classifier=cast(transfer.Classifier, classifier),
        mode=cast(transfer.Mode, mode),
        **{name: given for name, given in own.items() if given},
    )


def evaluate(
    model: TextModel, paths: DataPaths, wanted: Sequence[str], chosen: Options, store: Store | None = None
) -> list[Result]:
    """The results of each suite in the order asked for; `store` gets every graded set with its cosines.

    Raises ConfigError for unknown names before anything is read, and for missing data where a suite begins.
    """
    wrong = [f"unknown suite: suite={name}; {nearest(name, names())}" for name in wanted if not is_known(name)]
    if wrong:
        raise ConfigError(wrong)
    return [result for name in dict.fromkeys(wanted) for result in _results(model, paths, name, chosen, store)]


def _results(model: TextModel, paths: DataPaths, name: str, chosen: Options, store: Store | None) -> list[Result]:
    if name in SUITES:
        return SUITES[name](model, paths, chosen)
    if name in TASKS:
        return transfer.evaluate(model, paths, protocol=chosen.classifier, mode=chosen.mode, tasks=(name,))
    found = score_sets(model, paths, sts.SETS if name == "sts" else (name,), chosen.aggregation)
    if store is not None:
        for scored in found:
            store(scored)
    return with_average([scored.result for scored in found])
