"""Finished runs of a plan that other code of their method made: said before they are reused or trained again."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from analysis.ledger import Ledger, RunRow
from cluster.plan.method_code import AS_RELEASED, ChangedCode, released
from cluster.plan.plan import PlannedRun
from cluster.plan.signature import CODE, Identity, signature


def with_earlier(
    runs: Sequence[PlannedRun], rows: Iterable[RunRow], ledger: Ledger | None, keep: bool
) -> tuple[list[PlannedRun], list[tuple[PlannedRun, RunRow]]]:
    """The runs, each as a finished run of other code has it where that may be taken; and those that a person decides.

    Taken are runs that were recorded before digests were, of methods that are no released ones; with `keep` all.
    """
    done = {row.signature: row for row in rows if row.state == "done"}
    codes = defaultdict(set)
    for row in done.values():
        codes[row.method].add(row.identity.get(CODE))
    pairs = [(run, _earlier(run, codes[run.run.method], done)) for run in runs]
    asked = [(run, row) for run, row in pairs if row is not None and not _undated(row, ledger)]
    undecided = set() if keep else {run.signature for run, _ in asked}
    taken = [run if row is None or run.signature in undecided else _as(run, row) for run, row in pairs]
    return taken, asked


def changes(pairs: Iterable[tuple[str, object, RunRow]]) -> list[ChangedCode]:
    """By method, of (method, code now, finished run)."""
    counts: Counter[tuple[str, str]] = Counter()
    before: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for method, now, row in pairs:
        key = method, str(now or AS_RELEASED)
        counts[key] += 1
        before[key][str(row.identity.get(CODE) or AS_RELEASED)] = None
    return [ChangedCode(method, count, tuple(before[method, now]), now) for (method, now), count in counts.items()]


def without_code(identity: Mapping[str, str | int]) -> Identity:
    """The other inputs."""
    return {name: value for name, value in identity.items() if name != CODE}


def _earlier(run: PlannedRun, codes: Iterable[object], done: Mapping[str, RunRow]) -> RunRow | None:
    """The newest finished run that differs in its code alone; None where there is none, or the run itself is done."""
    if run.signature in done:
        return None
    others = [code for code in codes if code != run.identity.get(CODE)]
    identities = [without_code(run.identity) | ({CODE: str(code)} if code else {}) for code in others]
    rows = [done.get(signature(run.run, identity)) for identity in identities]
    return max((row for row in rows if row is not None), key=lambda row: row.updated, default=None)


def _undated(row: RunRow, ledger: Ledger | None) -> bool:
    """Whether the run is older than digests, of a method that nobody released: what made it cannot be known."""
    if CODE in row.identity or row.method in released() or ledger is None:
        return False
    attempts = ledger.provenance([row.signature]).get(row.signature, [])
    return not any("method_code" in attempt.details for attempt in attempts)


def _as(run: PlannedRun, row: RunRow) -> PlannedRun:
    return PlannedRun(row.signature, run.run, row.identity, run.cell, run.seed, run.sweep)
