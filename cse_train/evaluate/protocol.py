"""Scores as suites return them, and the protocol of a graded set: the module that authors of suites import."""

from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.pairs import Pairs
from cse_train.results import CODE_VERSION as CODE_VERSION
from cse_train.results import DEV_SUFFIX as DEV_SUFFIX
from cse_train.results import RULED as RULED
from cse_train.results import PairCosines as PairCosines
from cse_train.results import Protocol as Protocol
from cse_train.results import Score as Score


def sts_protocol(pairs: Pairs, model: TextModel, *, aggregation: str = "all", rule: str = "") -> Protocol:
    """Returns the protocol of a model's cosines on a graded set."""
    return Protocol(
        suite=pairs.name,
        pooler=model.pooler,
        aggregation=aggregation,
        split=pairs.split,
        max_length=model.max_length,
        rule=rule,
        data_hash=pairs.content_hash,
    )
