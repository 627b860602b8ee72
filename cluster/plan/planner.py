"""Makes a plan from spaces: every cell times every seed, checked against the ledger and the inputs at hand."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.ledger import Ledger, RunRow
from analysis.matching.match import RunMatcher, match
from analysis.run_state import RunState
from cluster.plan.changed_code import changes, drop_code, not_reused, take_earlier
from cluster.plan.cost import rates
from cluster.plan.plan import Plan, PlannedRun, SpacePlan
from cse_train import methods
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError, Scalar
from search_spaces.cell_names import cell_name
from search_spaces.cells import Cell, ResolvedSpace, resolve
from search_spaces.identity.method_code import own_digest
from search_spaces.identity.missing_inputs import IncompleteCell, Inputs, reasons
from search_spaces.identity.signature import CODE, Identity, seed_signature, signature
from search_spaces.identity.user_files import add_user_files, require_corpora
from search_spaces.profiles import Profile
from search_spaces.space import Space

Identify = Callable[[RunConfig], Identity]


@dataclass(frozen=True)
class _Recorded:
    """The ledger's rows, read once for a plan, and the rules by which finished runs count as done."""

    ledger: Ledger | None
    rows: Sequence[RunRow]
    by_settings: bool
    """True if runs without their inputs may be recognised by their settings, to be counted and never reused."""
    keep: bool
    """True if finished runs of other code count as runs of today's code."""

    def done(
        self, resolved: ResolvedSpace, runs: Sequence[PlannedRun], absent: Mapping[str, tuple[str, int]]
    ) -> frozenset[str]:
        """Returns signatures of finished runs.

        `absent`: signature -> (cell ID, seed) where inputs could not be hashed.
        """
        states = self.ledger.states({run.signature for run in runs}) if self.ledger else {}
        done = frozenset(signature for signature, state in states.items() if state == RunState.DONE)
        finished = [row for row in self.rows if row.state == RunState.DONE] if absent and self.by_settings else []
        matches = match(resolved, finished, any_inputs=True) if finished else []
        pairs = {(matched.cell.id, matched.run.seed) for matched in matches}
        return done | {signature for signature, pair in absent.items() if pair in pairs}


def plan(
    spaces: Iterable[Space],
    profile: str | Profile | None,
    seeds: int | Sequence[int] | None,
    ledger: Ledger | None,
    paths: DataPaths,
    *,
    overrides: Mapping[str, Scalar] | None = None,
    workers: int = 1,
    need_inputs: bool = False,
    keep: bool = False,
) -> Plan:
    """Plans spaces under a profile and seeds; None takes each file's own profile or seeds.

    Where no data are given at all, the inputs of `--data` are assumed (`Plan.absent`), unless `need_inputs`; then
    ConfigError is raised where every cell lacks an input. `keep` counts finished runs of other code as done.
    """
    spaces_and_seeds = [(resolve(space, profile, overrides), _seeds(space, seeds)) for space in spaces]
    paths = add_user_files(paths, (file for resolved, _ in spaces_and_seeds for file in resolved.files))
    require_corpora(paths)
    return plan_all(spaces_and_seeds, ledger, paths, workers=workers, need_inputs=need_inputs, keep=keep)


def plan_all(
    spaces: Sequence[tuple[ResolvedSpace, tuple[int, ...]]],
    ledger: Ledger | None,
    paths: DataPaths,
    *,
    workers: int = 1,
    need_inputs: bool = True,
    keep: bool = False,
) -> Plan:
    """Plans spaces that are already resolved, each with its seeds; the other parameters are those of `plan`."""
    inputs = Inputs(paths, workers, expected=not need_inputs)
    recorded = _Recorded(ledger, ledger.runs() if ledger else [], by_settings=not need_inputs, keep=keep)
    planned = tuple(
        replace(_plan(resolved, seeds, recorded, inputs), unevaluated=inputs.unevaluated(resolved))
        for resolved, seeds in spaces
    )
    if need_inputs:
        _require_a_cell(planned)
    unscorable = inputs.unscorable(name for resolved, _ in spaces for name in resolved.suites())
    return Plan(planned, tuple(inputs.assumed), rates(recorded.rows, workers), unscorable)


def _require_a_cell(planned: Sequence[SpacePlan]) -> None:
    """Raises ConfigError with every reason where inputs are missing and no run can be trained or is done.

    A search may propose any of its cells, and so needs the inputs of all.
    """
    lacks = [why for space in planned for cell in space.incomplete for why in cell.reasons]
    complete = any(run.signature not in space.incomplete_runs for space in planned for run in space.runs)
    if lacks and not complete and not any(space.searched and not space.incomplete for space in planned):
        raise ConfigError(list(dict.fromkeys(lacks)))


