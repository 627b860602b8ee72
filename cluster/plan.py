"""Cells times seeds: which runs a space needs, which of them are one run, and which the ledger already has."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cluster.cells import Cell, ResolvedSpace
from cluster.known import Memory, Row
from cluster.profiles import Profile
from cluster.signature import Identity, identity, signature
from cluster.space import Space
from cse_train.config import DataPaths, RunConfig
from cse_train.fields import ConfigError, Scalar

Identify = Callable[[RunConfig], Identity]
COUNTS = ("cells", "seeds", "runs", "unique", "done", "to_run")


class RunStates(Protocol):
    """What a plan asks of `analysis.ledger.Ledger`."""

    def states(self, signatures: Iterable[str]) -> dict[str, str]: ...
    def runs(self) -> Sequence[Row]: ...


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

    @property
    def id(self) -> str:
        return self.resolved.space.id

    def counts(self) -> dict[str, int]:
        cells = len({_key(run) for run in self.runs}) if self.searched is None else self.searched
        runs = cells * len(self.seeds)
        unique = len({run.signature for run in self.runs}) if self.searched is None else runs
        return _counts(cells, len(self.seeds), runs, unique, min(len(self.done), unique))

    def to_run(self) -> list[PlannedRun]:
        """The runs that the ledger does not have, each signature once."""
        return list({run.signature: run for run in self.runs if run.signature not in self.done}.values())


@dataclass(frozen=True)
class Plan:
    """One or many spaces. Runs that spaces share count once in `unique`, `done` and `to_run`."""

    spaces: tuple[SpacePlan, ...]
    absent: tuple[str, ...] = ()
    """Inputs that could not be found here, one line each: with them, `done` is not known."""

    @property
    def tables(self) -> list[SpacePlan]:
        """Spaces whose cells are all run."""
        return [space for space in self.spaces if space.searched is None]

    @property
    def runs(self) -> list[PlannedRun]:
        return [run for space in self.tables for run in space.runs]

    def counts(self) -> dict[str, int]:
        """The totals; beside tables, searches are counted apart (see `as_dict`)."""
        if not self.tables and len(self.spaces) == 1:
            return self.spaces[0].counts()
        each = [space.counts() for space in self.tables]
        unique = len({run.signature for run in self.runs})
        done = len(frozenset().union(*(space.done for space in self.tables)))
        seeds = max((one["seeds"] for one in each), default=0)
        return _counts(sum(one["cells"] for one in each), seeds, sum(one["runs"] for one in each), unique, done)

    def as_dict(self) -> dict[str, Any]:
        """The totals at top level; for several spaces also `spaces` and `searches`, and `absent` inputs if any."""
        found: dict[str, Any] = dict(self.counts())
        if len(self.spaces) > 1:
            found["spaces"] = [{"id": space.id, **space.counts()} for space in self.tables]
            found["searches"] = [{"id": s.id, **s.counts()} for s in self.spaces if s.searched is not None]
        return found | {"absent": list(self.absent)} if self.absent else found


def plan(
    spaces: Iterable[Space],
    profile: str | Profile | None,
    seeds: int | Sequence[int] | None,
    ledger: RunStates | None,
    paths: DataPaths,
    *,
    overrides: Mapping[str, Scalar] | None = None,
    workers: int = 1,
    need_inputs: bool = False,
) -> Plan:
    """Plan spaces under a profile (None: each file's own), a number or list of seeds (None: each file's own).

    A missing input is noted in `Plan.absent`, or raises ConfigError with `need_inputs`.
    """
    absent: list[str] = []
    identify = functools.partial(identity, paths=paths, workers=workers, absent=None if need_inputs else absent)
    planned = [_plan(space.resolve(profile, overrides), _seeds(space, seeds), ledger, identify) for space in spaces]
    return Plan(tuple(planned), tuple(absent))


def _plan(resolved: ResolvedSpace, seeds: tuple[int, ...], ledger: RunStates | None, identify: Identify) -> SpacePlan:
    if resolved.space.sampled:
        return _search_plan(resolved, seeds, ledger, identify)
    runs = tuple(run for cell in resolved.cells() for run in runs_of(resolved, cell, seeds, identify))
    states = ledger.states({run.signature for run in runs}) if ledger else {}
    return SpacePlan(resolved, seeds, runs, frozenset(s for s, state in states.items() if state == "done"))


def runs_of(resolved: ResolvedSpace, cell: Cell, seeds: Iterable[int], identify: Identify) -> list[PlannedRun]:
    """A cell's runs, one per seed; `identify(run)` gives the hashes of a run's inputs."""
    made = []
    for seed in seeds:
        run = cell.run(seed)
        found = identify(run)
        made.append(PlannedRun(signature(run, found), run, found, dict(cell.key), seed, resolved.space.id))
    return made


def _search_plan(
    resolved: ResolvedSpace, seeds: tuple[int, ...], ledger: RunStates | None, identify: Identify
) -> SpacePlan:
    assert resolved.space.search is not None
    size, asked = resolved.size(), resolved.space.search.num_samples
    cells = min(n for n in (size, asked) if n is not None)
    memory = Memory(resolved, lambda run: signature(run, identify(run)))
    rows = ledger.runs() if ledger else []
    ended = (row.signature for row in rows for one in memory.known([row]) if one.final and one.seed in seeds)
    done = frozenset(ended)
    return SpacePlan(resolved, seeds, (), done, cells)


def _seeds(space: Space, seeds: int | Sequence[int] | None) -> tuple[int, ...]:
    if seeds is None:
        return space.seeds
    given = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not given or min(given) < 0:
        raise ConfigError([f"no seeds: seeds={seeds}; give a count of at least 1"])
    return given


def _key(run: PlannedRun) -> tuple[tuple[str, Scalar], ...]:
    return tuple(run.cell.items())


def _counts(*values: int) -> dict[str, int]:
    """`values` are all of COUNTS but the last."""
    *_, unique, done = values
    return dict(zip(COUNTS, (*values, unique - done), strict=True))
