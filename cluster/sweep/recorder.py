"""Records the runs of one driver in the ledger, publishes finished ones, and reports events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.ledger import Claim, Ledger, LostClaim, RunRow
from analysis.ledger.rows import ARITHMETIC, HistoryRow
from analysis.run_folder import RunFolder
from analysis.run_state import WITH_RESULT, RunState
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import RunSource
from cluster.runtime.options import SweepOptions
from cluster.runtime.storage import StorageFailed, storage_problem
from cluster.slots.group_api import IS_LAST, SlotResult
from cluster.sweep.events import EventKind, Failure, OnEvent, SweepEvent, SweepOutcome
from cse_train.results import Outcome, Point, Protocol
from cse_train.user_files import CHANGED, MISSING

EXTERNAL_FAULTS = ("workers lost", "nodes lost", "slot lost", MISSING, CHANGED)
"""Beginnings of failure reasons that are not the run's own fault; runs that failed so are always tried again."""

CORRUPT_PREFIX = "corrupt checkpoint: "
"""Beginning of the reason of a finished run that cannot be scored: its model is damaged or another run's."""


@dataclass
class ClaimedRun:
    """A run that this driver trains or scores, with its claim and progress."""

    planned: PlannedRun
    folder: Path
    claim: Claim | None
    """Claim in the ledger; None where a finished run is only scored."""
    suites: tuple[str, ...]
    finished: RunRow | None = None
    """Ledger row of a finished run that is only scored; None for a run that is trained."""
    last_point: Point | None = None
    unrecorded: list[Point] = field(default_factory=list)
    """Points that came with the end, stored in one transaction with it, because each waits for the disk."""
    lost: int = 0
    alone: bool = False
    """True if the run gets a whole GPU, because the memory of a shared one was used up."""
    waits_for: str = ""
    """Resources for which the run last reported to wait; empty where it waits for none."""


@dataclass(frozen=True)
class LedgerEntry:
    row: RunRow | None
    protocols: Mapping[str, Protocol]
    """Suite -> protocol of its score, for a finished run with wanted suites."""


def is_taken(row: RunRow | None) -> bool:
    return row is not None and (row.live or row.state == RunState.DONE)


