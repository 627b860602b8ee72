"""What is declared before a table is made: how narrow a tie is, when it is looked at, and what each look may spend.

Looked at after 3, 5, 8 and 12 seeds, a table is wrong in at most 5%.
"""

from collections.abc import Sequence

FAMILY = 0.05
"""How often a table may say anything wrong."""
TIE_MARGIN = 0.5
"""Points: a difference that is surely smaller is a tie."""
LOOKS = (3, 5, 8, 12)
"""Seeds of every row at which a table that is made until it is decided is looked at."""
NOMINAL = {1: 0.05, 2: 0.025, 3: 0.0167, 4: 0.015}
"""Number of looks -> level of each. An equal share of 5% (Bonferroni) is always enough.

For four looks Pocock (1977, Biometrika 64(2), Table 1) has 0.0182, where the variance is known and the looks are
equally far apart. With 3, 5, 8 and 12 seeds up to 5.9% of simulated tables are wrong at that level; for those at 0.015
see `python -m benchmarks.verdicts`."""


def looks_until(most: int) -> tuple[int, ...]:
    """The numbers of seeds at which a table is looked at that may get `most`, at least 2: LOOKS below it, and it."""
    return (*[look for look in LOOKS[:-1] if look < most], most)


def level(contrasts: int, columns: int = 1, looks: Sequence[int] | None = None, family: float = FAMILY) -> float:
    """The level of one contrast at one look: an equal share for each column of the table and each of its contrasts.

    `looks` are at most four; `family` is how often anything may be wrong, of which a look has the same part.
    """
    return NOMINAL[len(looks) if looks else 1] * (family / FAMILY) / max(1, columns) / max(1, contrasts)


def spend(question: int, candidates: int | None = None, family: float = FAMILY) -> float:
    """The level of a loop's question, counted from 1, about candidates that are all compared on one held-out set.

    `candidates`: how many were announced before the first, which have equal shares (Bonferroni), so that a loop says
    anything wrong with probability `family` at most. Unannounced, the first has the whole level and the k-th
    `family` / (k (k + 1)): half of `family` for all others together, however many. Half of a level is that of a wrong
    `better`, so that such a loop names a candidate that is not better with probability 3/4 of `family` at most.
    """
    if candidates is not None:
        return family / candidates
    return family if question == 1 else family / (question * (question + 1))
