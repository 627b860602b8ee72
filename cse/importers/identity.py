"""Recognises rows without an ID: a run in the ledger that agrees in all common values is the same run.

A table that is imported again, reordered or with other columns or more rows, therefore adds no run twice.
"""

import hashlib
import itertools
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from analysis.tables.spec import plain
from cse.importers import ForeignRun
from cse_train.fields import Scalar

Values = Mapping[str, Scalar]
PLACE_SETTINGS = frozenset(("folder",))
"""Settings that tell where a run's files are, which may have been moved."""


@dataclass(frozen=True)
class KnownRun:
    """A run in the ledger from an earlier import, by the values with which new rows are compared."""

    id: str
    settings: Values
    metrics: Mapping[str, float]

    @property
    def values(self) -> Values:
        """Returns the known run's metrics and settings together."""
        return {**self.metrics, **self.settings}


def name_runs(runs: Sequence[ForeignRun], earlier: Sequence[KnownRun], sweep: str) -> list[ForeignRun]:
    """Returns the runs with an ID each; of several rows that agree with one known run, the first gets its ID."""
    used = {run.id for run in runs if run.id}
    finder = _Finder([each for each in earlier if each.id not in used])
    used |= {each.id for each in earlier}
    identified = []
    for run in runs:
        if not run.id:
            values = {**run.metrics, **run.settings}
            placeless = {name: value for name, value in values.items() if name not in PLACE_SETTINGS}
            # With its folder first: equal runs may differ in that alone. Without it next: it may have been moved.
            run = replace(run, id=finder.take(values) or finder.take(placeless) or _make_id(values, sweep, used))
            used.add(run.id)
        identified.append(run)
    return identified


def _make_id(values: Values, sweep: str, used: Set[str]) -> str:
    """Returns a new ID by hashing a run's values; equal runs are numbered."""
    pairs = sorted((name, plain(value)) for name, value in values.items())
    texts = (json.dumps([sweep, pairs, place], default=str) for place in itertools.count())
    return next(id for text in texts if (id := f"row {hashlib.sha256(text.encode()).hexdigest()}") not in used)


class _Finder:
    """Index of known runs by the names of their values, since rows of one table have few such sets of names."""

    def __init__(self, earlier: Sequence[KnownRun]) -> None:
        self._by_names: dict[frozenset[str], list[KnownRun]] = defaultdict(list)
        for run in earlier:
            self._by_names[frozenset(run.values)].append(run)
        self._indices: dict[tuple[frozenset[str], frozenset[str]], dict[str, deque[str]]] = {}
        self._used: set[str] = set()

    def take(self, values: Values) -> str:
        """Returns the ID of an unused known run that agrees in all common values, and marks it as used; "" for none."""
        for group in sorted(self._by_names, key=lambda group: -len(group.intersection(values))):
            common = group.intersection(values)
            if common and (group, common) not in self._indices:
                index = self._indices[group, common] = defaultdict(deque)
                for run in self._by_names[group]:
                    index[_dump_values(run.values, common)].append(run.id)
            waiting = self._indices[group, common][_dump_values(values, common)] if common else deque()
            while waiting:
                if (id := waiting.popleft()) not in self._used:
                    self._used.add(id)
                    return id
        return ""


def _dump_values(values: Values, names: Iterable[str]) -> str:
    return json.dumps([[name, plain(values[name])] for name in sorted(names)], default=str)
