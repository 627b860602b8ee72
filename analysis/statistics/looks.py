"""Terms declared before a table is made: the width of a tie, the interim analyses ("looks"), and the level of each.

A table that is looked at after 3, 5, 8 and 12 seeds is wrong in at most 5% of cases.
"""

import math
from collections.abc import Sequence

FAMILY = 0.05
"""Family-wise error rate: how often a table may say anything wrong."""
TIE_MARGIN = 0.5
"""Default width of a tie, in points: a difference that is surely smaller is a tie."""
LOOKS = (3, 5, 8, 12)
"""Numbers of seeds per row after which a table is analysed, where seeds are added until every row is decided."""
NOMINAL = {1: 0.05, 2: 0.025, 3: 0.0167, 4: 0.015}
"""Number of interim analyses ("looks") -> significance level of each. An equal share of 5% (Bonferroni) is always
enough.

For four looks Pocock (1977, Biometrika 64(2), Table 1) has 0.0182, where the variance is known and the looks are
equally far apart. With 3, 5, 8 and 12 seeds up to 5.9% of simulated tables are wrong at that level; for those at 0.015
see `python -m benchmarks.verdicts`.
"""


def looks_until(most: int) -> tuple[int, ...]:
    """Returns the numbers of seeds at which a table of up to `most` seeds is analysed: LOOKS below it, and `most`."""
    return (*[look for look in LOOKS[:-1] if look < most], most)


def level(
    contrasts: int, columns: int = 1, interim_analyses: Sequence[int] | None = None, family: float = FAMILY
) -> float:
    """Returns the significance level of one comparison at one interim analysis, shared equally by columns and
    contrasts.

    `interim_analyses` holds at most four numbers of seeds; `family` is the family-wise error rate, which they share
    equally.
    """
    share = NOMINAL[len(interim_analyses or (1,))] * (family / FAMILY)
    return share / max(1, columns) / max(1, contrasts)


def spend(question: int, candidates: int | None = None, family: float = FAMILY, finds: Sequence[int] = ()) -> float:
    """Returns the significance level of a loop's question, counted from 1, about candidates compared on one held-out
    set.

    Unannounced, the levels control the false discovery rate of `better`, half of a level, at `family` (LORD++, Ramdas
    et al. 2017, with W0 = alpha): the first question has the whole level and the k-th `family` (1 / sqrt(k - 1) -
    1 / sqrt(k)), and each candidate found but the first adds the same sequence, counted from there. `finds` holds the
    number of questions that had been asked when each find was known (Zrnic et al. 2021). No question has more than
    `family`. A loop whose number of `candidates` was announced takes as many places from `question`, the place of its
    first one, and shares their levels equally (Bonferroni), so that it says anything wrong with probability `family`
    at most.
    """
    places, starts = range(question, question + (candidates or 1)), (0, *finds[1:])
    levels = [min(1.0, sum(_tail(place - start - 1) - _tail(place - start) for start in starts)) for place in places]
    return family * min(1.0, sum(levels)) / len(places)


def level_left(questions: int, family: float = FAMILY, finds: Sequence[int] = ()) -> float:
    """Returns the sum of the levels of all further questions of an unannounced loop, of which so many were asked."""
    return family * sum(_tail(questions - start) for start in (0, *finds[1:]))


def _tail(questions: int) -> float:
    """Returns the part of a sequence of levels that `questions` of it leave, in units of the first one; 2 for none."""
    return 1 / math.sqrt(questions) if questions else 2.0
