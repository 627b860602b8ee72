"""Results of a run and of its evaluations: points, an outcome, scores and their protocols. Imports no library.

These objects go from the evaluator through ranks, worker and ledger to the page: nothing on the way takes them apart.
"""

from cse_train.results.curve import Outcome, Point
from cse_train.results.scalar import Json, Scalar, Settings
from cse_train.results.scores import CODE_VERSION, DEV_SUFFIX, RULED, CosinesFile, PairCosines, Protocol, Score

__all__ = [
    "CODE_VERSION",
    "DEV_SUFFIX",
    "RULED",
    "CosinesFile",
    "Json",
    "Outcome",
    "PairCosines",
    "Point",
    "Protocol",
    "Scalar",
    "Score",
    "Settings",
]
