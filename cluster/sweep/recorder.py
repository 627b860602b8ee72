"""The half of the driver's desk that books in the ledger what happens to runs, and publishes what is finished."""

import dataclasses
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.ledger import Claim, Ledger, LostClaim, RunRow
from cluster.plan.run_source import Planned, Source
from cluster.runtime.options import SweepOptions
from cluster.runtime.storage import StorageFailed, storage_problem
from cluster.slots.group_api import Plain, SlotResult
from cluster.sweep.events import EventKind, Failure, OnEvent, SweepEvent


@dataclass
class Ticket:
    """One run in this driver's hands."""

    planned: Planned
    folder: Path
    claim: Claim | None
    """None where a finished run is only scored."""
    suites: tuple[str, ...]
    last: Plain = dataclasses.field(default_factory=dict)
    """The newest dev point."""
    unbooked: list[Plain] = dataclasses.field(default_factory=list)
    """Points that came with the end: one transaction for both, because each is a wait for the disk."""


@dataclass
class Counts:
    """What this call did so far."""

    done: int = 0
    reused: int = 0
    stopped: int = 0
    failures: list[Failure] = dataclasses.field(default_factory=list)


class Bookings:
    """Books for one driver, and tells the sweep's source and its listener. Used from the driver's thread alone."""

    def __init__(self, source: Source, ledger: Ledger, options: SweepOptions, owner: str, on_event: OnEvent) -> None:
        self.source, self.ledger, self.options, self.owner, self.on_event = source, ledger, options, owner, on_event
        self.counts = Counts()
        self.waiting: dict[str, Planned] = {}
        self.open: dict[str, Ticket] = {}

    def started(self, ticket: Ticket) -> None:
        if ticket.claim:
            self.ledger.running(ticket.claim, ticket.folder)
            self._say("started", ticket.planned, state="running")

    def progressed(self, ticket: Ticket, result: SlotResult) -> None:
        """Store new points, those of a trial's last result with its end, and tell of them."""
        if result["retried"]:
            self._say("retried", ticket.planned, state="running", reason=result["retried"], log=self._log(ticket))
        points = result["points"]
        if not points or ticket.claim is None:
            return
        if result["done"]:
            ticket.unbooked = points
        else:
            self.ledger.add_points(ticket.claim, points)
        ticket.last = points[-1]
        self._say("point", ticket.planned, state="running", examples=ticket.last["examples"], best=ticket.last["best"])

    def ended(self, ticket: Ticket, result: SlotResult) -> None:
        """Book a trial's end: what the ranks said, or `stopped` where the scheduler ended it."""
        state = "stopped" if result["state"] == "running" else result["state"]
        if ticket.claim is None:
            self._close(ticket)
            self._book_scores(ticket, result)
        elif state in ("done", "stopped"):
            self._book_result(ticket, state, result)
        else:
            self.failed(ticket, result["reason"])

    def failed(self, ticket: Ticket, reason: str) -> None:
        """Book a failure; nothing that other runs did is touched. StorageFailed where every run would fail so."""
        self._close(ticket)
        if problem := storage_problem(self.options.storage, reason):
            if ticket.claim:
                self.ledger.release(ticket.claim, reason)
            raise StorageFailed(problem)
        if ticket.claim:
            self._finish(ticket, "failed", {}, ticket.folder, reason)
            self.source.tell(ticket.planned, "failed", None, None)
        self._book_failure(ticket.planned, reason, self._log(ticket))

    def taken_over(self, ticket: Ticket) -> None:
        """Another driver holds the run now: wait for its result."""
        self._close(ticket)
        self.waiting[ticket.planned.signature] = ticket.planned
        self._say("waiting", ticket.planned, reason="claim lost to another driver")

    def _book_result(self, ticket: Ticket, state: str, result: SlotResult) -> None:
        outcome = result["outcome"]
        folder = self._publish(ticket) if state == "done" else ticket.folder
        best = self._finish(ticket, state, outcome, folder, None)
        self._close(ticket)
        self._book_scores(dataclasses.replace(ticket, folder=folder), result)
        self.counts.done += state == "done"
        self.counts.stopped += state == "stopped"
        examples = outcome.get("examples", ticket.last.get("examples", 0))
        self.source.tell(ticket.planned, state, best, examples)
        kind: EventKind = "done" if state == "done" else "stopped"
        self._say(kind, ticket.planned, state=state, examples=examples, best=best)

    def _finish(
        self, ticket: Ticket, state: str, outcome: Mapping[str, Any], folder: Path, reason: str | None
    ) -> float | None:
        assert ticket.claim is not None
        known = {
            name: outcome.get(name, ticket.last.get(name)) for name in ("examples", "best", "best_examples", "seconds")
        }
        self.ledger.finish(ticket.claim, state, folder=folder, reason=reason, points=ticket.unbooked, **known)
        return known["best"]

    def _publish(self, ticket: Ticket) -> Path:
        """Rename the attempt's folder to the run's `final`; an attempt that was taken over may not (LostClaim)."""
        assert ticket.claim is not None
        row = self.ledger.run(ticket.planned.signature)
        if row is None or (row.owner, row.attempt) != (self.owner, ticket.claim.attempt):
            raise LostClaim(f"claim lost: signature={ticket.planned.signature} attempt={ticket.claim.attempt}")
        final = ticket.folder.with_name("final")
        if final.exists():
            aside = final.with_name(f"unbooked-{ticket.claim.attempt}")
            shutil.rmtree(aside, ignore_errors=True)
            final.rename(aside)
        ticket.folder.rename(final)
        return final

    def _book_scores(self, ticket: Ticket, result: SlotResult) -> None:
        for score in result["scores"]:
            file = score.get("cosines_file")
            self.ledger.add_score(
                ticket.planned.signature,
                score["suite"],
                score["value"],
                score["protocol"],
                str(ticket.folder / "scores" / Path(file).name) if file else None,
                score.get("cosines_hash"),
            )
            self._say("scored", ticket.planned, state="done", best=score["value"], reason=score["suite"])

    def _book_failure(self, planned: Planned, reason: str, log: str) -> None:
        self.counts.failures.append(Failure(signature=planned.signature, reason=reason, log=log))
        self._say("failed", planned, state="failed", reason=reason, log=log)

    def _close(self, ticket: Ticket) -> None:
        self.open.pop(ticket.planned.signature, None)

    def _log(self, ticket: Ticket) -> str:
        return str(ticket.folder / "logs")

    def _say(self, kind: EventKind, planned: Planned, row: RunRow | None = None, **known: Any) -> None:
        if row:
            known = {"state": row.state, "examples": row.examples or 0, "best": row.best, **known}
        self.on_event(SweepEvent(kind=kind, signature=planned.signature, **known))
