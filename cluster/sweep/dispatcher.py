"""Hands out the runs of one driver: claims free ones, reuses finished ones, and waits for those of other drivers."""

import pkgutil
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from analysis.ledger import Claim, Ledger, LostClaim, RunRow
from analysis.run_folder import RunFolder, home_of
from analysis.run_state import CLAIMABLE, RunState
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import RunSource
from cluster.runtime.code_version import provenance
from cluster.runtime.options import SweepOptions
from cluster.runtime.storage import blames_storage, check_here, require_within
from cluster.slots.group_api import Job, SlotResult, total_examples
from cluster.sweep import run_folders
from cluster.sweep.events import EventKind, OnEvent
from cluster.sweep.recorder import ClaimedRun, LedgerEntry, Recorder, has_failed_twice, is_taken
from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.registry import find_unscored, still_valid
from cse_train.fields import Scalar
from cse_train.plugins.snapshot import code_of, leaves_traces
from cse_train.results import Point, Protocol
from search_spaces.identity.method_code import facts

DISPATCHER_POLL_SECONDS = 2.0
"""Seconds between two checks of runs that other drivers hold."""
LOOKAHEAD_RUNS = 200
"""Number of coming runs read from the ledger together, where other drivers hold or ended some."""
NEAR_RUNS = 4
"""Number of free runs, per other driver, out of which a driver picks at random in a list that they share."""
SLOTS_A_RUN = 3
"""Number of slots that try a run before it counts as lost."""


