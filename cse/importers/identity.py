"""Which run a row without an ID is: the one in the ledger that agrees with it in all that both say, else a new one.

So a table that comes again reordered, with a column more or less, or with rows added, brings no run twice.
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
"""Settings that say where a run lies: it may have been moved."""


@dataclass(frozen=True)
class KnownRun:
    """A run that an earlier import brought."""

    id: str
    settings: Values
    metrics: Mapping[str, float]

    @property
    def values(self) -> Values:
        """All that it says."""
        return {**self.metrics, **self.settings}


def name_runs(runs: Sequence[ForeignRun], earlier: Sequence[KnownRun], sweep: str) -> list[ForeignRun]:
    """The runs, each with an ID. Of several that agree with one known run the first is it."""
    taken = {run.id for run in runs if run.id}
    finder = _Finder([each for each in earlier if each.id not in taken])
    taken |= {each.id for each in earlier}
    named = []
    for run in runs:
        if not run.id:
            values = {**run.metrics, **run.settings}
            moved = {name: value for name, value in values.items() if name not in PLACE_SETTINGS}
            id = finder.take(values) or finder.take(moved) or _make_id(run, sweep, taken)
            taken.add(id)
            run = replace(run, id=id)
        named.append(run)
    return named


def _make_id(run: ForeignRun, sweep: str, taken: Set[str]) -> str:
    """The ID of a new run by what it says; those that are alike in everything are counted."""
    said = sorted((name, plain(value)) for name, value in {**run.metrics, **run.settings}.items())
    texts = (json.dumps([sweep, said, place], default=str) for place in itertools.count())
    return next(id for text in texts if (id := f"row {hashlib.sha256(text.encode()).hexdigest()}") not in taken)


class _Finder:
    """The known runs by the names of what they say: rows of one table have few such sets of names."""

    def __init__(self, earlier: Sequence[KnownRun]) -> None:
        self._by_names: dict[frozenset[str], list[KnownRun]] = defaultdict(list)
        for run in earlier:
            self._by_names[frozenset(run.values)].append(run)
        self._indices: dict[tuple[frozenset[str], frozenset[str]], dict[str, deque[str]]] = {}
        self._used: set[str] = set()

    def take(self, values: Values) -> str:
        """The ID of a run that has the same in all that both say, which nobody else gets then; empty for none."""
        names = frozenset(values)
        for group in sorted(self._by_names, key=lambda group: -len(group & names)):
            common = group & names
            waiting = self._index(group, common).get(_say(values, common), deque()) if common else deque()
            while waiting:
                if (id := waiting.popleft()) not in self._used:
                    self._used.add(id)
                    return id
        return ""

    def _index(self, group: frozenset[str], common: frozenset[str]) -> dict[str, deque[str]]:
        if (group, common) not in self._indices:
            index: dict[str, deque[str]] = defaultdict(deque)
            for run in self._by_names[group]:
                index[_say(run.values, common)].append(run.id)
            self._indices[group, common] = index
        return self._indices[group, common]


def _say(values: Values, names: Iterable[str]) -> str:
    return json.dumps([[name, plain(values[name])] for name in sorted(names)], default=str)
