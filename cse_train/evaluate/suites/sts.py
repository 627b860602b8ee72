"""Suite `sts`: Spearman of cosines with grades on STS12-16, STS-B and SICK-R, without training (SimCSE's evaluation).

SentEval's texts are read as published: tokenised, and lower-cased but for SICK-R. Raw cased text gives other numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.correlation import find_unranked, spearman
from cse_train.evaluate.pairs import SEVEN, STS_YEARS, Pairs, load_pairs, suite_names
from cse_train.evaluate.vectors import TextModel, embed_pairs, sts_protocol
from cse_train.results import PairCosines, Score
from cse_train.text.files import texts_hash

AGGREGATIONS = ("all", "mean", "wmean")
"""Ways to make one number of the subsets of an STS year; `aggregate_subsets` explains them."""
NAME = "sts"
MEMBERS = tuple(suite_names())
COLUMNS = (*SEVEN, NAME, f"{NAME}:spearman_unrounded")
NEEDS = SEVEN


def evaluate(
    model: TextModel, paths: DataPaths, *, members: Sequence[str] = SEVEN, aggregation: str = "all"
) -> list[Score]:
    """Returns one score per set with its cosines, and the average of all seven where all are asked for.

    Every set is read and counted before anything is encoded. Raises ConfigError for an unknown, missing or truncated
    set.
    """
    loaded = [load_pairs(name, paths) for name in members]
    scores = [_score(model, pairs, aggregation) for pairs in loaded]
    return [*scores, *_averages({score.suite: score for score in scores})]


def aggregate_subsets(
    scores: np.ndarray, gold: np.ndarray, sizes: Sequence[int], aggregation: str = "all"
) -> tuple[float, list[float]]:
    """Returns the value of a set and of each of its subsets, which lie one after the other and have the given sizes.

    `all`: one correlation over all pairs. `mean`: the mean of the subsets' correlations (DeCLUTR). `wmean`: the mean
    weighted by pairs (BERT-flow, BERT-whitening). The three differ by several points and are never to be compared.
    """
    assert sum(sizes) == len(scores) == len(gold), (sizes, len(scores), len(gold))
    cuts = np.cumsum(sizes)[:-1]
    each = [spearman(a, b) for a, b in zip(np.split(scores, cuts), np.split(gold, cuts), strict=True)]
    if aggregation == "all":
        return spearman(scores, gold), each
    return float(np.average(each, weights=sizes if aggregation == "wmean" else None)), each


def _averages(scores: Mapping[str, Score]) -> list[Score]:
    """Returns the average of the seven sets in two forms, where all are among the scores; else nothing.

    `spearman` is the mean of the values rounded to 2 decimals, rounded again, as SimCSE's evaluation.py:182-188 prints
    it; `spearman_unrounded` is the plain mean.
    """
    if not scores.keys() >= set(SEVEN):
        return []
    values = {name: scores[name].value for name in SEVEN}
    hashes = texts_hash(scores[name].protocol.data_hash for name in SEVEN)
    protocol = replace(scores[SEVEN[0]].protocol, suite=NAME, data_hash=hashes, rule="mean of 7 sets")
    averages = {"spearman": average_of_rounded(values), "spearman_unrounded": float(np.mean(list(values.values())))}
    return [
        Score(suite=NAME, metric=metric, value=value, protocol=protocol, details={"sets": values})
        for metric, value in averages.items()
    ]


def average_of_rounded(values: Mapping[str, float]) -> float:
    """Returns the mean, rounded to 2 decimals, of values that are first rounded to 2 decimals."""
    return round(sum(round(value, 2) for value in values.values()) / len(values), 2)


def _score(model: TextModel, pairs: Pairs, aggregation: str) -> Score:
    sizes = STS_YEARS.get(pairs.name, {pairs.name: len(pairs)})  # a set without subsets is its only one
    cosines = embed_pairs(model.embed, pairs).cosines
    value, each = aggregate_subsets(cosines, pairs.gold, list(sizes.values()), aggregation)
    subsets = {
        name: {"pairs": size, "spearman": score} for (name, size), score in zip(sizes.items(), each, strict=True)
    }
    why = find_unranked(cosines, pairs.gold)
    if math.isnan(value) and not why:
        why = "the cosines or the ratings of one of its subsets are all equal"
    return Score(
        suite=pairs.name,
        metric="spearman",
        value=value,
        protocol=sts_protocol(pairs, model, aggregation=aggregation),
        details={"pairs": len(pairs), "subsets": subsets},
        unscored=why,
        cosines=PairCosines(cosines=cosines, gold=pairs.gold),
    )
