"""The driver's desk: claims runs as slots come free, reuses what is finished, waits for what others hold."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.ledger import Claim, Ledger, RunRow
from analysis.ledger.rows import HistoryRow
from cluster.plan.run_source import Planned, Source
from cluster.runtime.code_version import provenance
from cluster.runtime.options import SweepOptions
from cluster.runtime.storage import within
from cluster.slots.group_api import Job
from cluster.sweep.events import OnEvent
from cluster.sweep.recorder import Bookings, Ticket
from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.registry import unscored

POLL_S = 2.0
"""Seconds between two looks at runs that other drivers hold."""


class Desk(Bookings):
    """Gives out tickets and books how they end."""

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
        super().__init__(source, ledger, options, owner, on_event)
        self.paths, self.suites = paths, suites
        self._put_back: list[Ticket] = []
        self._next_poll = 0.0
        self._provenance: dict[str, Any] | None = None

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

    def job(self, ticket: Ticket) -> Job:
        """What the ranks are to do."""
        claim, planned, options = ticket.claim, ticket.planned, self.options
        return Job(
            signature=planned.signature,
            kind="train" if claim else "score",
            run=planned.run,
            paths=self.paths,
            folder=ticket.folder,
            previous=earlier(claim, self._home(claim.signature)) if claim else (),
            suites=ticket.suites,
            function=options.function,
            scorer=options.scorer,
            gated=options.asha is not None,
            threads=max(1, int(options.cpus_per_worker)),
        )


LOST = ("workers lost", "nodes lost", "slot lost")
"""How the reason of a failure begins that is the machines' and not the run's: such a run is always tried again."""


def failed_twice(history: Iterable[HistoryRow]) -> bool:
    """Whether a run's last two failures had one reason, of its own making."""
    reasons = [row.reason or "" for row in history if row.state == "failed"][-2:]
    return len(reasons) == 2 and reasons[0] == reasons[1] and not reasons[0].startswith(LOST)


def earlier(claim: Claim, home: Path) -> tuple[Path, ...]:
    """Folders of earlier attempts, newest first; a `final` that was renamed but never recorded comes first."""
    unrecorded = [home / "final"] if (home / "final").is_dir() else []
    return tuple(dict.fromkeys([*unrecorded, *map(Path, claim.previous_folders)]))
