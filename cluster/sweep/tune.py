"""Connects the dispatcher to Ray Tune: a searcher hands out runs, a callback records results, a stopper ends them.

Asynchronous successive halving (ASHA) goes over all runs of a search, also those of earlier calls and other drivers.
"""

import contextlib
import functools
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import ConcurrencyLimiter, Searcher

from analysis.ledger import Ledger, LostClaim
from analysis.ledger.cluster_log import Driver
from analysis.run_state import RunState
from cluster.plan.run_source import Points
from cluster.runtime import ray_internals
from cluster.runtime.background import background
from cluster.runtime.code_version import code_digest
from cluster.runtime.options import AshaOptions, SweepOptions
from cluster.runtime.resources import cluster_nodes, slots_that_fit_or_0
from cluster.slots.group_api import GroupSettings, ReturnReason, SlotResult, SlotSettings
from cluster.slots.slot import Slot
from cluster.sweep.dispatcher import Dispatcher
from cluster.sweep.events import EventKind, SweepEvent
from cluster.sweep.fair_share import FairShare
from cluster.sweep.places import follow_nodes, has_room, slot_bundle
from cluster.sweep.recorder import ClaimedRun
from cse_train.fields import ConfigError
from cse_train.plugins.snapshot import snapshot


class NotPickled:
    """Mixin that pickles to a plain object: Tune would restore a sweep, which the ledger alone does here."""

    def __reduce__(self) -> Any:
        return (object, ())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


@dataclass(frozen=True)
class _Run:
    """A run as Ray's ASHA reads a trial; the ID is its signature, the same in every trial that continues it."""

    trial_id: str


class InOrder(NotPickled, FIFOScheduler):  # type: ignore[misc]
    """Scheduler in order of IDs; Ray's looks at all trials that ever were, twice at each event."""

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        waiting = (trial for trial in tune_controller.get_live_trials() if trial.status == Trial.PENDING)
        return min(waiting, key=attrgetter("trial_id"), default=None)


class SharedAsha(InOrder):
    """Ray's asynchronous successive halving, whose rungs also hold the ledger's points of runs trained elsewhere."""

    def __init__(self, options: AshaOptions, points: Callable[[], Points]) -> None:
        """Creates the scheduler; `points` returns the runs with new points in the ledger, of every driver."""
        super().__init__()
        self._points, self._examples, self._local_runs = points, dict[str, int](), set[str]()
        self._asha = AsyncHyperBandScheduler(
            metric="best",
            mode="max",
            time_attr="examples",
            max_t=options.max_examples + 1,  # a run that reaches its end is done, not stopped
            grace_period=options.grace_examples,
            reduction_factor=options.reduction_factor,
        )

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        self._take_points()
        self._local_runs.add(_signature(trial))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: SlotResult) -> str:
        self._take_points()
        return self._judge(_signature(trial), result["examples"], result["best"])

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: SlotResult) -> None:
        self._judge(_signature(trial), result["examples"], result["best"])
        self._local_runs.discard(_signature(trial))

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        self._local_runs.discard(_signature(trial))

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        self._local_runs.discard(_signature(trial))

    def _take_points(self) -> None:
        """Puts the ledger's new points on the rungs, but of runs that train here: their results decide on them."""
        for signature, points in self._points().items():
            for examples, best in () if signature in self._local_runs else points:
                self._judge(signature, examples, best)

    def _judge(self, signature: str, examples: int, best: float) -> str:
        """Returns the decision on a point of a run; points seen before, as after a restart, change nothing."""
        if examples <= self._examples.get(signature, 0):
            return str(TrialScheduler.CONTINUE)
        self._examples[signature] = examples
        run = _Run(signature)
        self._asha.on_trial_add(None, run)
        return str(self._asha.on_trial_result(None, run, {"examples": examples, "best": best}))


def _signature(trial: Any) -> str:
    return str(trial.config["job"].signature)


QUIET_RATE = 16.0
"""Results without news that the driver takes per second from all slots; each slot is silent for at least a second."""


