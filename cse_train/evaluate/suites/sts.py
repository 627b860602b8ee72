"""STS12-16, STS-B and SICK-R: Spearman of cosines with grades, no training (SimCSE's evaluation; reference_spec C1).

SentEval's texts are read as they lie: tokenised, and lower-cased but for SICK-R. Raw cased text gives other numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.pairs import STS_YEARS, Pairs, load_pairs, subset_sizes
from cse_train.evaluate.protocol import Result, sts_protocol
from cse_train.evaluate.sts import cosines, spearman
from cse_train.fields import ConfigError, nearest
from cse_train.text.sources import texts_hash

SETS = (*STS_YEARS, "sts_test", "sickr_test")
"""The seven of the papers' tables, in their order."""
AGGREGATIONS = ("all", "mean", "wmean")
AVERAGE = "sts"


@dataclass(frozen=True)
class ScoredPairs:
    """One set's result with what it was made of."""

    result: Result
    cosines: np.ndarray
    """float64 [pairs], in the order of the set."""
    gold: np.ndarray
    """float64 [pairs]."""


def evaluate(
    model: TextModel, paths: DataPaths, *, sets: Sequence[str] = SETS, aggregation: str = "all"
) -> list[Result]:
    """One result per set, and the average of all seven where all are asked for.

    Every set is read and counted before anything is encoded. Raises ConfigError for an unknown, missing or truncated
    set and for an unknown aggregation.
    """
    return with_average([scored.result for scored in score_sets(model, paths, sets, aggregation)])


def score_sets(model: TextModel, paths: DataPaths, sets: Sequence[str], aggregation: str = "all") -> list[ScoredPairs]:
    """As `evaluate`, per-pair cosines kept, without the average."""
    if aggregation not in AGGREGATIONS:
        raise ConfigError([f"unknown aggregation: aggregation={aggregation}; {nearest(aggregation, AGGREGATIONS)}"])
    loaded = [load_pairs(name, paths) for name in sets]
    return [_score(model, pairs, aggregation) for pairs in loaded]


def aggregated(
    scores: np.ndarray, gold: np.ndarray, sizes: Sequence[int], aggregation: str = "all"
) -> tuple[float, list[float]]:
    """The value of a set whose subsets of these sizes lie one after the other, and the value of each subset.

    `all`: one correlation over all pairs. `mean`: the mean of the subsets' correlations (DeCLUTR). `wmean`: the same
    weighted by pairs (BERT-flow, BERT-whitening). They differ by several points and are never to be compared.
    """
    assert sum(sizes) == len(scores) == len(gold), (sizes, len(scores), len(gold))
    cuts = np.cumsum(sizes)[:-1]
    each = [spearman(a, b) for a, b in zip(np.split(scores, cuts), np.split(gold, cuts), strict=True)]
    if aggregation == "all":
        return spearman(scores, gold), each
    return float(np.average(each, weights=sizes if aggregation == "wmean" else None)), each


def with_average(results: Sequence[Result]) -> list[Result]:
    """The results and, where the seven sets are among them, their average in two forms.

    `spearman` is the mean of the values rounded to 2 decimals, rounded again, as SimCSE's evaluation.py:182-188 prints
    it; `spearman_unrounded` is the plain mean.
    """
    found = {result.suite: result for result in results}
    if not found.keys() >= set(SETS):
        return list(results)
    values = {name: found[name].value for name in SETS}
    hashes = texts_hash(found[name].protocol.data_hash for name in SETS)
    protocol = replace(found[SETS[0]].protocol, suite=AVERAGE, data_hash=hashes, rule="mean of 7 sets")
    averages = {"spearman": average_of_rounded(values), "spearman_unrounded": float(np.mean(list(values.values())))}
    return [
        *results,
        *(
            Result(suite=AVERAGE, metric=metric, value=value, protocol=protocol, details={"sets": values})
            for metric, value in averages.items()
        ),
    ]


def average_of_rounded(values: Mapping[str, float]) -> float:
    """Mean of values that are rounded to 2 decimals first, itself so rounded."""
    return round(sum(round(value, 2) for value in values.values()) / len(values), 2)


def _score(model: TextModel, pairs: Pairs, aggregation: str) -> ScoredPairs:
    sizes = subset_sizes(pairs)
    embeddings = model.embed([*pairs.left, *pairs.right]).astype(np.float64)
    found = cosines(embeddings, np.arange(len(pairs)), np.arange(len(pairs), 2 * len(pairs)))
    value, each = aggregated(found, pairs.gold, list(sizes.values()), aggregation)
    subsets = {
        name: {"pairs": size, "spearman": score} for (name, size), score in zip(sizes.items(), each, strict=True)
    }
    protocol = sts_protocol(pairs, pooler=model.pooler, max_length=model.max_length, aggregation=aggregation)
    details = {"pairs": len(pairs), "subsets": subsets}
    result = Result(suite=pairs.name, metric="spearman", value=value, protocol=protocol, details=details)
    return ScoredPairs(result, found, pairs.gold)
