"""Asynchronous successive halving (ASHA) over all runs of a search, also those of earlier calls and other drivers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler

from cluster.runtime.options import AshaOptions
from cluster.slots.group_api import SlotResult

Points = Mapping[str, list[tuple[int, float]]]
"""Signature of a run -> [(examples, best dev score up to there)], by examples."""


class NotPickled:
    """Mixin that pickles to a plain object.

    Tune pickles schedulers, searchers and callbacks to restore a sweep from them; here a sweep is restored from the
    ledger alone.
    """

    def __reduce__(self) -> Any:
        return (object, ())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


@dataclass(frozen=True)
class _Run:
    """A run as Ray's ASHA reads a trial.

    Its ID is the run's signature, the same in every trial that continues the run.
    """

    trial_id: str


class InOrder(NotPickled, FIFOScheduler):  # type: ignore[misc]
    """Scheduler that starts pending trials in order of their IDs, looking at live trials only.

    Ray's FIFOScheduler looks at all trials that ever were, twice at each event.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        waiting = (trial for trial in tune_controller.get_live_trials() if trial.status == Trial.PENDING)
        return min(waiting, key=attrgetter("trial_id"), default=None)


class SharedAsha(InOrder):
    """Ray's asynchronous successive halving, whose rungs also hold the ledger's points of runs trained elsewhere."""

    def __init__(self, options: AshaOptions, points: Callable[[], Points]) -> None:
        """Creates the scheduler; `points` returns the runs with new points in the ledger, this driver's among them."""
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
        """Puts new points of the ledger on the rungs, except for runs that train here.

        A run that trains here enters a rung by its result alone, which also decides on it.
        """
        for signature, points in self._points().items():
            for examples, best in () if signature in self._local_runs else points:
                self._judge(signature, examples, best)

    def _judge(self, signature: str, examples: int, best: float) -> str:
        """Returns the decision of Ray's scheduler on a point of a run.

        Points seen before, as after a restart, change nothing and return CONTINUE.
        """
        if examples <= self._examples.get(signature, 0):
            return str(TrialScheduler.CONTINUE)
        self._examples[signature] = examples
        run = _Run(signature)
        self._asha.on_trial_add(None, run)
        return str(self._asha.on_trial_result(None, run, {"examples": examples, "best": best}))


def _signature(trial: Any) -> str:
    return str(trial.config["job"].signature)