class Guard:
    """Calls functions for Tune, which would hide errors or retry: the first one but LostClaim ends the sweep."""

    def __init__(self, over: threading.Event) -> None:
        self.over = over
        self.error: Exception | None = None

    def __call__(self, action: Callable[..., Any], *args: Any) -> Any:
        try:
            return action(*args)
        except LostClaim:
            raise
        except Exception as error:
            self.fail(error)
            return None

    def fail(self, error: Exception) -> None:
        self.error = self.error or error
        self.over.set()


class DispatchSearcher(NotPickled, Searcher):  # type: ignore[misc]
    """Tune searcher that asks the dispatcher for the next run when a slot is free."""

    def __init__(self, dispatcher: Dispatcher, trials: dict[str, ClaimedRun], guard: Guard, slots: int) -> None:
        super().__init__(metric="best", mode="max")
        self._dispatcher, self._trials, self._guard = dispatcher, trials, guard
        self._group = GroupSettings(
            options=dispatcher.options, digest=code_digest(), plugins=snapshot(dispatcher.options.storage)
        )
        self.slots = self.most = slots
        """Numbers of runs at once: `slots` fit the cluster, `most` are allowed by this driver's share of it."""
        self._has_more, self._sweeps = True, set[str]()
        self._slots: dict[str, int] = {}
        """Trial ID -> number of its slot, from 1."""

    def suggest(self, trial_id: str) -> Any:
        claimed = None
        if not self._guard.over.is_set() and len(self._trials) < self.most:
            claimed = self._guard(self._dispatcher.next_run)
            self._has_more = claimed is not None
        if claimed is None:
            return Searcher.FINISHED if self._guard.over.is_set() or self._dispatcher.finished() else None
        self._trials[trial_id] = claimed
        self._sweeps.add(claimed.planned.sweep)
        name = f"slot {self._number(trial_id)} of {claimed.planned.sweep}"
        job = self._dispatcher.job(claimed)
        options = replace(self._group.options, gpus_per_worker=job.gpus)
        return {
            "job": job,
            "slot": SlotSettings(
                name=name,
                group=replace(self._group, options=options),
                quiet_s=max(1.0, self.slots / QUIET_RATE),
                proven=self._dispatcher.recorder.outcome.done > 0,
                slowest_s=self._dispatcher.recorder.slowest_s,
            ),
        }

    def stand(self) -> Driver:
        """Returns this driver's state for fair sharing; may be called in another thread."""
        options, running, most = self._dispatcher.options, len(self._trials), self.slots
        return Driver(
            owner=self._dispatcher.owner,
            cluster=ray_internals.session_name(),
            sweeps=tuple(sorted(self._sweeps.copy())),
            slots=max(most, slots_that_fit_or_0(replace(options, max_concurrent=None), cluster_nodes())),
            most=most,
            running=running,
            wanted=most if self._has_more else running,
            priority=options.priority,
            cap=options.user_slots,
        )

    def _number(self, trial_id: str) -> int:
        """Returns the lowest slot number that no open trial has; a slot keeps the name of its first trial."""
        self._slots = {trial: number for trial, number in self._slots.items() if trial in self._trials}
        number = min(set(range(1, len(self._slots) + 2)) - set(self._slots.values()))
        self._slots[trial_id] = number
        return number

    def on_trial_complete(self, trial_id: str, result: SlotResult | None = None, error: bool = False) -> None:
        """Does nothing: the callback records the end, also of trials that failed."""


