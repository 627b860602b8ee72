"""Suite `geometry`: alignment and uniformity on the unit sphere (Wang and Isola, 2020), and cosines by rating.

Both are computed over the whole set at once and not batch by batch (SimCSE issue 41). Shape suffixes: N sentences, P
pairs, D embedding size.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.vectors import EmbeddedPairs, TextModel, embed_pairs, sts_protocol, unit
from cse_train.results import Score

GEOMETRY_SET = "sts_test"
PAIRS_AT_ONCE = 512
"""Rows of the distance matrix held at once: 512 x 2758 doubles are 11 MB."""
RATINGS = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
"""Bins of human ratings, upper ends excluded but for the last (DiffCSE figure 2)."""
COSINE_EDGES = np.linspace(-1.0, 1.0, 41)
"""Edges of the 40 bins in which cosines are counted."""

POSITIVES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gold > 4": lambda gold: gold > 4,
    "gold >= 4": lambda gold: gold >= 4,
    "gold == 5": lambda gold: gold == 5,
}
"""Name -> rule that says which pairs count as positive, since no paper says it: STS-B test has 231, 338 and 97."""
POSITIVE_RULES = ("gold > 4", "gold == 5")
"""Rules of POSITIVES that are scored unless others are asked for."""
NAME = "geometry"
COLUMNS = (
    *(f"{GEOMETRY_SET}:alignment (positives {rule})" for rule in POSITIVE_RULES),
    f"{GEOMETRY_SET}:uniformity",
    f"{GEOMETRY_SET}:mean_cosine",
)
NEEDS = (GEOMETRY_SET,)
LOWER, UNRANKED = ("alignment", "uniformity"), ("mean_cosine",)
SPANS = dict.fromkeys((*LOWER, *UNRANKED), 1.0)
"""Metric -> width of its range for comparisons: a difference in distance counts like one in cosine."""


def evaluate(model: TextModel, paths: DataPaths, *, positives: Sequence[str] = POSITIVE_RULES) -> list[Score]:
    """Scores STS-B test: `alignment` for each rule of POSITIVES asked for, `uniformity` over all 2758 sentences, and
    `mean_cosine` of the pairs, whose details hold the cosines by rating. Raises ConfigError for missing data."""
    embedded = embed_pairs(model.embed, load_pairs(GEOMETRY_SET, paths))
    points = embedded.sentences
    spread = uniformity(embedded.unit_UD[points])
    ratings = cosines_by_rating(embedded.cosines, embedded.pairs.gold)
    edges = COSINE_EDGES.tolist()
    measured = [
        *(_alignment(embedded, name) for name in positives),
        ("uniformity", "all sentences", spread, {"points": len(points)}),
        ("mean_cosine", "all pairs", float(embedded.cosines.mean()), {"by_rating": ratings, "edges": edges}),
    ]
    return [
        Score(
            suite=GEOMETRY_SET,
            metric=metric,
            value=value,
            protocol=sts_protocol(embedded.pairs, model, aggregation="whole set", rule=rule),
            details=details,
        )
        for metric, rule, value, details in measured
    ]


def alignment(left_PD: np.ndarray, right_PD: np.ndarray) -> float:
    """Returns mean |f(x) - f(x+)|^2 over positive pairs, every row scaled to length 1; NaN where there is no pair."""
    distances = ((unit(left_PD) - unit(right_PD)) ** 2).sum(axis=1)
    return float(distances.mean()) if len(distances) else math.nan


def uniformity(embeddings_ND: np.ndarray) -> float:
    """Returns log mean exp(-2 |f(x) - f(y)|^2) over pairs i < j of rows scaled to length 1, so never a row with itself.

    NaN for fewer than two rows. Rows that are equal count as pairs at distance 0. Memory is PAIRS_AT_ONCE x N.
    """
    unit_ND = unit(embeddings_ND)
    rows = len(unit_ND)
    if rows < 2:
        return math.nan
    total = sum(_block_sum(unit_ND, first) for first in range(0, rows, PAIRS_AT_ONCE))
    return math.log(2 * total / (rows * (rows - 1)))


def _block_sum(unit_ND: np.ndarray, first: int) -> float:
    """Returns the sum of exp(-2 |x - y|^2) over rows i of one block and all j > i."""
    block = unit_ND[first : first + PAIRS_AT_ONCE]
    after = unit_ND[first:]
    lengths = (block**2).sum(1)[:, None] + (after**2).sum(1)
    # Rounding can make the squared distance of equal rows a little negative.
    distances = np.maximum(lengths - 2 * (block @ after.T), 0.0)
    return float(np.triu(np.exp(-2 * distances), k=1).sum())


def cosines_by_rating(cosines_P: np.ndarray, gold_P: np.ndarray) -> list[dict[str, object]]:
    """Returns one entry per bin of RATINGS: its ends, `pairs`, mean and standard deviation of the cosines, and their
    counts between COSINE_EDGES (values beyond the ends by rounding are counted in the end bins)."""
    lines = []
    for low, high in RATINGS:
        inside = (gold_P >= low) & ((gold_P < high) | (high == RATINGS[-1][1]) & (gold_P <= high))
        lines.append({"from": low, "to": high, **_summary(cosines_P[inside])})
    return lines


def _summary(cosines: np.ndarray) -> dict[str, object]:
    counts = np.histogram(np.clip(cosines, -1.0, 1.0), COSINE_EDGES)[0]
    some = len(cosines) > 0
    return {
        "pairs": len(cosines),
        "mean": float(cosines.mean()) if some else None,
        "sd": float(cosines.std()) if some else None,
        "counts": counts.tolist(),
    }


def _alignment(embedded: EmbeddedPairs, positives: str) -> tuple[str, str, float, Mapping[str, object]]:
    """Returns metric, rule, value and details of the alignment under one rule of POSITIVES."""
    chosen = POSITIVES[positives](embedded.pairs.gold)
    left, right = embedded.unit_UD[embedded.left_rows[chosen]], embedded.unit_UD[embedded.right_rows[chosen]]
    return "alignment", f"positives {positives}", alignment(left, right), {"pairs": int(chosen.sum())}