class Recorder:
    """Writes to the ledger, and notifies the sweep's source and listener; used in the driver's main thread alone."""

    def __init__(self, source: RunSource, ledger: Ledger, options: SweepOptions, owner: str, on_event: OnEvent) -> None:
        self.source, self.ledger, self.options, self.owner, self.on_event = source, ledger, options, owner, on_event
        self.outcome = SweepOutcome()
        """Counts and failures of this call so far."""
        self.open: dict[str, ClaimedRun] = {}
        """Signature -> run whose end is not recorded yet."""
        self.slowest_s = 0.0
        """Seconds of the slowest finished run that this call has met."""
        self._adopts = False
        """True if the user was told that finished runs of the storage are adopted."""

    def started(self, claimed: ClaimedRun) -> None:
        if claimed.claim:
            self.ledger.running(claimed.claim, claimed.folder)
            self.report(EventKind.STARTED, claimed.planned, state=RunState.RUNNING)

    def progressed(self, claimed: ClaimedRun, result: SlotResult) -> None:
        """Stores and reports a trial's new points; those of its last result are stored with its end."""
        if result["retried"]:
            self.report(
                EventKind.RETRIED, claimed.planned, state=RunState.RUNNING, reason=result["retried"], log=_log(claimed)
            )
        if result["waits_for"] != claimed.waits_for:
            claimed.waits_for = result["waits_for"]
            self.report(EventKind.WAITING, claimed.planned, reason=claimed.waits_for or "it goes on")
        points = result["points"]
        if not points or claimed.claim is None:
            return
        if result[IS_LAST]:
            claimed.unrecorded = points
        else:
            self.ledger.add_points(claimed.claim, points)
        claimed.last_point = point = points[-1]
        state, planned = RunState.RUNNING, claimed.planned
        self.report(EventKind.POINT, planned, state=state, examples=point.examples, best=point.best)

    def ended(self, claimed: ClaimedRun, result: SlotResult) -> None:
        """Records a trial's end: the ranks' outcome, or `stopped` where the scheduler ended it."""
        state = RunState.STOPPED if result["state"] == RunState.RUNNING else result["state"]
        if claimed.claim is None:
            self.close(claimed)
            self._record_scores(claimed, result)
            self._observe_finished(claimed)
        elif state in WITH_RESULT:
            self._record_result(claimed, RunState(state), result)
        else:
            self.failed(claimed, result["reason"])

    def given_up(self, claimed: ClaimedRun, reason: str) -> None:
        """Releases a run that slots lost: it costs no budget, and the next call trains it."""
        self.close(claimed)
        if claimed.claim:
            self.ledger.release(claimed.claim, reason)
            self.source.observe(claimed.planned, RunState.LOST, None, None)
        else:
            self._observe_finished(claimed)
        self._count_failure(claimed.planned, reason, _log(claimed))

    def failed(self, claimed: ClaimedRun, reason: str) -> None:
        """Records a run's failure; raises StorageFailed where the storage is at fault, so that every run would fail."""
        self.raise_for_storage(claimed, reason)
        self.close(claimed)
        if claimed.claim:
            self._finish(claimed, RunState.FAILED, None, claimed.folder, reason)
            self.source.observe(claimed.planned, RunState.FAILED, None, None)
        else:
            self._observe_finished(claimed)
        if (
            not claimed.claim
            and reason.startswith(CORRUPT_PREFIX)
            and self.ledger.reopen([claimed.planned.signature], reason)
        ):
            reason = f"{reason.rpartition(';')[0]}; give the same command again, which trains the run again"
        self._count_failure(claimed.planned, reason, _log(claimed))

    def raise_for_storage(self, claimed: ClaimedRun, reason: str) -> None:
        """Releases the claim and raises StorageFailed where the storage is why the run failed."""
        if problem := storage_problem(self.options.storage, reason):
            self.close(claimed)
            if claimed.claim:
                self.ledger.release(claimed.claim, reason)
            raise StorageFailed(problem)

    def reused(self, planned: PlannedRun, row: RunRow, *, to_score: bool = False) -> None:
        """Counts a run that the ledger has finished; the source observes it now unless it is still to be scored."""
        if not to_score:
            self.source.observe(planned, row.state, row.best, row.examples)
        self.slowest_s = max(self.slowest_s, row.seconds or 0.0)
        self.outcome = replace(self.outcome, reused=self.outcome.reused + 1)
        self.report(EventKind.REUSED, planned, row=row)

    def adopted(self, claimed: ClaimedRun, points: Sequence[Point]) -> None:
        """Records points and end of a claimed run whose folder already has the checkpoints of a finished attempt."""
        if not self._adopts:
            place = f"storage={self.options.storage}"
            line = f"runs of these signatures are finished in {place}: they are taken over, not trained again"
            self.on_event(SweepEvent(kind=EventKind.LEDGER, reason=line))
        self._adopts = True
        claimed.last_point, claimed.unrecorded = points[-1], list(points)
        self._finish(claimed, RunState.DONE, None, self._publish(claimed), None)

    def failed_before(self, planned: PlannedRun, reason: str, log: str) -> None:
        self.source.observe(planned, RunState.FAILED, None, None)
        self._count_failure(planned, reason, log)

    def not_started(self) -> None:
        self.outcome = replace(self.outcome, not_started=self.outcome.not_started + 1)

    def close(self, claimed: ClaimedRun) -> None:
        self.open.pop(claimed.planned.signature, None)

    def report(self, kind: EventKind, planned: PlannedRun, row: RunRow | None = None, **facts: Any) -> None:
        """Sends the listener an event with the run's state from its row, which `facts` override."""
        if row:
            facts = {"state": row.state, "examples": row.examples or 0, "best": row.best, **facts}
        total = planned.examples or 0
        facts["is_turned"] = planned.run.options.TURNED
        self.on_event(SweepEvent(kind=kind, signature=planned.signature, total_examples=total, **facts))

    def _record_result(self, claimed: ClaimedRun, state: RunState, result: SlotResult) -> None:
        outcome = result["outcome"]
        folder = self._publish(claimed) if state == RunState.DONE else claimed.folder
        best = self._finish(claimed, state, outcome, folder, None)
        self.close(claimed)
        self._record_scores(replace(claimed, folder=folder), result)
        if state == RunState.DONE:
            self.outcome = replace(self.outcome, done=self.outcome.done + 1)
        else:
            self.outcome = replace(self.outcome, stopped=self.outcome.stopped + 1)
        reached = outcome or claimed.last_point
        examples = reached.examples if reached else 0
        self.slowest_s = max(self.slowest_s, (reached.seconds or 0.0) if reached else 0.0)
        self.source.observe(claimed.planned, state, best, examples)
        kind = EventKind.DONE if state == RunState.DONE else EventKind.STOPPED
        self.report(kind, claimed.planned, state=state, examples=examples, best=best)

    def _finish(
        self, claimed: ClaimedRun, state: RunState, outcome: Outcome | None, folder: Path, reason: str | None
    ) -> float | None:
        assert claimed.claim is not None
        reached = outcome or claimed.last_point
        best = reached.best if reached else None
        depends = (
            claimed.planned.run.train.precision != "fp32"
        )  # every other precision's arithmetic hangs on the device
        self.ledger.finish(
            claimed.claim,
            state,
            examples=reached.examples if reached else None,
            best=best,
            best_examples=reached.best_examples if reached else None,
            seconds=reached.seconds if reached else None,
            folder=folder,
            reason=reason,
            points=claimed.unrecorded,
            details={ARITHMETIC: reached.precision} if depends and reached and reached.precision else {},
        )
        return best

    def _publish(self, claimed: ClaimedRun) -> Path:
        """Renames the attempt's folder to `final-…`; raises LostClaim where another driver has taken the run over.

        The new name contains the attempt: where the run is taken over between check and rename, the files of the
        attempt that counts stay where its row says.
        """
        assert claimed.claim is not None
        if self.ledger.stands(claimed.claim) is None:
            raise LostClaim(f"claim lost: signature={claimed.planned.signature} attempt={claimed.claim.attempt}")
        final = RunFolder(claimed.folder).published.path
        claimed.folder.rename(final)
        return final

    def _record_scores(self, claimed: ClaimedRun, result: SlotResult) -> None:
        for score in result["scores"]:
            if file := score.file:  # the attempt's folder has another name by now
                score = replace(score, file=replace(file, path=RunFolder(claimed.folder).scores / file.path.name))
            self.ledger.add_score(claimed.planned.signature, score)
            self.report(EventKind.SCORED, claimed.planned, state=RunState.DONE, best=score.value, reason=score.column)

    def _observe_finished(self, claimed: ClaimedRun) -> None:
        """Lets the source observe a finished run that was only scored, whether or not the scoring succeeded."""
        if row := claimed.finished:
            self.source.observe(claimed.planned, row.state, row.best, row.examples)

    def _count_failure(self, planned: PlannedRun, reason: str, log: str) -> None:
        failure = Failure(signature=planned.signature, reason=reason, log=log)
        self.outcome = replace(self.outcome, failures=(*self.outcome.failures, failure))
        self.report(EventKind.FAILED, planned, state=RunState.FAILED, reason=reason, log=log)


def _log(claimed: ClaimedRun) -> str:
    return str(RunFolder(claimed.folder).logs)


def has_failed_twice(history: Iterable[HistoryRow]) -> bool:
    """Tells whether a run's last two failures had the same reason, by the run's own fault."""
    reasons = [row.reason or "" for row in history if row.state == RunState.FAILED][-2:]
    return len(reasons) == 2 and reasons[0] == reasons[1] and not reasons[0].startswith(EXTERNAL_FAULTS)
