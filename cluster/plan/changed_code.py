"""Finds, before any training, finished runs that a plan does not reuse or that other code of their method made."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.ledger import Ledger, RunRow
from analysis.matching.data_sets import DATA_DIGITS
from analysis.matching.match import RunMatcher
from analysis.run_state import RunState
from cluster.plan.plan import PlannedRun
from cse_train.config import RunConfig, complete, renew
from search_spaces.cells import ResolvedSpace
from search_spaces.identity.method_code import AS_RELEASED, ChangedCode, read_released
from search_spaces.identity.signature import CODE, LENGTH, Identity, find_setting, list_signatures, signature


def take_earlier(
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


def drop_code(identity: Mapping[str, str | int]) -> Identity:
    """Returns an identity without its digest of the method's code."""
    return {name: value for name, value in identity.items() if name != CODE}


def _earlier(run: PlannedRun, codes: Iterable[object], done: Mapping[str, RunRow]) -> RunRow | None:
    """Returns the newest finished run that differs in its method's code alone.

    None where there is none or `run` is done.
    """
    if run.signature in done:
        return None
    others = [code for code in codes if code != run.identity.get(CODE)]
    identities = [drop_code(run.identity) | ({CODE: str(code)} if code else {}) for code in others]
    rows = [done.get(signature(run.run, identity)) for identity in identities]
    return max((row for row in rows if row is not None), key=lambda row: row.updated, default=None)


def _predates_digests(row: RunRow, ledger: Ledger | None) -> bool:
    """Tells whether a run of an unreleased method predates code digests, so that its code cannot be known."""
    if CODE in row.identity or row.method in read_released() or ledger is None:
        return False
    attempts = ledger.provenance([row.signature]).get(row.signature, [])
    return not any("method_code" in attempt.details for attempt in attempts)


@dataclass(frozen=True)
class NotReused:
    """Count of finished runs of one method that are trained again, with the reason."""

    method: str
    runs: int
    why: str

    def line(self) -> str:
        """Returns one line for the user that these finished runs of the method are trained again, and why."""
        runs, are = ("1 finished run", "is") if self.runs == 1 else (f"{self.runs} finished runs", "are")
        return f"not reused: {runs} of {self.method} {are} trained again, the old stay in the ledger: {self.why}"


def not_reused(
    resolved: ResolvedSpace, rows: Iterable[RunRow], done: Container[str], identify: Callable[[RunConfig], Identity]
) -> list[NotReused]:
    """Groups finished runs whose settings match a cell but whose signature differs today, by method and reason.

    `done`: signatures that are reused; `identify` returns a run's inputs today. Runs that differ in their method's code
    alone are left to `take_earlier`.
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
    return [NotReused(method, count, why) for (method, why), count in Counter(reasons.values()).items()]


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
