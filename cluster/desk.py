"""The driver's desk: claims runs as slots come free, books in the ledger what happens, publishes what is finished."""

import dataclasses
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.ledger import Claim, Ledger, LostClaim, RunRow
from cluster.failed_runs import StorageFailed, failed_twice, storage_problem
from cluster.options import EventKind, Failure, OnEvent, SweepEvent, SweepOptions
from cluster.packages import provenance
from cluster.source import Planned, Source
from cluster.storage import within
from cse_train.config import DataPaths
from cse_train.evaluate.columns import unscored

POLL_S = 2.0
"""Seconds between two looks at runs that other drivers hold."""


@dataclass
class Ticket:
    """One run in this driver's hands."""

    planned: Planned
    folder: Path
    claim: Claim | None
    """None where a finished run is only scored."""
    suites: tuple[str, ...]
    last: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The newest dev point."""


@dataclass
class Counts:
    """What this call did so far."""

    done: int = 0
    reused: int = 0
    stopped: int = 0
    failures: list[Failure] = dataclasses.field(default_factory=list)


class Desk:
    """Gives out tickets and books how they end. Used from the driver's thread alone."""

    def __init__(
        self,
        source: Source,
        ledger: Ledger,
        paths: DataPaths,
        options: SweepOptions,
        owner: str,
        suites: Mapping[str, Sequence[str]],
        on_event: OnEvent,
    ) -> None:
        self.source, self.ledger, self.paths, self.options, self.owner = source, ledger, paths, options, owner
        self.suites, self.on_event = suites, on_event
        self.counts = Counts()
        self.waiting: dict[str, Planned] = {}
        self.open: dict[str, Ticket] = {}
        self._put_back: list[Ticket] = []
        self._next_poll = 0.0
        self._provenance: dict[str, Any] | None = None

    # Giving out

    def next_ticket(self) -> Ticket | None:
        """The next run to do here, claimed; None when there is none now (see `finished`)."""
        if self._put_back:
            return self._put_back.pop()
        ticket = self._from_waiting()
        while ticket is None and (planned := self.source.take()) is not None:
            ticket = self._consider(planned)
        if ticket:
            self.open[ticket.planned.signature] = ticket
        return ticket

    def put_back(self, ticket: Ticket) -> None:
        """Give a ticket out again at the next call."""
        self._put_back.append(ticket)

    def finished(self) -> bool:
        """Whether every run that is wanted has an end in the ledger."""
        return self.source.exhausted() and not self.waiting and not self.open

    def _consider(self, planned: Planned) -> Ticket | None:
        row = self.ledger.run(planned.signature)
        if row and row.state == "done":
            return self._reuse(planned, row)
        if row and row.state == "stopped" and self.source.keeps_stopped:
            self.source.tell(planned, "stopped", row.best, row.examples)
            self.counts.reused += 1
            self._say("reused", planned, row=row)
            return None
        if row and row.state == "failed" and self._hopeless(planned):
            self.source.tell(planned, "failed", None, None)
            reason = f"{row.reason} (the same way twice; --retry-failed tries again)"
            self._book_failure(planned, reason, row.folder or "")
            return None
        return self._claim(planned, row)

    def _hopeless(self, planned: Planned) -> bool:
        return not self.options.retry_failed and failed_twice(self.ledger.history(planned.signature))

    def _claim(self, planned: Planned, row: RunRow | None) -> Ticket | None:
        home = self._home(planned.signature)
        claim = self.ledger.claim(
            planned.signature,
            planned.run.flat(),
            method=planned.run.method,
            seed=planned.seed,
            owner=self.owner,
            identity=planned.identity,
            provenance=self._where_from(),
        )
        if claim is None:
            if planned.signature not in self.waiting:
                self.waiting[planned.signature] = planned
                self._say(
                    "waiting", planned, row=row, reason=f"held by {row.owner}" if row else "held by another driver"
                )
            return None
        folder = within(self.options.storage, home / f"attempt-{claim.attempt}")
        return Ticket(planned, folder, claim, self._suites(planned))

    def _reuse(self, planned: Planned, row: RunRow) -> Ticket | None:
        """A finished run is not trained again; it is scored on suites of which a column is missing."""
        self.source.tell(planned, "done", row.best, row.examples)
        self.counts.reused += 1
        self._say("reused", planned, row=row)
        wanted = self._suites(planned)
        have = {score.suite for score in self.ledger.scores([planned.signature])} if wanted else set()
        missing = unscored(wanted, have)
        if not missing or not row.folder or not Path(row.folder, "best").is_dir():
            return None
        return Ticket(planned, Path(row.folder), None, missing)

    def _from_waiting(self) -> Ticket | None:
        if not self.waiting or time.monotonic() < self._next_poll:
            return None
        self._next_poll = time.monotonic() + POLL_S
        rows = {row.signature: row for row in self.ledger.runs(signatures=list(self.waiting))}
        for signature, planned in list(self.waiting.items()):
            row = rows.get(signature)
            if row and row.live:
                continue
            del self.waiting[signature]
            if row and row.state == "failed":
                self.source.tell(planned, "failed", None, None)
                self._book_failure(planned, row.reason or "failed in another driver", "")
                continue
            ticket = self._consider(planned)
            if ticket:
                self._next_poll = 0.0
                return ticket
        return None

    def _suites(self, planned: Planned) -> tuple[str, ...]:
        """What its sweep wants, and what the run itself is wanted for: tables may share it."""
        of_sweep, own = self.suites.get(planned.sweep, ()), self.suites.get(planned.signature, ())
        return tuple(dict.fromkeys((*of_sweep, *own)))

    def _home(self, signature: str) -> Path:
        return within(self.options.storage, self.options.storage / "runs" / signature)

    def _where_from(self) -> dict[str, Any]:
        if self._provenance is None:
            self._provenance = provenance()
        return self._provenance

    # Jobs for the slots

    def job(self, ticket: Ticket) -> dict[str, Any]:
        """The ticket as plain data for the ranks."""
        claim, train = ticket.claim, ticket.planned.run.train
        return {
            "signature": ticket.planned.signature,
            "kind": "train" if claim else "score",
            "config": ticket.planned.run.flat(),
            "paths": {k: str(v) if v else None for k, v in vars(self.paths).items()},
            "folder": str(ticket.folder),
            "previous": list(_earlier(claim, self._home(claim.signature))) if claim else [],
            "suites": list(ticket.suites),
            "function": self.options.function,
            "scorer": self.options.scorer,
            "gated": self.options.asha is not None,
            "threads": max(1, int(self.options.cpus_per_worker)),
            "seed": train.seed,
            "total_examples": max(1, train.examples // train.batch_size) * train.batch_size,
        }

    # Booking

    def started(self, ticket: Ticket) -> None:
        if ticket.claim:
            self.ledger.running(ticket.claim, ticket.folder)
            self._say("started", ticket.planned, state="running")

    def progressed(self, ticket: Ticket, result: Mapping[str, Any]) -> None:
        """Store new points, and tell of them."""
        if result.get("retried"):
            self._say("retried", ticket.planned, state="running", reason=result["retried"], log=self._log(ticket))
        points = result.get("points") or []
        if not points or ticket.claim is None:
            return
        self.ledger.add_points(ticket.claim, points)
        ticket.last = points[-1]
        self._say("point", ticket.planned, state="running", examples=ticket.last["examples"], best=ticket.last["best"])

    def ended(self, ticket: Ticket, result: Mapping[str, Any]) -> None:
        """Book a trial's end: what the ranks said, or `stopped` where the scheduler ended it."""
        state = "stopped" if result["state"] == "running" else str(result["state"])
        if ticket.claim is None:
            self._close(ticket)
            self._book_scores(ticket, result)
        elif state in ("done", "stopped"):
            self._book_result(ticket, state, result)
        else:
            self.failed(ticket, str(result["reason"]))

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

    def _book_result(self, ticket: Ticket, state: str, result: Mapping[str, Any]) -> None:
        outcome = result.get("outcome") or {}
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
        self.ledger.finish(ticket.claim, state, folder=folder, reason=reason, **known)
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

    def _book_scores(self, ticket: Ticket, result: Mapping[str, Any]) -> None:
        for score in result.get("scores") or []:
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


def _earlier(claim: Claim, home: Path) -> list[str]:
    """Folders of earlier attempts, newest first; a `final` that was renamed but never booked comes first."""
    unbooked = [str(home / "final")] if (home / "final").is_dir() else []
    return list(dict.fromkeys([*unbooked, *claim.previous_folders]))
