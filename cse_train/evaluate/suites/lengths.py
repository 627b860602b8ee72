"""Suite `lengths`: errors on pairs of texts of similar and of different length (ESimCSE tables 1 and 7).

Each STS test set is divided by |length of left - length of right| <= 3 or more. A part's error is the mean of
|cosine - gold / 5| times 100; rows of the paper are means over the seven sets, its gap is "<= 3" minus "> 3". The paper
names neither the unit of length nor whether differences are absolute; here they are absolute differences of words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import SEVEN, load_pairs
from cse_train.evaluate.vectors import TextModel, embed_pairs, sts_protocol
from cse_train.results import Score
from cse_train.text.files import texts_hash

NEAR_LENGTHS = 3
"""Largest difference in words between two texts that counts as near."""
HIGHEST_GRADE = 5.0
"""Divisor that scales grades to cosines, also SICK-R's grades of 1 to 5."""
NEAR_ERROR, FAR_ERROR = "mean_abs_error_near", "mean_abs_error_far"
NAME = "lengths"
COLUMNS = (*(f"{name}:{metric}" for name in (*SEVEN, NAME) for metric in (NEAR_ERROR, FAR_ERROR)), f"{NAME}:gap")
NEEDS = SEVEN
LOWER, UNRANKED = (NEAR_ERROR, FAR_ERROR), ("gap",)


LengthErrors = list[tuple[float, int]]
"""Mean |cosine - gold / 5| times 100 of a set's near and far pairs, each with its number of pairs."""


def evaluate(model: TextModel, paths: DataPaths) -> list[Score]:
    """Returns `mean_abs_error_near` and `_far` of each set, then as `lengths` their means over the sets, and the `gap`.

    Raises ConfigError for missing data, before anything is encoded.
    """
    loaded = [load_pairs(name, paths) for name in SEVEN]
    rule = f"lengths differ by at most {NEAR_LENGTHS} words or more, absolute, gold / {HIGHEST_GRADE:g}"
    scores: list[Score] = []
    errors: list[LengthErrors] = []
    for pairs in loaded:
        differences = length_differences(pairs.left, pairs.right)
        errors.append(length_errors(embed_pairs(model.embed, pairs).cosines, pairs.gold, differences))
        protocol = sts_protocol(pairs, model, aggregation="mean over pairs", rule=rule)
        scores += [
            Score(suite=pairs.name, metric=metric, value=value, protocol=protocol, details={"pairs": count})
            for metric, (value, count) in zip((NEAR_ERROR, FAR_ERROR), errors[-1], strict=True)
        ]
    joint = replace(
        scores[0].protocol,
        suite=NAME,
        aggregation=f"mean of {', '.join(pairs.name for pairs in loaded)}",
        split="test",
        data_hash=texts_hash(pairs.content_hash for pairs in loaded),
    )
    near, far = macro_means(errors)
    means = {NEAR_ERROR: near, FAR_ERROR: far, "gap": near - far}
    return [*scores, *(Score(suite=NAME, metric=m, value=value, protocol=joint) for m, value in means.items())]


def length_differences(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """Returns int64 [P]: |length of left - length of right| in tokens between blanks, as SentEval's text has them."""
    words = ((len(a.split()), len(b.split())) for a, b in zip(left, right, strict=True))
    return np.array([abs(a - b) for a, b in words], dtype=np.int64)


def length_errors(cosines_P: np.ndarray, gold_P: np.ndarray, differences_P: np.ndarray) -> LengthErrors:
    """Returns the mean errors of near pairs (lengths at most NEAR_LENGTHS apart) and of far ones; both must exist."""
    wrong = 100 * np.abs(cosines_P - gold_P / HIGHEST_GRADE)
    return [
        (float(part.mean()), len(part))
        for part in (wrong[differences_P <= NEAR_LENGTHS], wrong[differences_P > NEAR_LENGTHS])
    ]


def macro_means(errors: Iterable[LengthErrors]) -> tuple[float, float]:
    """Returns the mean error of near pairs and that of far pairs over sets, each set with equal weight."""
    near, far = np.mean([[value for value, _ in parts] for parts in errors], axis=0)
    return float(near), float(far)
