"""SentEval's transfer tasks: their data, and the protocols that train classifiers on frozen embeddings.

A module with `score(splits, classes, recipe) -> Outcome` is a protocol of its name; `senteval` alone needs torch.
"""

import importlib
from collections.abc import Callable

from cse_train.evaluate.transfer.contract import Outcome


def scorer(protocol: str) -> Callable[..., Outcome]:
    """`score` of a protocol, imported when it is asked for: a command that lists suites does without torch."""
    score: Callable[..., Outcome] = importlib.import_module(f"{__name__}.{protocol}").score
    return score
