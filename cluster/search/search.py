"""A search over cells, in which every seed of a cell is one noisy observation; the ledger alone is its memory.

A search starts from the ledger's runs of its space (`RunMatcher`), whoever ran them: finished runs are observations,
runs held by other drivers count as under way, half-finished cells come first. So a driver that died at any point loses
nothing, and a second driver of the same search does not repeat the first one's cells.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from analysis.ledger import Ledger, RunRow
from analysis.matching import Observation, RunMatcher, make_observation
from analysis.run_state import RunState
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import Points, RunSource
from cluster.search.optuna_studies import StudyMirror
from cluster.search.samplers import Sampler, Unvisited, make_sampler
from search_spaces.cells import Cell, ResolvedSpace
from search_spaces.space import SearchConfig

FEED_POLL_SECONDS = 2.0
"""Seconds between two reads of the ledger that nothing waits for."""
MAX_SUGGESTIONS = 20
"""Number of times that a sampler may suggest visited cells before a random unvisited cell is taken."""


class Search:
    """Proposes cells until `num_samples` were visited or the space is exhausted."""

    def __init__(
        self,
        sampler: Sampler,
        unvisited: Unvisited,
        seeds: tuple[int, ...],
        num_samples: int | None,
        mirror: StudyMirror | None = None,
        recorded: Callable[[], Iterable[Observation]] | None = None,
    ) -> None:
        """`recorded` returns new observations of every driver, whose cells count together towards `num_samples`."""
        self._sampler, self._unvisited, self._mirror = sampler, unvisited, mirror
        self._seeds, self._num_samples = seeds, num_samples
        self._visits: dict[str, dict[int, Observation]] = {}
        self._resume: deque[Cell] = deque()
        self._await: deque[Cell] = deque()
        self._recorded = recorded
        self._next_recall = time.monotonic() + FEED_POLL_SECONDS

    @property
    def visited(self) -> int:
        """Number of cells that were proposed by this driver or are known from the ledger."""
        return len(self._visits)

    def recall(self, observations: Iterable[Observation]) -> None:
        """Records the ledger's observations, and queues new cells that lack a seed; those held elsewhere come last."""
        cells = {}
        for observation in observations:
            cell = observation.cell
            if cell.id not in self._visits:
                cells[cell.id] = cell
            self._record(observation)
        for cell in cells.values():
            visits = self._visits[cell.id]
            missing = [seed for seed in self._seeds if seed not in visits or not visits[seed].final]
            if any(seed in visits and visits[seed].live for seed in missing):
                self._await.append(cell)
            elif missing:
                self._resume.append(cell)

    def refresh(self) -> None:
        if self._recorded is not None and time.monotonic() >= self._next_recall:
            self.recall(self._recorded())
            self._next_recall = time.monotonic() + FEED_POLL_SECONDS

    def propose(self) -> Cell | None:
        """Returns the next cell to run with every seed; None when the search is over."""
        self.refresh()
        if self._resume:
            return self._resume.popleft()
        cell = self._fresh() if self._num_samples is None or self.visited < self._num_samples else None
        if cell is None:
            return self._await.popleft() if self._await else None
        self._visits[cell.id] = {}
        self._sampler.start(cell)
        return cell

    def observe(
        self, cell: Cell, seed: int, value: float | None, state: RunState = RunState.DONE, examples: int | None = None
    ) -> None:
        """Records how a run ended: its best dev score and state; repeated calls change nothing."""
        self._record(make_observation(cell, seed, state if value is not None else RunState.FAILED, value, examples))

    def _record(self, observation: Observation) -> None:
        visits = self._visits.setdefault(observation.cell.id, {})
        before = visits.get(observation.seed)
        if before and before.final and (before.state, before.value) == (observation.state, observation.value):
            return
        visits[observation.seed] = observation
        if not observation.final:
            self._sampler.start(observation.cell)
            return
        self._sampler.observe(observation)
        if self._mirror:
            self._mirror.add(observation)

    def _fresh(self) -> Cell | None:
        for _ in range(MAX_SUGGESTIONS):
            cell = self._sampler.suggest()
            if cell is None or not self._was_visited(cell):
                return cell
            visits = self._visits[cell.id].values()
            values = [v.value for v in visits if v.state == RunState.DONE and v.value is not None]
            self._sampler.repeat(cell, sum(values) / len(values) if values else None)
        return self._unvisited.draw(self._was_visited)

    def _was_visited(self, cell: Cell) -> bool:
        return cell.id in self._visits


def make_search(
    resolved: ResolvedSpace,
    rows: Iterable[RunRow],
    matcher: RunMatcher,
    *,
    seeds: tuple[int, ...] | None = None,
    mirror: StudyMirror | None = None,
    recorded: Callable[[], Iterable[RunRow]] | None = None,
) -> Search:
    """Makes the search of a space's `search:` block, with the ledger's rows as its memory."""
    settings = resolved.space.search or SearchConfig(sampler="grid")
    observations = matcher.observations(rows)
    rng = np.random.default_rng([settings.seed, len(observations)])
    search = Search(
        make_sampler(resolved, settings, rng),
        Unvisited(resolved, rng),
        seeds or resolved.space.seeds,
        settings.num_samples,
        mirror,
        None if recorded is None else lambda: matcher.observations(recorded()),
    )
    search.recall(observations)
    return search


class SearchSource(RunSource):
    """Source of a search's runs, one per cell and seed; the cell of a skipped run counts as visited."""

    keeps_stopped = True
    proposes = True

    def __init__(
        self,
        search: Search,
        runs_of: Callable[[Cell], Sequence[PlannedRun]],
        points: Callable[[], Points] = dict,
    ) -> None:
        """`runs_of` returns a cell's runs, one per seed, `points` new dev scores in the ledger."""
        self._search, self._runs_of, self._points = search, runs_of, points
        self._left: deque[PlannedRun] = deque()
        self._cells: dict[str, Cell] = {}
        self._over = False

    def ask(self) -> PlannedRun | None:
        while not self._left and not self._over:
            cell = self._search.propose()
            if cell is None:
                self._over = True
                break
            runs = self._runs_of(cell)
            self._cells.update({run.signature: cell for run in runs})
            self._left.extend(runs)
        return self._left.popleft() if self._left else None

    def exhausted(self) -> bool:
        return self._over and not self._left

    def refresh(self) -> None:
        self._search.refresh()

    def points(self) -> Points:
        return self._points()

    def observe(self, planned: PlannedRun, state: RunState, value: float | None, examples: int | None) -> None:
        cell = self._cells.get(planned.signature)
        if cell is not None and state != RunState.LOST:
            self._search.observe(cell, planned.seed, value, state, examples)


class Feed:
    """Changed rows of one search's runs, from all drivers: the cost of a read grows with the changes alone."""

    def __init__(self, ledger: Ledger, matcher: RunMatcher, since: float) -> None:
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