def _plan(resolved: ResolvedSpace, seeds: tuple[int, ...], recorded: _Recorded, inputs: Inputs) -> SpacePlan:
    if resolved.space.sampled:
        return _search_plan(resolved, seeds, recorded, inputs)
    runs: list[PlannedRun] = []
    incomplete: list[IncompleteCell] = []
    absent: dict[str, tuple[str, int]] = {}
    for cell in resolved.cells():
        hashes, missing, complete = inputs.of(cell.run(seeds[0]))
        cell_runs = runs_of(resolved, cell, seeds, hashes)
        runs += cell_runs
        if not complete:
            absent |= {run.signature: (cell.id, run.seed) for run in cell_runs}
        if missing:
            why = reasons(missing, cell_runs[0].run, resolved.space.axis_names)
            label, names = cell.label or cell_name(cell.key), tuple(run.signature for run in cell_runs)
            incomplete.append(IncompleteCell(dict(cell.key), label, why, names))
    runs, other_code = take_earlier(runs, recorded.rows, recorded.ledger, recorded.keep)
    done = recorded.done(resolved, runs, absent)
    left = [
        replace(cell, signatures=tuple(name for name in cell.signatures if name not in done)) for cell in incomplete
    ]
    open_cells = tuple(cell for cell in left if cell.signatures)
    changed = () if recorded.keep else changes((run.run.method, run.identity.get(CODE), row) for run, row in other_code)
    stale = _stale(resolved, seeds, recorded, done, inputs)
    return SpacePlan(resolved, seeds, tuple(runs), done, incomplete=open_cells, changed=tuple(changed), stale=stale)


def _stale(
    resolved: ResolvedSpace, seeds: Sequence[int], recorded: _Recorded, done: frozenset[str], inputs: Inputs
) -> tuple[str, ...]:
    """Returns one line for each reason why finished runs of the space's cells are trained again."""
    rows = [row for row in recorded.rows if row.seed in seeds]
    return tuple(each.line() for each in not_reused(resolved, rows, done, inputs.assumed_of))


def runs_of(resolved: ResolvedSpace, cell: Cell, seeds: Iterable[int], hashes: Identity) -> list[PlannedRun]:
    """Returns a cell's runs, one per seed; `hashes` identify the inputs, which all seeds share."""
    of_seed, key, sweep = seed_signature(cell.run(0), hashes), dict(cell.key), resolved.space.id
    return [PlannedRun(of_seed(seed), cell.run(seed), hashes, key, seed, sweep) for seed in seeds]


def _search_plan(resolved: ResolvedSpace, seeds: tuple[int, ...], recorded: _Recorded, inputs: Inputs) -> SpacePlan:
    assert resolved.space.search is not None
    size, num_samples = resolved.size(), resolved.space.search.num_samples
    cells = min(n for n in (size, num_samples) if n is not None)
    matcher = RunMatcher(resolved, lambda run: signature(run, inputs.of(run)[0]))
    rows = [row for row in recorded.rows if row.state.is_final and row.seed in seeds]
    ended_rows = [row for row in rows if matcher.cells(row)]
    cell = resolved.sample(np.random.default_rng(0))
    (like,) = runs_of(resolved, cell, seeds[:1], inputs.assumed_of(cell.run(seeds[0])))
    changed = tuple(changes(_find_other_code(resolved, rows, inputs)))
    done = frozenset(row.signature for row in ended_rows)
    incomplete = tuple(_find_incomplete(resolved, seeds[0], inputs))
    stale = _stale(resolved, seeds, recorded, done, inputs)
    return SpacePlan(resolved, seeds, (), done, cells, like, incomplete=incomplete, changed=changed, stale=stale)


def _find_incomplete(resolved: ResolvedSpace, seed: int, inputs: Inputs) -> Iterator[IncompleteCell]:
    """Yields one example cell of a search for each reason why a cell may lack an input."""
    reported: set[str] = set()
    for cell in _every_value(resolved):
        _, missing, _ = inputs.of(cell.run(seed))
        why = reasons(missing, cell.run(seed), resolved.space.axis_names)
        if not reported.issuperset(why):
            texts = {axis: value for axis, value in cell.key.items() if isinstance(value, str)}
            yield IncompleteCell(dict(cell.key), cell_name(texts) if texts else "every cell", why)
        reported.update(why)


PLANNED_DRAWS = 20
"""Number of random cells to draw while looking for one that has a given conditional axis."""


def _every_value(resolved: ResolvedSpace) -> Iterator[Cell]:
    """Yields cells of a search that together have every listed value of every axis; other axes are random."""
    rng = np.random.default_rng(0)
    yield resolved.sample(rng)
    for axis, domain in resolved.axes.items():
        for value in domain.arguments if domain.word in ("grid", "choice") else ():
            fixed = replace(domain, word="grid", arguments=(value,))
            narrowed = replace(resolved, axes={**resolved.axes, axis: fixed})
            samples = (narrowed.sample(rng) for _ in range(PLANNED_DRAWS))
            yield from itertools.islice((cell for cell in samples if axis in cell.key), 1)


def _find_other_code(
    resolved: ResolvedSpace, rows: Iterable[RunRow], inputs: Inputs
) -> Iterator[tuple[str, object, RunRow]]:
    """Yields (method, digest of its code now, row) for finished runs of a search that differ in code alone."""
    matcher = RunMatcher(resolved)
    for row in rows:
        now = own_digest(row.method) if row.method in methods.names() else None
        if row.state == RunState.DONE and row.identity.get(CODE) != now:
            for cell in matcher.cells(row):
                if drop_code(inputs.assumed_of(cell.run(row.seed))) == drop_code(row.identity):
                    yield row.method, now, row


def _seeds(space: Space, seeds: int | Sequence[int] | None) -> tuple[int, ...]:
    if seeds is None:
        return space.seeds
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not numbers or min(numbers) < 0:
        raise ConfigError([f"no seeds: seeds={seeds}; give a count of at least 1"])
    return numbers
