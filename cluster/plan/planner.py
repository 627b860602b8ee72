"""Makes a plan from spaces: every cell times every seed, checked against the ledger and the inputs at hand.

Also finds finished runs that the plan does not reuse, or that other code of their method made.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.ledger import Ledger, RunRow
from analysis.matching import DATA_DIGITS, RunMatcher, match
from analysis.run_state import RunState
from cluster.plan.cost import rates
from cluster.plan.plan import Plan, PlannedRun, SpacePlan
from cse_train import methods
from cse_train.config import RunConfig, complete, renew
from cse_train.data_paths import DataPaths
from cse_train.encoder.gone import GONE
from cse_train.fields import ConfigError, Scalar
from search_spaces.cell_names import cell_name
from search_spaces.cells import Cell, ResolvedSpace, resolve
from search_spaces.identity.method_code import AS_RELEASED, ChangedCode, own_digest, read_released
from search_spaces.identity.missing_inputs import IncompleteCell, Inputs, reasons
from search_spaces.identity.signature import (
    CODE,
    LENGTH,
    Identity,
    find_setting,
    list_signatures,
    seed_signature,
    signature,
)
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
        """`absent`: signature -> (cell ID, seed) of runs whose inputs could not be hashed."""
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
    lacks = [why for space in planned for cell in space.incomplete for why in cell.reasons]
    if gone := [why for why in lacks if why.startswith(GONE)]:
        raise ConfigError(list(dict.fromkeys(gone)))
    if need_inputs:
        complete = any(run.signature not in space.incomplete_runs for space in planned for run in space.runs)
        # A search may propose any of its cells, and so needs the inputs of all.
        if lacks and not complete and not any(space.searched and not space.incomplete for space in planned):
            raise ConfigError(list(dict.fromkeys(lacks)))
    unscorable = inputs.unscorable(name for resolved, _ in spaces for name in resolved.suites())
    return Plan(planned, tuple(inputs.assumed), rates(recorded.rows, workers), unscorable)


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
    runs, other_code = _take_earlier(runs, recorded.rows, recorded.ledger, recorded.keep)
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
    rows = [row for row in recorded.rows if row.seed in seeds]
    return tuple(not_reused(resolved, rows, done, inputs.assumed_of))


def runs_of(resolved: ResolvedSpace, cell: Cell, seeds: Iterable[int], hashes: Identity) -> list[PlannedRun]:
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
                if _drop_code(inputs.assumed_of(cell.run(row.seed))) == _drop_code(row.identity):
                    yield row.method, now, row


def _seeds(space: Space, seeds: int | Sequence[int] | None) -> tuple[int, ...]:
    if seeds is None:
        return space.seeds
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not numbers or min(numbers) < 0:
        raise ConfigError([f"no seeds: seeds={seeds}; give a count of at least 1"])
    return numbers


def _take_earlier(
    runs: Sequence[PlannedRun], rows: Iterable[RunRow], ledger: Ledger | None, keep: bool
) -> tuple[list[PlannedRun], list[tuple[PlannedRun, RunRow]]]:
    """Replaces planned runs by finished runs of other code where that is allowed; returns (runs, pairs to decide).

    Replaced are runs recorded before code digests existed, of methods outside the release; with `keep`, every run that
    has a finished counterpart. The pairs (planned run, finished row) are those that only a person can decide on.
    """
    done = {row.signature: row for row in rows if row.state == RunState.DONE}
    codes = defaultdict(set)
    for row in done.values():
        codes[row.method].add(row.identity.get(CODE))
    pairs = [(run, _earlier(run, codes[run.run.method], done)) for run in runs]
    earlier_runs = [(run, row) for run, row in pairs if row is not None and not _predates_digests(row, ledger)]
    undecided = set() if keep else {run.signature for run, _ in earlier_runs}
    replaced = [
        run
        if row is None or run.signature in undecided
        else replace(run, signature=row.signature, identity=dict(row.identity))
        for run, row in pairs
    ]
    return replaced, earlier_runs


def changes(pairs: Iterable[tuple[str, object, RunRow]]) -> list[ChangedCode]:
    """Counts finished runs of other code per method; `pairs`: (method, digest of the code now, finished run)."""
    counts: Counter[tuple[str, str]] = Counter()
    before: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for method, now, row in pairs:
        key = method, str(now or AS_RELEASED)
        counts[key] += 1
        before[key][str(row.identity.get(CODE) or AS_RELEASED)] = None
    return [ChangedCode(method, count, tuple(before[method, now]), now) for (method, now), count in counts.items()]


def _drop_code(identity: Mapping[str, str | int]) -> Identity:
    return {name: value for name, value in identity.items() if name != CODE}


def _earlier(run: PlannedRun, codes: Iterable[object], done: Mapping[str, RunRow]) -> RunRow | None:
    """Returns the newest finished run that differs in its method's code alone; None where `run` is done."""
    if run.signature in done:
        return None
    others = [code for code in codes if code != run.identity.get(CODE)]
    identities = [_drop_code(run.identity) | ({CODE: str(code)} if code else {}) for code in others]
    rows = [done.get(signature(run.run, identity)) for identity in identities]
    return max((row for row in rows if row is not None), key=lambda row: row.updated, default=None)