class Dispatcher:
    """Hands out claimed runs with their jobs; its `recorder` records how they end."""

    def __init__(
        self,
        source: RunSource,
        ledger: Ledger,
        paths: DataPaths,
        options: SweepOptions,
        owner: str,
        suites: Mapping[str, Sequence[str]],
        on_event: OnEvent,
    ) -> None:
        self.recorder = Recorder(source, ledger, options, owner, on_event)
        self.source, self.ledger, self.options, self.owner = source, ledger, options, owner
        self.paths, self.suites = paths, suites
        self.waiting: dict[str, PlannedRun] = {}
        """Signature -> run that another driver holds."""
        self._put_back: list[ClaimedRun] = []
        self._for_others: deque[ClaimedRun] = deque()
        """Runs that a slot gave up, handed out after all others: it is free again, and would get them back."""
        self._missing_inputs: list[Mapping[str, Scalar]] = []
        """Settings that name an input for which a run failed."""
        self._over = False
        """True if a search ends because an input is missing, which every further proposal might need."""
        self._next_poll = 0.0
        self._last_was_new = False
        """True if the ledger knew nothing of the last run; the next is then claimed without a look at the ledger."""
        self._order = random.Random(owner)

    def next_run(self) -> ClaimedRun | None:
        """Returns the next run to do here, claimed; None when there is none now (see `finished`)."""
        if self._put_back:
            return self._put_back.pop()
        self.source.refresh()
        claimed = self._poll_waiting()
        ahead: Mapping[str, LedgerEntry] = {}
        while claimed is None and not self._over and (planned := self.source.ask()) is not None:
            if self._needs_missing_input(planned):
                continue
            entry = ahead.get(planned.signature)
            if entry is None and self._last_was_new and not self._adopt(planned):
                claimed = self._claim(planned, finished=CLAIMABLE)
            if claimed is None:
                claimed = self._consider(planned, entry or self._read([planned])[planned.signature])
            if claimed is None and not (entry and entry.row):
                ahead = self._look_ahead()
        if claimed:
            self.recorder.open[claimed.planned.signature] = claimed
        return claimed or (self._for_others.popleft() if self._for_others else None)

    def put_back(self, claimed: ClaimedRun) -> None:
        self._put_back.append(claimed)

    def lost(self, claimed: ClaimedRun, reason: str) -> None:
        """Requeues a run that a slot gave up; after SLOTS_A_RUN slots it is recorded as lost."""
        self.recorder.raise_for_storage(claimed, reason)
        claimed.lost += 1
        if claimed.claim is None or claimed.lost >= SLOTS_A_RUN:
            self.recorder.given_up(claimed, reason)
        else:
            self.leave_to_others(claimed, EventKind.REQUEUED, reason)

    def crowded(self, claimed: ClaimedRun, reason: str) -> None:
        """Requeues a run that found a shared GPU full, to be tried once more on a whole GPU."""
        claimed.alone = True
        self.leave_to_others(claimed, EventKind.REQUEUED, f"tried again alone on a whole card; {reason}")

    def leave_to_others(self, claimed: ClaimedRun, kind: EventKind, reason: str) -> None:
        """Requeues a run after all others: the slot that gave it up would get it back."""
        self._for_others.append(claimed)
        self.recorder.report(kind, claimed.planned, reason=reason)

    def finished(self) -> bool:
        """Tells whether every wanted run has an end in the ledger."""
        return (self._over or self.source.exhausted()) and not self.waiting and not self.recorder.open

    def ended(self, claimed: ClaimedRun, result: SlotResult) -> None:
        """Records a trial's end; after a failure for an input, no run that needs the same input is begun."""
        if result["lacking"]:
            self._missing_inputs.append(result["lacking"])
            self._over = self.source.proposes
        self.recorder.ended(claimed, result)

    def _needs_missing_input(self, planned: PlannedRun) -> bool:
        """Skips a run that needs an input for which another failed; the next call trains it."""
        flat = planned.run.flat() if self._missing_inputs else {}
        needs_input = any(inputs.items() <= flat.items() for inputs in self._missing_inputs)
        if not needs_input or is_taken(self._read([planned])[planned.signature].row):
            return False
        self.source.skip(planned)
        self.recorder.not_started()
        return True

    def taken_over(self, claimed: ClaimedRun) -> None:
        """Notes that another driver holds a claimed run now, whose result is waited for."""
        self.recorder.close(claimed)
        self.waiting[claimed.planned.signature] = claimed.planned
        self.recorder.report(EventKind.WAITING, claimed.planned, reason="claim lost to another driver")

    def job(self, claimed: ClaimedRun) -> Job:
        claim, planned, options = claimed.claim, claimed.planned, self.options
        loop, code = planned.run.options.LOOP, code_of(planned.run.method, claimed.suites)
        return Job(
            signature=planned.signature,
            kind="train" if claim else "score",
            settings=planned.counted.flat(),
            paths=self.paths,
            folder=claimed.folder,
            previous=self._earlier(claim) if claim else (),
            suites=claimed.suites,
            function=loop.train if loop else options.function,
            scorer=loop.scorer if loop else options.scorer,
            gated=options.asha is not None,
            threads=max(1, int(options.cpus_per_worker)),
            save_minutes=options.save_minutes,
            gpus=1 if claimed.alone else options.gpus_per_worker,
            code=code,
            leaves_traces=leaves_traces(code),
            inputs=planned.identity,
        )

    def _read(self, planned: Sequence[PlannedRun]) -> dict[str, LedgerEntry]:
        rows = {row.signature: row for row in self.ledger.runs(signatures=[run.signature for run in planned])}
        done = {row.signature for row in rows.values() if row.state == RunState.DONE}
        scored = [run.signature for run in planned if run.signature in done and self._suites(run)]
        protocols: dict[str, dict[str, Protocol]] = {signature: {} for signature in scored}
        for score in self.ledger.scores(scored) if scored else []:
            protocols[score.signature][score.suite] = score.protocol
        return {
            run.signature: LedgerEntry(rows.get(run.signature), protocols.get(run.signature, {})) for run in planned
        }

    def _look_ahead(self) -> Mapping[str, LedgerEntry]:
        """Reads the coming runs from the ledger together, since drivers of one list meet each other's runs in rows.

        Where other drivers hold some, the nearest free runs are shuffled in an order of this driver's own, else all
        drivers would reach for the same ones.
        """
        coming = self.source.ahead(LOOKAHEAD_RUNS)
        entries = self._read(coming) if coming else {}
        owners = {entry.row.owner for entry in entries.values() if entry.row and entry.row.live}
        if owners:
            taken = [run for run in coming if is_taken(entries[run.signature].row)]
            free = [run for run in coming if not is_taken(entries[run.signature].row)]
            near, far = free[: NEAR_RUNS * len(owners)], free[NEAR_RUNS * len(owners) :]
            self.source.reorder([*taken, *self._order.sample(near, len(near)), *far])
        return entries

    def _wait_for(self, planned: PlannedRun, row: RunRow | None) -> None:
        if planned.signature not in self.waiting:
            self.waiting[planned.signature] = planned
            reason = f"held by {row.owner if row else 'another driver'}"
            self.recorder.report(EventKind.WAITING, planned, row=row, reason=reason)

    def _consider(self, planned: PlannedRun, entry: LedgerEntry) -> ClaimedRun | None:
        """Claims, reuses or waits for a run by its entry, read just now; a claim reads the ledger again."""
        row = entry.row
        self._last_was_new = row is None
        if row and row.live:
            self._wait_for(planned, row)
            return None
        if row and row.state == RunState.DONE:
            missing = find_unscored(self._suites(planned), still_valid(entry.protocols, self.paths))
            if not (missing and self._is_gone(row)):
                files = row.files if missing and row.files and row.files.best.is_dir() else None
                self.recorder.reused(planned, row, to_score=files is not None)
                return ClaimedRun(planned, files.path, None, missing, finished=row) if files else None
            self.ledger.reopen([row.signature], "its folder is gone")
        if row and row.state == RunState.STOPPED and self.source.keeps_stopped:
            self.recorder.reused(planned, row)
            return None
        if (
            row
            and row.state == RunState.FAILED
            and not self.options.retry_failed
            and has_failed_twice(self.ledger.history(planned.signature))
        ):
            reason = f"{row.reason} (the same way twice; --retry-failed tries again)"
            self.recorder.failed_before(planned, reason, row.folder or "")
            return None
        if self._adopt(planned):
            return self._consider(planned, self._read([planned])[planned.signature])
        claimed = self._claim(planned, finished=(RunState.STOPPED,) if self.source.keeps_stopped else ())
        if claimed is None:
            self._wait_for(planned, row)
        return claimed

    def _claim(
        self,
        planned: PlannedRun,
        finished: Sequence[RunState] = (),
        origin: dict[str, object] | None = None,
    ) -> ClaimedRun | None:
        """Claims a run and makes it a folder that no other ledger has; None where it is taken.

        `finished`: states that stand as results; CLAIMABLE claims only what never ended. `origin`: with what the run
        was trained, None for here and now.
        """
        about = (provenance() if origin is None else origin) | facts(planned.run)
        storage, home = self._storage, self._home(planned.signature)
        claim = self.ledger.claim(
            planned.signature,
            planned.run.flat(),
            method=planned.run.method,
            seed=planned.seed,
            owner=self.owner,
            identity=planned.identity,
            provenance=about,
            finished=finished,
        )
        if claim is None:
            return None
        with blames_storage(storage):
            folder = run_folders.begin(home, claim, about).path
        return ClaimedRun(planned, folder, claim, self._suites(planned))

    def _adopt(self, planned: PlannedRun) -> bool:
        """Tells whether the run is done now by a finished attempt in its home, another ledger's or unrecorded."""
        for source in RunFolder.finished_in(self._home(planned.signature)):
            loop = planned.run.options.LOOP
            read: Callable[..., Sequence[Point]] = pkgutil.resolve_name(loop.reader if loop else self.options.reader)
            points = read(source.path, planned.signature, total_examples(planned.counted.flat()))
            if points and self._take_over(planned, source, points):
                return True
        return False

    def _take_over(self, planned: PlannedRun, source: RunFolder, points: Sequence[Point]) -> bool:
        """Claims and ends the run with checkpoints and points of the finished attempt `source`, if they last."""
        # With what another ledger's attempt was trained, as far as is known, and where it lies.
        origin = run_folders.provenance(source) | {"adopted": str(source.path.relative_to(self.options.storage))}
        claimed = self._claim(planned, origin=origin)
        if claimed is None or claimed.claim is None:
            return False
        try:
            with blames_storage(self._storage):
                run_folders.take_over(source, RunFolder(claimed.folder))
            self.recorder.adopted(claimed, points)
        except (FileNotFoundError, LostClaim):
            self.ledger.release(claimed.claim, f"deleted while it was taken over: {source.path}")
            return False
        return True

    def _is_gone(self, row: RunRow) -> bool:
        """Tells whether a finished run's folder left this storage; one whose model was deleted keeps its folder."""
        folder, home = Path(row.folder or "/"), self._home(row.signature)
        return folder.parent == home and not folder.is_dir() and home.parent.is_dir()

    def _poll_waiting(self) -> ClaimedRun | None:
        if not self.waiting or time.monotonic() < self._next_poll:
            return None
        self._next_poll = time.monotonic() + DISPATCHER_POLL_SECONDS
        for signature, entry in self._read(list(self.waiting.values())).items():
            planned, row = self.waiting[signature], entry.row
            if row and row.live:
                continue
            del self.waiting[signature]
            if row and row.state == RunState.FAILED:
                self.recorder.failed_before(planned, row.reason or "failed in another driver", "")
            elif claimed := self._consider(planned, entry):
                self._next_poll = 0.0
                return claimed
        return None

    def _earlier(self, claim: Claim) -> tuple[Path, ...]:
        """Returns folders of earlier attempts, newest first, after those published but never recorded."""
        published = RunFolder.finished_in(self._home(claim.signature))
        history = self.ledger.history(claim.signature) if published else []
        unrecorded = [each.path for each in published if not run_folders.is_others(history, each)]
        return tuple(dict.fromkeys([*unrecorded, *map(Path, claim.previous_folders)]))

    def _suites(self, planned: PlannedRun) -> tuple[str, ...]:
        """Returns the suites that the run's sweep wants and those wanted for the run itself; tables may share it."""
        return tuple(dict.fromkeys((*self.suites.get(planned.sweep, ()), *self.suites.get(planned.signature, ()))))

    def _home(self, signature: str) -> Path:
        return require_within(self.options.storage, home_of(self.options.storage, signature))

    @cached_property
    def _storage(self) -> Path:
        """Folder of runs, checked to be writable here; raises ConfigError where it is not."""
        check_here(self.options.storage)
        return self.options.storage
