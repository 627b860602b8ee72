"""A plan as data: which runs spaces need, which of them are one run, are done or lack an input, and what they cost."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.run_state import RunState
from cluster.plan.cost import Cost, Rates
from cse_train.config import RunConfig, set_examples
from cse_train.fields import Scalar
from search_spaces.cells import ResolvedSpace
from search_spaces.identity.method_code import ChangedCode
from search_spaces.identity.missing_inputs import IncompleteCell
from search_spaces.identity.signature import Identity, examples_in

PLAN_COLUMNS = ("cells", "seeds", "runs", "unique", RunState.DONE, "to_run", "missing_input")
EXTRA_SUITES = ("retrieval", "geometry", "lengths", "repetition", "edits")
"""Suites that make a table one of finished models: it trains nothing that a main result would not."""
MAIN = ("sts", "transfer", "senteval")


@dataclass(frozen=True)
class PlannedRun:
    """One run of one cell."""

    signature: str
    run: RunConfig
    identity: Identity
    cell: dict[str, Scalar]
    """Axis -> value."""
    seed: int
    sweep: str
    """ID of the space."""

    @property
    def examples(self) -> int | None:
        """Training examples in all; None where they depend on a corpus of unknown size."""
        return examples_in(self.run, self.identity)

    @property
    def counted(self) -> RunConfig:
        """The run with its length in examples where that is known, as it always is of a run that can be trained."""
        return self.run if self.examples is None else set_examples(self.run, self.examples)


@dataclass(frozen=True)
class SpacePlan:
    """The runs of one space; a space that is searched has no fixed runs, only an upper bound."""

    resolved: ResolvedSpace
    seeds: tuple[int, ...]
    runs: tuple[PlannedRun, ...]
    done: frozenset[str]
    """Signatures of this space's runs that are finished."""
    searched: int | None = None
    """Cells that a search will visit at most; None for a space whose cells are all run."""
    like: PlannedRun | None = None
    """Of a search, one of the runs that it may make: what each costs."""
    incomplete: tuple[IncompleteCell, ...] = ()
    """Cells without an input; their runs count, by their settings, and are not to run."""
    unevaluated: Mapping[str, str] = field(default_factory=dict)
    """Label of a row of the paper whose model, which nobody trains, lacks an input -> the reason."""
    changed: tuple[ChangedCode, ...] = ()
    """Finished runs of other code that do not count as done; a person decides."""
    stale: tuple[str, ...] = ()
    """A line for each reason for which finished runs of its cells are trained again."""

    def list_seen(self) -> list[dict[str, object]]:
        """Cells that were tried, each with the signatures of its finished runs, where all inputs are at hand."""
        seen: dict[str, tuple[object, list[str]]] = {}
        for run in self.runs:
            if run.signature in self.done:
                seen.setdefault(repr(run.cell), (dict(run.cell), []))[1].append(run.signature)
        return [{"cell": cell, "signatures": names} for cell, names in seen.values()]

    @property
    def id(self) -> str:
        return self.resolved.space.id

    @property
    def is_search(self) -> bool:
        """Whether the file says how it is searched; it is counted apart from the tables."""
        return self.resolved.space.search is not None

    @property
    def kind(self) -> str:
        """search, published (no cell of ours), evaluation (of models that others train), main (test sets), training."""
        suites = self.resolved.space.evaluate
        if self.is_search or not self.runs:
            return "search" if self.is_search else "published"
        named = ((EXTRA_SUITES, "evaluation"), (MAIN, "main"))
        return next((kind for group, kind in named if any(suite in group for suite in suites)), "training")

    @property
    def proposals(self) -> int:
        """Runs that a search will make at most."""
        return 0 if self.searched is None else max(0, self.searched * len(self.seeds) - len(self.done))

    @property
    def incomplete_runs(self) -> frozenset[str]:
        """Signatures of the runs that lack an input."""
        return frozenset(signature for cell in self.incomplete for signature in cell.signatures)


