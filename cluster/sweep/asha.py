"""Successive halving over all runs of a search: those of earlier calls and of other drivers stand on its rungs too."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler

from cluster.runtime.options import AshaOptions
from cluster.slots.group_api import SlotResult

Points = Mapping[str, list[tuple[int, float]]]
"""Signature -> (examples, best dev score up to there) by examples."""


class Unsaved:
    """Tune pickles what it is given, to restore from; we restore from the ledger, so nothing of ours is written."""

    def __reduce__(self) -> Any:
        return (object, ())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


@dataclass(frozen=True)
class _Run:
    """What Ray's scheduler reads of a trial: under its signature, a run is one run in whatever trial it goes on."""

    trial_id: str


class InOrder(Unsaved, FIFOScheduler):  # type: ignore[misc]
    """Begins trials as they come, and looks for them among those that are not over: Ray's own looks at all there were,
    twice at each event."""

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        waiting = (trial for trial in tune_controller.get_live_trials() if trial.status == Trial.PENDING)
        return min(waiting, key=attrgetter("trial_id"), default=None)


class SharedAsha(InOrder):
    """Ray's asynchronous successive halving, whose rungs also hold the points that the ledger has of other trials."""

    def __init__(self, options: AshaOptions, points: Callable[[], Points]) -> None:
        """`points` gives the runs with new points in the ledger, this driver's among them."""
        super().__init__()
        self._points, self._seen, self._trained_here = points, dict[str, int](), set[str]()
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
        self._trained_here.add(_signature(trial))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: SlotResult) -> str:
        self._take_points()
        return self._judge(_signature(trial), result["examples"], result["best"])

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: SlotResult) -> None:
        self._judge(_signature(trial), result["examples"], result["best"])
        self._trained_here.discard(_signature(trial))

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        self._trained_here.discard(_signature(trial))

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        self._trained_here.discard(_signature(trial))

    def _take_points(self) -> None:
        """Of the ledger. A run that trains here stands on a rung by its result alone, which decides on it too."""
        for signature, points in self._points().items():
            for examples, best in () if signature in self._trained_here else points:
                self._judge(signature, examples, best)

    def _judge(self, signature: str, examples: int, best: float) -> str:
        """What Ray says of a point; one that was seen before, as after a restart, changes nothing."""
        if examples <= self._seen.get(signature, 0):
            return str(TrialScheduler.CONTINUE)
        self._seen[signature] = examples
        run = _Run(signature)
        self._asha.on_trial_add(None, run)
        return str(self._asha.on_trial_result(None, run, {"examples": examples, "best": best}))


def _signature(trial: Any) -> str:
    return str(trial.config["job"].signature)
