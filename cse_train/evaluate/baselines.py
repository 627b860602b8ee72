"""Baselines without training for the tables: bags of words, GloVe, the untrained encoder, and whitening.

All values are Spearman correlations times 100, NaN where a baseline's cosines are all equal.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from cse_train.encoder.pooling import make_pooled
from cse_train.encoder.reading_order import first_token_problem, reads_first
from cse_train.evaluate.correlation import round_cosines, spearman
from cse_train.evaluate.embedding import StsEvaluator, evaluating
from cse_train.evaluate.pairs import Pairs
from cse_train.text.vector_files import find_packaged, read_packaged

UNTRAINED_POOLERS = {
    "cls": "cls_no_mlp",
    "mean": "mean",
    "first_last": "first_last",
    "first_last_layer1": "first_last_layer1",
}
"""Row of the table -> pooler of the untrained encoder. An untrained MLP would be noise, so [CLS] has none."""
LAST_LAYER = "last"
"""Row and pooler that replace [CLS] for an encoder that has none, or that attends causally."""
WHITENED_POOLER = "first_last_layer1"
"""Pooler before whitening: released BERT-whitening averages layer 1 and the last (eng/utils.py, first-last-avg)."""
SMALLEST_VARIANCE = 1e-10
"""Smallest variance that whitening keeps, as a share of the largest; anything below is rounding."""
BASELINE_WORD = re.compile(r"\w+|[^\w\s]")
"""Pattern of a token of the bag-of-words baselines: a word or one punctuation mark."""

Vector = Mapping[str, float]
"""Sparse vector: word or axis -> value."""


def words(text: str) -> list[str]:
    """Returns lower-cased words and single punctuation marks, so that tokenised and raw text agree."""
    return BASELINE_WORD.findall(text.lower())


def word_counts(pairs: Pairs) -> float:
    """Scores cosines of word-count vectors on a graded set."""
    return _score(pairs, lambda text: Counter(words(text)))


def idf_bag_of_words(pairs: Pairs, texts: Iterable[str]) -> float:
    """Scores cosines of word counts times log((n + 1) / (df + 1)), document frequencies from the corpus `texts`."""
    frequency: Counter[str] = Counter()
    documents = 0
    for text in texts:
        frequency.update(set(words(text)))
        documents += 1

    def weigh(text: str) -> Vector:
        counts = Counter(words(text))
        return {word: count * math.log((documents + 1) / (frequency[word] + 1)) for word, count in counts.items()}

    return _score(pairs, weigh)


def glove_average(pairs: Pairs) -> float | None:
    """Scores cosines of mean GloVe 6B 50d vectors without unknown words; None unless the extra `glove` is installed."""
    files = find_packaged()
    if files is None:
        return None
    vocabulary = {word for text in (*pairs.left, *pairs.right) for word in words(text)}
    rows_VD = np.load(files[1], mmap_mode="r")
    table = {word: rows_VD[row] for row, word in enumerate(read_packaged(files[0])) if word in vocabulary}
    zero = np.zeros(50)

    def mean(text: str) -> Vector:
        vectors = [table[word] for word in words(text) if word in table]
        return {str(axis): value for axis, value in enumerate(np.mean(vectors, axis=0) if vectors else zero)}

    return _score(pairs, mean)


def score_untrained(backbone: Any, pairs: Pairs, max_length: int = 512) -> dict[str, float]:
    """Scores the untrained encoder, one row per way to pool, and "whitening". Restores the encoder's training mode."""
    evaluator = StsEvaluator(pairs, backbone.tokenizer, max_length, backbone.prompt)
    encoder = backbone.encoder
    with evaluating(encoder):
        poolers = UNTRAINED_POOLERS
        if first_token_problem(encoder, backbone.tokenizer):
            poolers = {
                LAST_LAYER: LAST_LAYER,
                **{row: pooler for row, pooler in UNTRAINED_POOLERS.items() if not reads_first(pooler)},
            }
        rows = {row: evaluator(make_pooled(encoder, pooler)).spearman for row, pooler in poolers.items()}
        # Whitened by the set's own sentences, each weighted by its number of pairs; the paper's "target" adds those of
        # the other splits. With no more distinct sentences than the encoder has dimensions, every two of them end
        # equally far apart, and the value says nothing.
        embeddings_UD = evaluator.embedder(make_pooled(encoder, WHITENED_POOLER))
        whitened_UD = whiten(embeddings_UD, embeddings_UD[evaluator.embedder.rows_N])
        return rows | {"whitening": evaluator.score(whitened_UD).spearman}


def whiten(embeddings_UD: np.ndarray, seen_ND: np.ndarray) -> np.ndarray:
    """Returns (x - mean) U / sqrt(s) of each row x, where U diag(s) U^T is the covariance of the rows `seen_ND`.

    Directions in which nothing varies are left out. Source: Su et al., BERT-whitening, 2021, eq. 3 to 6.
    """
    variances, axes = np.linalg.eigh(np.cov(seen_ND.T))
    varying = variances > variances.max() * SMALLEST_VARIANCE
    scaled: np.ndarray = (embeddings_UD - seen_ND.mean(0)) @ (axes[:, varying] / np.sqrt(variances[varying]))
    return scaled


def _score(pairs: Pairs, vector: Callable[[str], Vector]) -> float:
    cosines = [_cosine(vector(a), vector(b)) for a, b in zip(pairs.left, pairs.right, strict=True)]
    return spearman(round_cosines(np.array(cosines)), pairs.gold)


def _cosine(a: Vector, b: Vector) -> float:
    """Returns the cosine of two sparse vectors; 0 where one is empty."""
    scale = math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
    return sum(v * b.get(word, 0.0) for word, v in a.items()) / scale if scale else 0.0
