"""From spaces to a plan: every cell times every seed, against the ledger and the inputs that are at hand."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cluster.plan.cost import rates
from cluster.plan.match import Known, Memory, done_settings, settings_key
from cluster.plan.missing_inputs import Blocked, Inputs, reason
from cluster.plan.plan import COUNTS, Plan, PlannedRun, SpacePlan
from cluster.plan.signature import Identity, signature, signatures
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError, Scalar
from search_spaces.cell_names import cell_name
from search_spaces.cells import Cell, ResolvedSpace, resolve
from search_spaces.profiles import Profile
from search_spaces.space import Space

__all__ = ["COUNTS", "Identify", "Plan", "PlannedRun", "RunStates", "SpacePlan", "plan", "plan_all", "runs_of"]
Identify = Callable[[RunConfig], Identity]


class RunStates(Protocol):
    """What a plan asks of `analysis.ledger.ledger.Ledger`."""

    def states(self, signatures: Iterable[str]) -> dict[str, str]: ...
    def runs(self) -> Sequence[Any]: ...


@dataclass(frozen=True)
class _Known:
    """What is asked of the ledger, its rows read once."""

    ledger: RunStates | None
    rows: Sequence[Any]
    by_settings: bool
    """Whether a run whose inputs are not at hand may be told by its settings: to count it, never to reuse it."""

    def done(self, runs: Sequence[PlannedRun], stand_ins: frozenset[str]) -> frozenset[str]:
        """Signatures of the finished runs; of those in `stand_ins` the inputs were not there to be hashed."""
        states = self.ledger.states({run.signature for run in runs}) if self.ledger else {}
        told = {run.signature: run.run.flat() for run in runs if run.signature in stand_ins and self.by_settings}
        have = done_settings((r for r in self.rows if r.state == "done"), told.values()) if told else set()
        by_name = frozenset(signature for signature, state in states.items() if state == "done")
        return by_name | {signature for signature, flat in told.items() if settings_key(flat) in have}


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

    A cell that lacks an input is blocked. Where no data are given at all, what `--data` brings is taken for granted
    (`Plan.absent`), unless `need_inputs`; then ConfigError is raised where every cell is blocked.
    """
    asked = [(resolve(space, profile, overrides), _seeds(space, seeds)) for space in spaces]
    return plan_all(asked, ledger, paths, workers=workers, need_inputs=need_inputs)


def plan_all(
    asked: Sequence[tuple[ResolvedSpace, tuple[int, ...]]],
    ledger: RunStates | None,
    paths: DataPaths,
    *,
    workers: int = 1,
    need_inputs: bool = True,
) -> Plan:
    """As `plan`, of spaces that are resolved already, each with its seeds."""
    inputs = Inputs(paths, workers, expected=not need_inputs)
    known = _Known(ledger, ledger.runs() if ledger else [], by_settings=not need_inputs)
    planned = tuple(_plan(resolved, seeds, known, inputs) for resolved, seeds in asked)
    if need_inputs:
        _require_a_cell(planned)
    unscorable = inputs.unscorable(name for resolved, _ in asked for name in resolved.space.evaluate)
    return Plan(planned, tuple(inputs.assumed), rates(known.rows, workers), unscorable)


def _require_a_cell(planned: Sequence[SpacePlan]) -> None:
    """Raise ConfigError with each reason where nothing is left to train and nothing is done."""
    blocked = [one for space in planned for one in space.blocked]
    free = any(run.signature not in space.held for space in planned for run in space.runs)
    if blocked and not free and not any(space.searched for space in planned):
        raise ConfigError(list(dict.fromkeys(one.reason for one in blocked)))


def _plan(resolved: ResolvedSpace, seeds: tuple[int, ...], known: _Known, inputs: Inputs) -> SpacePlan:
    if resolved.space.sampled:
        return _search_plan(resolved, seeds, known, inputs)
    runs: list[PlannedRun] = []
    blocked: list[Blocked] = []
    stand_ins: set[str] = set()
    for cell in resolved.cells():
        found, missing, stands_in = inputs.of(cell.run(seeds[0]))
        own = list(_runs(resolved, cell, seeds, found))
        runs += own
        stand_ins |= {run.signature for run in own if stands_in}
        if missing:
            why = reason(missing, own[0].run, resolved.space.axis_names)
            label, signatures = cell.label or cell_name(cell.key), tuple(run.signature for run in own)
            blocked.append(Blocked(dict(cell.key), label, why, signatures))
    done = known.done(runs, frozenset(stand_ins))
    return SpacePlan(resolved, seeds, tuple(runs), done, blocked=tuple(_not_done(blocked, done)))


def _not_done(blocked: Iterable[Blocked], done: frozenset[str]) -> Iterator[Blocked]:
    for one in blocked:
        left = tuple(signature for signature in one.signatures if signature not in done)
        if left:
            yield Blocked(one.cell, one.label, one.reason, left)


def _runs(resolved: ResolvedSpace, cell: Cell, seeds: Iterable[int], found: Identity) -> Iterator[PlannedRun]:
    for seed, name in signatures(cell.run(0), found, seeds).items():
        yield PlannedRun(name, cell.run(seed), found, dict(cell.key), seed, resolved.space.id)


def runs_of(resolved: ResolvedSpace, cell: Cell, seeds: Iterable[int], identify: Identify) -> list[PlannedRun]:
    """A cell's runs, one per seed; `identify(run)` gives the hashes of a run's inputs."""
    return [run for seed in seeds for run in _runs(resolved, cell, [seed], identify(cell.run(seed)))]


def _search_plan(resolved: ResolvedSpace, seeds: tuple[int, ...], known: _Known, inputs: Inputs) -> SpacePlan:
    assert resolved.space.search is not None
    size, asked = resolved.size(), resolved.space.search.num_samples
    cells = min(n for n in (size, asked) if n is not None)
    memory = Memory(resolved, lambda run: signature(run, inputs.of(run)[0]))
    ended = frozenset(row.signature for row in known.rows for one in memory.known([row]) if _counts(one, seeds))
    return SpacePlan(resolved, seeds, (), ended, cells)


def _counts(one: Known, seeds: Sequence[int]) -> bool:
    return one.final and one.seed in seeds


def _seeds(space: Space, seeds: int | Sequence[int] | None) -> tuple[int, ...]:
    if seeds is None:
        return space.seeds
    given = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not given or min(given) < 0:
        raise ConfigError([f"no seeds: seeds={seeds}; give a count of at least 1"])
    return given
