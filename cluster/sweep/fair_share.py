"""How many runs a driver may have at once, beside the other drivers of its ledger: caps of users, shares of a cluster.

Users who want more than a Ray cluster holds share it by their priorities, and a user's drivers share what the user
gets; what one does not want goes to the others. Shares are fractions of the cluster, so runs of different sizes
compare. Of a share of 1.5 runs a driver has 1 in one half of the turns and 2 in the other.
"""

import contextlib
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from analysis.ledger import Ledger, LedgerError
from analysis.ledger.cluster_log import Driver

SHARE_LOOK_S = 3.0
"""Seconds between two looks at the other drivers."""
SPARE_S = 15.0
"""Seconds that room for a run must have been free until a driver takes it beyond its share: those to whom it belongs
begin their runs within a few."""
TURN_S = 300.0
"""Seconds in which a part of a slot is one driver's; a change of hands costs a start of a worker group."""
GOLDEN = (5**0.5 - 1) / 2
"""The turns are its multiples: they fill the circle evenly, however many there are."""


def fill(total: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Parts of `total` by weight, none more than is wanted; what one leaves goes to the others by weight."""
    parts, left = [0.0] * len(wanted), set(range(len(wanted)))
    while left:
        level = total / sum(weights[i] for i in left)
        content = {i for i in left if wanted[i] <= level * weights[i]}
        for i in content or left:
            parts[i] = wanted[i] if content else level * weights[i]
            total -= parts[i] if content else 0.0
        left = left - content if content else set()
    return parts


def round_by_turn(parts: Sequence[float], turn: float) -> list[int]:
    """Whole numbers with the sum of `parts`, each its part rounded up or down: over all turns, 0 to 1, its mean."""
    ends = [sum(parts[:count]) + turn + 1e-6 for count in range(len(parts) + 1)]
    return [math.floor(end) - math.floor(begin) for begin, end in itertools.pairwise(ends)]


def most_runs(of: Driver, others: Sequence[Driver], now: float) -> int:
    """How many runs `of` may have at once; every driver finds the same numbers for all.

    `now`: seconds by the ledger's clock, which says whose turn it is. A user's cap is the least that the user's drivers
    name.
    """
    turn = math.floor(now / TURN_S) * GOLDEN % 1
    drivers = sorted({each.owner: each for each in (*others, of)}.values(), key=lambda each: (each.user, each.owner))
    wanted = _cap(drivers, turn)
    beside = [each for each in drivers if each.cluster == of.cluster]
    parts = {each.owner: min(1.0, wanted[each.owner] / each.slots) for each in beside}
    users = list(dict.fromkeys(each.user for each in beside))
    groups = [[each for each in beside if each.user == user] for user in users]
    asked = [min(1.0, sum(parts[each.owner] for each in group)) for group in groups]
    given = fill(1.0, asked, [max(each.priority for each in group) for group in groups])
    shares = [
        share * of.slots
        for part, group in zip(given, groups, strict=True)
        for share in fill(part, [parts[each.owner] for each in group], [each.priority for each in group])
    ]
    return min(round_by_turn(shares, turn)[beside.index(of)], wanted[of.owner])


def _cap(drivers: Sequence[Driver], turn: float) -> dict[str, int]:
    """Owner -> how many runs it wants, as far as its user's cap allows them."""
    wanted = {each.owner: each.wanted for each in drivers}
    for user in {each.user for each in drivers}:
        theirs = [each for each in drivers if each.user == user]
        if caps := [each.cap for each in theirs if each.cap is not None]:
            parts = fill(min(caps), [each.wanted for each in theirs], [each.priority for each in theirs])
            wanted |= zip((each.owner for each in theirs), round_by_turn(parts, turn), strict=True)
    return wanted


class FairShare:
    """The share of one driver, found once when this is made, and again and again by `follow`."""

    def __init__(
        self, ledger: Ledger, stand: Callable[[], Driver], has_room: Callable[[], bool], tell: Callable[[int], None]
    ) -> None:
        """`stand`: how the driver stands now; `has_room`: whether the cluster has room for another of its runs; `tell`
        gets how many runs it may have at once."""
        self._ledger, self._stand, self._has_room, self._tell = ledger, stand, has_room, tell
        self._spare_s = 0.0
        self._look()

    def follow(self, done: threading.Event) -> None:
        """Until `done`, for a thread. While the ledger is away the share stays as it is."""
        while not done.wait(SHARE_LOOK_S):
            with contextlib.suppress(Exception):  # Ray ends with the sweep, while this thread still asks
                self._look()
        with contextlib.suppress(LedgerError):
            self._ledger.leave(self._owner)

    def _look(self) -> None:
        """Say how the driver stands, and find its share from what the others say."""
        driver = self._stand()
        self._owner = driver.owner
        # Of itself a driver knows too late whether it has more to start: it asks when it may.
        hungry = replace(driver, wanted=driver.most)
        with contextlib.suppress(LedgerError):
            others, now = self._ledger.stand_beside(driver)
            most = most_runs(hungry, others, now)
            waits = most <= driver.running < _cap([*others, hungry], 0.0)[driver.owner]
            self._spare_s = self._spare_s + SHARE_LOOK_S if waits and others and self._has_room() else 0.0
            self._tell(max(most, driver.running + 1) if self._spare_s >= SPARE_S else most)
