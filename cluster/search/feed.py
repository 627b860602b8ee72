"""Reads what the drivers of a search write to the ledger, as rows that changed since the last read.

The cost of a read grows with the changes and not with the ledger: a search in a sweep with 50,000 runs reads the few
that moved.
"""

import time
from collections.abc import Mapping

from analysis.ledger import Ledger, RunRow
from analysis.matching.match import RunMatcher

FEED_POLL_SECONDS = 2.0
"""Seconds between two reads of the ledger that nothing waits for."""
Points = Mapping[str, list[tuple[int, float]]]
"""Signature of a run -> [(examples, best dev score up to there)], by examples."""


class Feed:
    """Changed rows of one search's runs, from all drivers."""

    def __init__(self, ledger: Ledger, matcher: RunMatcher, since: float) -> None:
        """Starts reading at `since`, the database's time of the previous read (`Ledger.changed`)."""
        self._ledger, self._matcher, self._since = ledger, matcher, since

    def rows(self) -> list[RunRow]:
        """Returns the search's rows that are new, changed or held by a driver; an unchanged row may come again."""
        rows, self._since = self._ledger.changed(self._since)
        return [row for row in rows if self._matcher.cells(row)]


class ScoreFeed:
    """Dev scores of one search's runs, from all drivers; a run's scores come again when it has a new point."""

    def __init__(self, ledger: Ledger, feed: Feed, rows: list[RunRow]) -> None:
        """Starts with `rows`, the search's rows before the first read of `feed`, whose scores are returned first."""
        self._ledger, self._feed, self._rows = ledger, feed, rows
        self._examples: dict[str, int] = {}
        self._next = time.monotonic()

    def points(self) -> Points:
        """Returns the scores of runs with news since the last call; empty within FEED_POLL_SECONDS of it."""
        if time.monotonic() < self._next:
            return {}
        rows, self._rows = [*self._rows, *self._feed.rows()], []
        self._next = time.monotonic() + FEED_POLL_SECONDS
        news = {row.signature: row.examples for row in rows if row.examples}
        news = {
            signature: examples for signature, examples in news.items() if self._examples.get(signature) != examples
        }
        self._examples |= news
        return self._ledger.best_scores(news) if news else {}
