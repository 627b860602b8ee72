"""Computes how many runs a driver may have at once: caps of users, and shares of a cluster by priority.

Users who want more than a Ray cluster holds share it by their priorities, and a user's drivers share what the user
gets; what one does not want goes to the others. Shares are fractions of the cluster, so runs of different sizes
compare. A driver with a share of 1.5 runs has 1 in one half of the turns and 2 in the other.
"""

import contextlib
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from analysis.ledger import Ledger, LedgerError
from analysis.ledger.cluster_log import Driver, remove_driver, write_driver

SHARE_POLL_SECONDS = 3.0
"""Seconds between two reads of the other drivers' state."""
SPARE_ROOM_SECONDS = 15.0
"""Seconds that room must have been free until a driver takes it beyond its share; its owners need only a few."""
TURN_SECONDS = 300.0
"""Seconds of a turn, in which a fraction of a slot belongs to one driver; a change costs a start of a worker group."""
GOLDEN = (5**0.5 - 1) / 2
"""Golden ratio's inverse; its multiples modulo 1 fill the circle of turns evenly, however many turns there are."""


def fill(total: float, requests: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Divides `total` by weight, each part at most what is wanted; the others share what one leaves."""
    parts, left = [0.0] * len(requests), set(range(len(requests)))
    while left:
        level = total / sum(weights[i] for i in left)
        content = {i for i in left if requests[i] <= level * weights[i]}
        for i in content or left:
            parts[i] = requests[i] if content else level * weights[i]
            total -= parts[i] if content else 0.0
        left = left - content if content else set()
    return parts


def _round_by_turn(parts: Sequence[float], turn: float) -> list[int]:
    """Rounds parts to whole numbers with the same sum; over all turns (0 to 1) the mean of each is its part."""
    # 1e-6: sums of floats just below a whole number must not lose a run to floor.
    ends = [sum(parts[:count]) + turn + 1e-6 for count in range(len(parts) + 1)]
    return [math.floor(end) - math.floor(begin) for begin, end in itertools.pairwise(ends)]


def most_runs(driver: Driver, others: Sequence[Driver], now: float) -> int:
    """Returns how many runs a driver may have at once; every driver computes the same numbers for all.

    `now`: seconds of the ledger's clock, which fix the turn. A user's cap is the lowest that the user's drivers name.
    """
    turn = math.floor(now / TURN_SECONDS) * GOLDEN % 1
    unique = {each.owner: each for each in (*others, driver)}
    drivers = sorted(unique.values(), key=lambda each: (each.user, each.owner))
    requests = _cap(drivers, turn)
    neighbours = [each for each in drivers if each.cluster == driver.cluster]
    parts = {each.owner: min(1.0, requests[each.owner] / each.slots) for each in neighbours}
    users = list(dict.fromkeys(each.user for each in neighbours))
    groups = [[each for each in neighbours if each.user == user] for user in users]
    user_requests = [min(1.0, sum(parts[each.owner] for each in group)) for group in groups]
    user_shares = fill(1.0, user_requests, [max(each.priority for each in group) for group in groups])
    shares = [
        share * driver.slots
        for part, group in zip(user_shares, groups, strict=True)
        for share in fill(part, [parts[each.owner] for each in group], [each.priority for each in group])
    ]
    return min(_round_by_turn(shares, turn)[neighbours.index(driver)], requests[driver.owner])


def _cap(drivers: Sequence[Driver], turn: float) -> dict[str, int]:
    """Returns owner -> number of runs that a driver wants, within its user's cap."""
    requests = {each.owner: each.wanted for each in drivers}
    for user in {each.user for each in drivers}:
        user_drivers = [each for each in drivers if each.user == user]
        if caps := [each.cap for each in user_drivers if each.cap is not None]:
            parts = fill(min(caps), [each.wanted for each in user_drivers], [each.priority for each in user_drivers])
            requests |= zip((each.owner for each in user_drivers), _round_by_turn(parts, turn), strict=True)
    return requests


class FairShare:
    """Share of one driver, computed at construction and repeatedly by `follow`."""

    def __init__(
        self, ledger: Ledger, stand: Callable[[], Driver], has_room: Callable[[], bool], tell: Callable[[int], None]
    ) -> None:
        """`stand` returns this driver's state; `tell` receives how many runs it may have at once."""
        self._ledger, self._stand, self._has_room, self._tell = ledger, stand, has_room, tell
        self._spare_s = 0.0
        self._look()

    def follow(self, done: threading.Event) -> None:
        """Updates the share until `done` is set; while the ledger is unreachable it stays as it is."""
        while not done.wait(SHARE_POLL_SECONDS):
            with contextlib.suppress(Exception):  # Ray ends with the sweep, while this thread still asks
                self._look()
        with contextlib.suppress(LedgerError):
            remove_driver(self._ledger, self._owner)

    def _look(self) -> None:
        """Publishes this driver's state in the ledger, and computes its share from the others' states."""
        driver = self._stand()
        self._owner = driver.owner
        # Of itself a driver knows too late whether it has more to start: it asks when it may.
        eager = replace(driver, wanted=driver.most)
        with contextlib.suppress(LedgerError):
            others, now = write_driver(self._ledger, driver)
            most = most_runs(eager, others, now)
            waits = most <= driver.running < _cap([*others, eager], 0.0)[driver.owner]
            self._spare_s = self._spare_s + SHARE_POLL_SECONDS if waits and others and self._has_room() else 0.0
            self._tell(max(most, driver.running + 1) if self._spare_s >= SPARE_ROOM_SECONDS else most)
