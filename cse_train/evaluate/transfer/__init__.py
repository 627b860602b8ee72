"""SentEval's transfer tasks: their data, and the protocols that train classifiers on frozen embeddings.

A module with `score` is a protocol of its name: `senteval` and `fast` classify, `relatedness` predicts grades.
"""

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["loaders"]


def scorer(protocol: str) -> Callable[..., Any]:
    """`score` of a protocol, imported when it is asked for: a command that lists suites does without torch."""
    score: Callable[..., Any] = importlib.import_module(f"{__name__}.{protocol}").score
    return score
