"""Evaluation of a model on suites, single sets and tasks by name."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites import geometry, sts, transfer
from cse_train.evaluate.suites.registry import code_version, require_known, suite_of
from cse_train.evaluate.vectors import TextModel
from cse_train.fields import ConfigError, nearest
from cse_train.plugins import registry as plugins
from cse_train.results import Score

Options = Mapping[str, str | tuple[str, ...]]
"""Options of suites: name of a parameter of a suite's `evaluate` -> value; a suite has defaults for the rest."""


def options(
    protocol: str,
    mode: str,
    aggregation: str,
    queries: Sequence[str] | None = None,
    positives: Sequence[str] | None = None,
) -> Options:
    """Returns options from the words of a command line; None keeps a default. ConfigError lists every unknown word.

    `protocol` and `mode` are of the transfer tasks, `aggregation` of a year's STS subsets, `queries` the texts whose
    nearest neighbours `retrieval` lists, `positives` the pairs that count as such in `geometry`'s alignment.
    """
    choices = {
        "protocol": (protocol, get_args(transfer.Classifier)),
        "mode": (mode, get_args(transfer.Mode)),
        "aggregation": (aggregation, sts.AGGREGATIONS),
    }
    wrong = [
        f"unknown {option}: {option}={word}; {nearest(word, valid)}"
        for option, (word, valid) in choices.items()
        if word not in valid
    ]
    wrong += [
        f"unknown positives: positives={name}; valid: {', '.join(geometry.POSITIVES)}"
        for name in positives or []
        if name not in geometry.POSITIVES
    ]
    if wrong:
        raise ConfigError(wrong)
    lists = {"queries": tuple(queries or ()), "positives": tuple(positives or ())}
    chosen = {"protocol": protocol, "mode": mode, "aggregation": aggregation}
    return chosen | {name: words for name, words in lists.items() if words}


def evaluate(model: TextModel, paths: DataPaths, names: Sequence[str], options: Options) -> list[Score]:
    """Returns the scores of each suite, set and task in the order asked for; plug-ins are computed after all others.

    The order of computing keeps what a user's code leaves in the process from changing a shipped suite's score. Raises
    ConfigError for unknown names before anything is read, and for missing data where a suite begins.
    """
    require_known(names, paths)
    ours_first = sorted(dict.fromkeys(names), key=lambda name: plugins.get("suite", name) is not None)
    scores = {name: _scores(model, paths, name, options) for name in ours_first}
    return [score for name in dict.fromkeys(names) for score in scores[name]]


def _scores(model: TextModel, paths: DataPaths, name: str, options: Options) -> list[Score]:
    suite = suite_of(name, paths)
    accepted = inspect.signature(suite.evaluate).parameters
    chosen = {option: value for option, value in options.items() if option in accepted}
    if name != suite.NAME:
        chosen["members"] = (name,)
    scores: list[Score] = suite.evaluate(model, paths, **chosen)
    version = code_version(name)
    return [
        replace(
            score,
            protocol=replace(score.protocol, code_version=version, prompt=score.protocol.prompt or model.prompt),
        )
        for score in scores
    ]