class RecordingCallback(NotPickled, tune.Callback):  # type: ignore[misc]
    """Tune callback that records every result; `run_sweep`, not Tune, raises its errors."""

    def __init__(self, dispatcher: Dispatcher, trials: dict[str, ClaimedRun], guard: Guard) -> None:
        self._dispatcher, self._recorder = dispatcher, dispatcher.recorder
        self._trials, self._guard = trials, guard
        self.lost: set[str] = set()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._record(trial, self._recorder.started)

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: SlotResult, **info: Any) -> None:
        self._record(trial, lambda claimed: self._recorder.progressed(claimed, result))
        if result["state"] == ReturnReason.REFUSED:
            self._guard.fail(ConfigError([result["reason"]]))
        if result["state"] == ReturnReason.RESTING:
            self._record(
                trial, lambda claimed: self._dispatcher.leave_to_others(claimed, EventKind.RESTING, result["reason"])
            )
            self._trials.pop(trial.trial_id, None)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        result = trial.last_result
        if result and result.get("state") == RunState.LOST:
            self._record(trial, lambda claimed: self._dispatcher.lost(claimed, result["reason"]))
        elif result and result.get("state") == ReturnReason.CROWDED:
            self._record(trial, lambda claimed: self._dispatcher.crowded(claimed, result["reason"]))
        elif result and result.get("state", ReturnReason.REFUSED) != ReturnReason.REFUSED:
            self._record(trial, lambda claimed: self._dispatcher.ended(claimed, result))
        self._trials.pop(trial.trial_id, None)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        failure = trial.get_pickled_error() if hasattr(trial, "get_pickled_error") else None
        reason = f"slot lost: {str(failure).strip().splitlines()[-1][:300]}" if failure else "slot lost"
        self._record(trial, lambda claimed: self._dispatcher.lost(claimed, reason))
        self._trials.pop(trial.trial_id, None)

    def _record(self, trial: Any, action: Callable[[ClaimedRun], None]) -> None:
        claimed = self._trials.get(trial.trial_id)
        if claimed is None or trial.trial_id in self.lost:
            return
        try:
            self._guard(action, claimed)
        except LostClaim:
            self.lost.add(trial.trial_id)
            self._guard(self._dispatcher.taken_over, claimed)


class SweepStopper(NotPickled, tune.Stopper):  # type: ignore[misc]
    """Tune stopper of trials whose claim was lost, of resting slots once nothing is left, and of all once `over`."""

    def __init__(self, over: threading.Event, callback: RecordingCallback, finished: Callable[[], bool]) -> None:
        self._over, self._callback, self._finished = over, callback, finished

    def __call__(self, trial_id: str, result: SlotResult) -> bool:
        return trial_id in self._callback.lost or (result["state"] == ReturnReason.RESTING and self._finished())

    def stop_all(self) -> bool:
        return self._over.is_set()


def run_trials(
    dispatcher: Dispatcher, options: SweepOptions, slots: int, ledger: Ledger, over: threading.Event
) -> None:
    """Runs what the dispatcher hands out until nothing is left or `over` is set.

    At most `slots` runs go at once; their number follows the nodes of a joined cluster, and falls where the share of
    this driver among those of `ledger` is less.
    """
    trials: dict[str, ClaimedRun] = {}
    guard = Guard(over)
    searcher = DispatchSearcher(dispatcher, trials, guard, slots)
    limiter = ConcurrencyLimiter(searcher, max_concurrent=slots)
    callback = RecordingCallback(dispatcher, trials, guard)
    tuner = tune.Tuner(
        tune.with_resources(Slot, tune.PlacementGroupFactory([slot_bundle(options, slots)])),
        tune_config=tune.TuneConfig(
            metric="best",
            mode="max",
            num_samples=-1,
            search_alg=limiter,
            scheduler=SharedAsha(options.asha, dispatcher.source.points) if options.asha else InOrder(),
            reuse_actors=options.isolation == "slot",
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=f"sweep-{uuid.uuid4().hex[:12]}",
            storage_path=str(options.storage / "ray" / "tune"),
            callbacks=[callback],
            stop=SweepStopper(over, callback, dispatcher.finished),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=options.max_retries),
            verbose=0,
        ),
    )

    def resize(count: int, shape: str) -> None:
        limiter.max_concurrent = searcher.slots = count
        dispatcher.recorder.on_event(SweepEvent(kind=EventKind.CLUSTER, reason=shape))

    follow = functools.partial(follow_nodes, options, slots, resize)
    following = background(follow) if options.address is not None else contextlib.nullcontext()
    share = FairShare(
        ledger, searcher.stand, functools.partial(has_room, options), functools.partial(setattr, searcher, "most")
    )
    with following, background(share.follow), ray_internals.keep_signals(), ray_internals.keep_no_trials():
        tuner.fit()
    if guard.error is not None:
        raise guard.error


def _trial_name(trial: Any) -> str:
    return str(trial.trial_id)