def _predates_digests(row: RunRow, ledger: Ledger | None) -> bool:
    """Tells whether a run of an unreleased method predates code digests, so that its code cannot be known."""
    if CODE in row.identity or row.method in read_released() or ledger is None:
        return False
    attempts = ledger.provenance([row.signature]).get(row.signature, [])
    return not any("method_code" in attempt.details for attempt in attempts)


def not_reused(
    resolved: ResolvedSpace, rows: Iterable[RunRow], done: Container[str], identify: Callable[[RunConfig], Identity]
) -> Iterator[str]:
    """Yields a line for each method and reason of finished runs that match a cell but have another signature today.

    `done`: signatures that are reused; `identify` returns a run's inputs today. Runs that differ in their method's code
    alone are left to `_take_earlier`.
    """
    matcher, of_renewed = (RunMatcher(resolved, any_code=True) for _ in range(2))
    reasons: dict[tuple[str, int], tuple[str, str]] = {}
    for row in sorted(rows, key=lambda row: row.updated):
        if row.state != RunState.DONE or row.signature in done:
            continue
        for cell in matcher.cells(row) or of_renewed.cells(replace(row, config=renew(row.config), settings="")):
            run = cell.run(row.seed)
            now = identify(run)
            if signature(run, now) not in done and (why := _reason(run, row, now)):
                reasons[cell.id, row.seed] = row.method, why
    for (method, why), count in Counter(reasons.values()).items():
        runs = "1 finished run of {} is" if count == 1 else f"{count} finished runs of {{}} are"
        yield f"not reused: {runs.format(method)} trained again, the old stay in the ledger: {why}"


def _reason(run: RunConfig, row: RunRow, now: Mapping[str, str | int]) -> str:
    """Returns why a finished run is not today's run; empty where the cause is its code or an absent input."""
    parts = [part for part in (*row.identity, *now) if row.identity.get(part) != now.get(part) and part != LENGTH]
    if CODE in parts or any(str(now.get(part)).startswith("absent") for part in parts):
        return ""
    inputs_changed: dict[str, str] = {}
    for part in dict.fromkeys(parts):
        old, new = (str(inputs.get(part, "none"))[:DATA_DIGITS] for inputs in (row.identity, now))
        name = find_setting(part)
        inputs_changed.setdefault(f"{name}={run.flat().get(name)}" if name else part, f"{part} {old} -> {new}")
    if inputs_changed:
        return "; ".join(f"{setting} was other content ({change})" for setting, change in inputs_changed.items())
    before_it, flat = complete(row.config), run.flat()
    later = [key for key in before_it if key not in row.config and before_it[key] != flat.get(key)]
    if later:
        return "; ".join(f"{key} was {before_it[key]}, is {flat.get(key)}" for key in later)
    today = run.options.version()
    signs = list_signatures(run, row.identity)
    before = next((number for number, sign in signs.items() if sign(row.seed) == row.signature), None)
    if before in (None, today):
        return "the rules of training or evaluation are others now"
    return f"the method computes otherwise now (VERSION {before} -> {today})"