@dataclass(frozen=True)
class Plan:
    """One or many spaces. Runs that spaces share count once in `unique`, `done`, `to_run` and `missing_input`."""

    spaces: tuple[SpacePlan, ...]
    absent: tuple[str, ...] = ()
    """Inputs assumed because no data were given, one line each; what is done is then recognised by settings."""
    rates: Rates = field(default_factory=Rates)
    unscorable: Mapping[str, str] = field(default_factory=dict)
    """Suites whose data are not at hand, with the reason: runs go without their columns."""

    @property
    def tables(self) -> list[SpacePlan]:
        """Spaces that are no search."""
        return [space for space in self.spaces if not space.is_search]

    @property
    def searches(self) -> list[SpacePlan]:
        return [space for space in self.spaces if space.is_search]

    @property
    def runs(self) -> list[PlannedRun]:
        """Of every space; those of a sampled search are not known beforehand."""
        return [run for space in self.spaces for run in space.runs]

    def changed(self) -> list[str]:
        """A line for each method of which finished runs were made by other code."""
        return list(dict.fromkeys(changed.line() for space in self.spaces for changed in space.changed))

    def stale(self) -> list[str]:
        """A line for each reason for which finished runs are trained again."""
        return list(dict.fromkeys(line for space in self.spaces for line in space.stale))

    def source(self) -> str:
        """Where its seconds come from (`Rates.source`)."""
        return self.rates.source(own_loops=all(space.resolved.own_loop for space in self.spaces))

    def counts(self) -> dict[str, int]:
        """The totals over tables; searches are counted apart unless there is nothing else (see `as_dict`)."""
        return counts(self.tables or self.searches)

    def cost(self, spaces: Sequence[SpacePlan] | None = None, *, incomplete: bool = True) -> Cost:
        """Of the unique runs that are not done, with or without those that lack an input; of a search at most."""
        chosen = (self.tables or self.searches) if spaces is None else spaces
        done, lacking = _union(s.done for s in chosen), _union(s.incomplete_runs for s in chosen)
        left = [run for run in unique(run for space in chosen for run in space.runs) if run.signature not in done]
        costs = [self.rates.cost(run.counted) for run in left if incomplete or run.signature not in lacking]
        costs += [
            self.rates.cost(space.like.counted).times(space.proposals)
            for space in chosen
            if space.like and (incomplete or not space.incomplete)
        ]
        return sum(costs, Cost())

    def as_dict(self) -> dict[str, object]:
        """Totals, then the same of each table and each search, and `absent` inputs if any."""
        chosen = self.tables or self.searches
        described = {
            **self._describe(chosen),
            "spaces": [{"id": space.id, "kind": space.kind, **self._describe([space])} for space in self.tables],
            "searches": [{"id": space.id, "kind": space.kind, **self._describe([space])} for space in self.searches],
            "throughput": self.source(),
        }
        lines = {"absent": list(self.absent), "changed_code": self.changed(), "not_reused": self.stale()}
        return described | {name: value for name, value in lines.items() if value}

    def _describe(self, spaces: Sequence[SpacePlan]) -> dict[str, object]:
        cells = [{"cell": cell.label, "reason": cell.reason} for space in spaces for cell in space.incomplete]
        every, here = self.cost(spaces), self.cost(spaces, incomplete=False)
        return {
            **counts(spaces),
            **self._price(every),
            "here": self._price(here),
            **({"incomplete_cells": cells} if len(spaces) == 1 else {}),
            **({"seen": spaces[0].list_seen()} if len(spaces) == 1 and not self.absent else {}),
        }

    def _price(self, cost: Cost) -> dict[str, object]:
        return {
            "examples": cost.examples,
            "seconds": round(self.rates.wall(cost), 1) if not cost.unknown else None,
            "card_seconds": round(cost.card_seconds, 1) if cost.card_seconds and not cost.unknown else None,
            "disk_bytes": cost.disk_bytes,
        }


def counts(spaces: Sequence[SpacePlan]) -> dict[str, int]:
    """COUNTS of some tables together, or of some searches; unique = done + to_run + missing_input."""
    cells = sum(_cells(space) for space in spaces)
    runs = sum(_cells(space) * len(space.seeds) for space in spaces)
    every = _union(frozenset(run.signature for run in space.runs) for space in spaces)
    searched = sum(_cells(space) * len(space.seeds) for space in spaces if space.searched is not None)
    done, distinct = _union(space.done for space in spaces), len(every) + searched
    complete = _union(frozenset(run.signature for run in space.runs) - space.incomplete_runs for space in spaces)
    lacking = _union(space.incomplete_runs for space in spaces) - done - complete
    seeds = max((len(space.seeds) for space in spaces), default=0)
    finished = min(len(done), distinct)
    without = len(lacking) + sum(space.proposals for space in spaces if space.incomplete)
    values = (cells, seeds, runs, distinct, finished, distinct - finished - without, without)
    return dict(zip(PLAN_COLUMNS, values, strict=True))


def unique(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """Each signature once, in order."""
    return list({run.signature: run for run in runs}.values())


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _cells(space: SpacePlan) -> int:
    return len({tuple(run.cell.items()) for run in space.runs}) if space.searched is None else space.searched
