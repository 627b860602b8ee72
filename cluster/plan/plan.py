"""A plan as data: the runs that spaces need, which are shared, done or lack an input, and what the rest costs."""

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
from search_spaces.paper import Key

PLAN_COLUMNS = ("cells", "seeds", "runs", "unique", RunState.DONE, "to_run", "missing_input")
EXTRA_SUITES = ("retrieval", "geometry", "lengths", "repetition", "edits")
"""Suites that only evaluate models which a main table trains anyway; their tables train nothing further."""
MAIN_SUITES = ("sts", "transfer", "senteval")


@dataclass(frozen=True)
class PlannedRun:
    """One run of one cell: its settings, seed and signature."""

    signature: str
    run: RunConfig
    identity: Identity
    cell: dict[str, Scalar]
    seed: int
    sweep: str

    @property
    def examples(self) -> int | None:
        """Number of training examples of the whole run; None where it depends on a corpus of unknown size."""
        return examples_in(self.run, self.identity)

    @property
    def counted(self) -> RunConfig:
        """Run configuration with its length in examples where that is known, as for every run that can be trained."""
        return self.run if self.examples is None else set_examples(self.run, self.examples)


@dataclass(frozen=True)
class SpacePlan:
    """Planned runs of one space; a sampled search has no fixed runs, only an upper bound on their number."""

    resolved: ResolvedSpace
    seeds: tuple[int, ...]
    runs: tuple[PlannedRun, ...]
    done: frozenset[str]
    searched: int | None = None
    """Largest number of cells that a search will visit; None for a space whose cells are all run."""
    like: PlannedRun | None = None
    """Example of a run that a search may propose, which stands for the cost of each; None for a table."""
    incomplete: tuple[IncompleteCell, ...] = ()
    """Cells that lack an input; their runs are counted by their settings and are not run."""
    unevaluated: Mapping[str, str] = field(default_factory=dict)
    """Label of a row of the paper -> reason why its model, which is evaluated without training, lacks an input."""
    changed: tuple[ChangedCode, ...] = ()
    """Counts of finished runs of other code that do not count as done until a person decides."""
    stale: tuple[str, ...] = ()
    """Lines for the user, one for each reason why finished runs of this space's cells are trained again."""

    def list_seen(self) -> list[tuple[Key, list[str]]]:
        """Returns the cells with finished runs, each with their signatures."""
        cells: dict[str, tuple[Key, list[str]]] = {}
        for run in self.runs:
            if run.signature in self.done:
                cells.setdefault(repr(run.cell), (dict(run.cell), []))[1].append(run.signature)
        return list(cells.values())

    @property
    def id(self) -> str:
        return self.resolved.space.id

    @property
    def is_search(self) -> bool:
        return self.resolved.space.search is not None

    @property
    def kind(self) -> str:
        """`search`, `published` (nothing is trained), `evaluation` (of other tables' models), `main` or `training`."""
        suites = self.resolved.space.evaluate
        if self.is_search or not self.runs:
            return "search" if self.is_search else "published"
        groups = ((EXTRA_SUITES, "evaluation"), (MAIN_SUITES, "main"))
        return next((kind for group, kind in groups if any(suite in group for suite in suites)), "training")

    @property
    def proposals(self) -> int:
        """Largest number of runs that the search will still make; 0 for a table."""
        return 0 if self.searched is None else max(0, self.searched * len(self.seeds) - len(self.done))

    @property
    def incomplete_runs(self) -> frozenset[str]:
        return frozenset(signature for cell in self.incomplete for signature in cell.signatures)


@dataclass(frozen=True)
class Plan:
    """Plan of one or many spaces; runs that spaces share count once."""

    spaces: tuple[SpacePlan, ...]
    absent: tuple[str, ...] = ()
    """Inputs assumed because no data were given; finished runs are then recognised by their settings."""
    rates: Rates = field(default_factory=Rates)
    unscorable: Mapping[str, str] = field(default_factory=dict)
    """Suite whose data are absent -> reason; runs leave out its columns."""

    @property
    def tables(self) -> list[SpacePlan]:
        return [space for space in self.spaces if not space.is_search]

    @property
    def searches(self) -> list[SpacePlan]:
        return [space for space in self.spaces if space.is_search]

    @property
    def runs(self) -> list[PlannedRun]:
        """Planned runs of all spaces; runs of a sampled search are not known beforehand."""
        return [run for space in self.spaces for run in space.runs]

    def changed(self) -> list[str]:
        return list(dict.fromkeys(changed.line() for space in self.spaces for changed in space.changed))

    def stale(self) -> list[str]:
        return list(dict.fromkeys(line for space in self.spaces for line in space.stale))

    def source(self) -> str:
        return self.rates.source(own_loops=all(space.resolved.own_loop for space in self.spaces))

    def counts(self) -> dict[str, int]:
        """Returns total counts over the tables, or over the searches where the plan has no table."""
        return counts(self.tables or self.searches)

    def cost(self, spaces: Sequence[SpacePlan] | None = None, *, incomplete: bool = True) -> Cost:
        """Returns the cost of the distinct unfinished runs; for a search, of as many as it may make.

        `spaces` None: all tables, or all searches where there is no table. `incomplete` False leaves out runs without
        an input.
        """
        chosen = (self.tables or self.searches) if spaces is None else spaces
        done, without_input = _union(s.done for s in chosen), _union(s.incomplete_runs for s in chosen)
        left = [run for run in unique(run for space in chosen for run in space.runs) if run.signature not in done]
        costs = [self.rates.cost(run.counted) for run in left if incomplete or run.signature not in without_input]
        costs += [
            self.rates.cost(space.like.counted).times(space.proposals)
            for space in chosen
            if space.like and (incomplete or not space.incomplete)
        ]
        return sum(costs, Cost())


def counts(spaces: Sequence[SpacePlan]) -> dict[str, int]:
    """Returns the counts PLAN_COLUMNS over tables, or over searches; unique = done + to_run + missing_input."""
    cells = sum(_cells(space) for space in spaces)
    runs = sum(_cells(space) * len(space.seeds) for space in spaces)
    every = _union(frozenset(run.signature for run in space.runs) for space in spaces)
    searched = sum(_cells(space) * len(space.seeds) for space in spaces if space.searched is not None)
    done, distinct = _union(space.done for space in spaces), len(every) + searched
    complete = _union(frozenset(run.signature for run in space.runs) - space.incomplete_runs for space in spaces)
    incomplete = _union(space.incomplete_runs for space in spaces) - done - complete
    seeds = max((len(space.seeds) for space in spaces), default=0)
    finished = min(len(done), distinct)
    without = len(incomplete) + sum(space.proposals for space in spaces if space.incomplete)
    values = (cells, seeds, runs, distinct, finished, distinct - finished - without, without)
    return dict(zip(PLAN_COLUMNS, values, strict=True))


def unique(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    return list({run.signature: run for run in runs}.values())


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _cells(space: SpacePlan) -> int:
    return len({tuple(run.cell.items()) for run in space.runs}) if space.searched is None else space.searched
