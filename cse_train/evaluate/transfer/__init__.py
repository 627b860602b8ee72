"""SentEval's transfer tasks: their data, and the protocols that train classifiers on frozen embeddings.

Each module with a function `score` is a protocol: `senteval` and `fast` classify, `relatedness` predicts grades.
"""

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["loaders"]


def scorer(protocol: str) -> Callable[..., Any]:
    """Returns the function `score` of a protocol, imported on demand so that listing suites does not import torch."""
    score: Callable[..., Any] = importlib.import_module(f"{__name__}.{protocol}").score
    return score
