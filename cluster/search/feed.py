"""What the drivers of a search write into the ledger, as each of them reads it: rows that changed since it last looked.

A look costs what changed, not what the ledger holds: a search of a sweep with 50,000 runs reads the few that moved.
"""

import time
from collections.abc import Mapping

from analysis.ledger import Ledger, RunRow
from analysis.matching.match import RunMatcher

EVERY_S = 2.0
"""Seconds between two looks that nothing waits for."""
Points = Mapping[str, list[tuple[int, float]]]
"""Signature -> (examples, best dev score up to there) by examples."""


class Feed:
    """The rows of one search's runs, whoever makes them."""

    def __init__(self, ledger: Ledger, matcher: RunMatcher, since: float) -> None:
        """`since`: the database's time of the look before the first (`Ledger.changed`)."""
        self._ledger, self._matcher, self._since = ledger, matcher, since

    def rows(self) -> list[RunRow]:
        """Those that are new or changed, and those that a driver holds; a row may come again as it was."""
        rows, self._since = self._ledger.changed(self._since)
        return [row for row in rows if self._matcher.cells(row)]


class ScoreFeed:
    """The dev scores of one search's runs, of all drivers, each run's again when it got a new point."""

    def __init__(self, ledger: Ledger, feed: Feed, rows: list[RunRow]) -> None:
        """`rows`: those of the search before the first look of `feed`; their scores are given out first."""
        self._ledger, self._feed, self._rows = ledger, feed, rows
        self._seen: dict[str, int] = {}
        self._next = time.monotonic()

    def points(self) -> Points:
        """Scores of the runs with news since the last call; nothing where that is less than EVERY_S ago."""
        if time.monotonic() < self._next:
            return {}
        rows, self._rows = [*self._rows, *self._feed.rows()], []
        self._next = time.monotonic() + EVERY_S
        news = {row.signature: row.examples for row in rows if row.examples}
        news = {signature: examples for signature, examples in news.items() if self._seen.get(signature) != examples}
        self._seen |= news
        return self._ledger.best_scores(news) if news else {}
