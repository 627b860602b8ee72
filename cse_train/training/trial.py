"""Interface of a program to its run: `report` and `best_folder`, which do nothing outside a sweep, over a `Trial`."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cse_train.training.program_folder import BestModel, TrialFolder
from cse_train.training.wire import TrialOrder, Wire

FIT = "fit"
"""Name of the metric that numbers the fits of a run, from 1."""
FRACTION_TOLERANCE = 0.1
"""Tolerance of a fraction beyond 0 and 1: the last step of an estimated length is a little more than all."""
FITS_ADVICE = "`fits: mean` for folds, `fits: last` where only the last one counts"
"""Advice in messages about a program that trains several times."""


class TrialStopped(BaseException):
    """Raised by a report when the scheduler stops the run; it ends the process in order.

    It is no `Exception`, so that `except Exception` around a step lets it through.
    """


class Trial:
    """The run of this process, with the folders for its files.

    Every rank of a run has one and reports at the same steps; the scores of the first rank count.
    """

    def __init__(self, order: TrialOrder, wire: Wire, rank: int) -> None:
        self._order, self._wire, self.rank = order, wire, rank
        folder = TrialFolder(Path(order.last).parent)
        self._best = BestModel(folder.last, Path(order.best), order.mark)
        self.checkpoint_folder = folder.output
        """Folder whose content is there again when the run resumes after an interruption."""
        self.resume_from = folder.output if order.resumes and any(folder.output.iterdir()) else None
        """The `checkpoint_folder` of a run that resumes; None for one that begins."""
        self.best_folder = self._best.aside
        """Folder for the best model, empty after each report that is the best so far.

        Save the model there before the checkpoint.
        """
        self.score_name, self.steps = order.score, order.steps
        self._is_pending = False
        """True while the scheduler has not heard of the newest report."""
        self.reported: int | None = None
        """Step of the newest report, counted from the start of the first fit; None before any."""
        self.fits, self.fit, self.steps_before = order.fits, 0, 0
        """Rule of the space for several fits; this fit's number from 0; and the steps of the fits before it."""
        self._ends = dict(order.fit_ends)
        """Number of a fit -> step of its newest report, in an earlier attempt or this one."""

    def report(
        self,
        step: int,
        *,
        score: float | None = None,
        fraction: float | None = None,
        fit: int | None = None,
        **metrics: float,
    ) -> bool:
        """Reports a score to the sweep, and returns True if it is the best so far.

        The score may also come in `metrics`, under the name that the space gives. `fraction`: the share of the run that
        is done, which `length: {steps: N}` of the space gives too. Raises TrialStopped where the scheduler ends the
        run: after a report that was the best, or with several ranks, the next one does, so that the model is saved and
        all ranks end at one step. `fit`: the number, from 1, of the fold or stage, where `fits:` of the space says what
        counts of several. ValueError without score, length or that number.
        """
        if self._is_pending and self.decide():
            raise TrialStopped
        value = metrics.get(self.score_name) if score is None else score
        if fraction is None:
            fraction = step / self.steps if self.steps else None
        if self.rank == 0 and value is None:
            raise ValueError(f"no score: report(step={step}) has no {self.score_name}; give score=, or that name")
        if fraction is None:
            line = f"no length: report(step={step}) without fraction="
            raise ValueError(f"{line}; give it, or `length: {{steps: N}}` in the space")
        if not -FRACTION_TOLERANCE <= fraction <= 1 + FRACTION_TOLERANCE:
            line = f"no share: report(step={step}) has fraction={fraction:g}"
            raise ValueError(f"{line}; give the share of the run that is done, from 0 to 1")
        self._require_fit(step, fit)
        score = math.nan if value is None else float(value)
        best = self.tell(step, score, fraction, metrics)
        if not best and _count_ranks() == 1 and self.decide():
            raise TrialStopped
        return best

    def tell(self, step: int, score: float, fraction: float, metrics: Mapping[str, object]) -> bool:
        """Sends a report to the rank, and returns True if it is the best so far, for which `best_folder` is now empty.

        `step` and `fraction` are those of this fit alone. `decide` must follow.
        """
        total_step = self.steps_before + step
        if self.reported is not None and total_step <= self.reported:
            line = f"step twice: report(step={step}) after step {self.reported - self.steps_before}"
            raise ValueError(f"{line}; count up, or say in the space what counts of several fits: {FITS_ADVICE}")
        self.reported, self._is_pending = total_step, True
        self._ends[self.fit] = total_step
        numbers = {name: number for name, value in metrics.items() if (number := read_number(value)) is not None}
        if self.fits or self.fit:
            numbers[FIT] = self.fit + 1.0
        answer = self._wire.ask(
            step=total_step, score=score, fraction=fraction, fit=self.fit, metrics=numbers, world=_count_ranks()
        )
        if answer["best"]:
            self._best.begin(total_step, score)
        return bool(answer["best"])

    def begin_fit(self, before: int) -> None:
        """Records that the program trains once more from here on; `before`: the steps of all its fits until now."""
        self.fit, self.steps_before = self.fit + 1, before

    def _require_fit(self, step: int, fit: int | None) -> None:
        """Takes the fit's number, from 1, that a report names; ValueError if it is missing, unexpected or repeated."""
        if (fit is None) == bool(self.fits):
            rule = f"no fit: report(step={step}) without fit=" if self.fits else f"two fits: report(fit={fit})"
            advice = "number the fits from 1" if self.fits else f"say in the space {FITS_ADVICE}"
            raise ValueError(f"{rule}; {advice}")
        if fit is not None and fit - 1 < self.fit:
            raise ValueError(f"fit twice: report(fit={fit}) after fit {self.fit + 1}; count up")
        if fit is not None and fit - 1 > self.fit:
            self.fit = fit - 1
            self.steps_before = max((end for number, end in self._ends.items() if number < self.fit), default=0)

    def decide(self) -> bool:
        """Returns True if the scheduler ends the run after the newest report.

        If that report was the best, its model must be saved by now: it is published first.
        """
        self._best.publish()
        self._is_pending = False
        return bool(self._wire.ask(decide=True)["stop"])

    def say(self, **message: Any) -> None:
        """Sends the rank a message that needs no answer."""
        self._wire.say(**message)

    def publish(self) -> None:
        """Makes the model in `best_folder` the run's best model."""
        self._best.publish()


def read_number(value: object) -> float | None:
    """Returns a metric as a float, also from an array or tensor of one element; None for anything else."""
    if isinstance(value, int | float):
        return float(value)
    item = getattr(value, "item", None)
    try:
        return float(item()) if callable(item) else None
    except (TypeError, ValueError, RuntimeError):
        return None


_trials: list[Trial] = []
"""The trial of this process, or nothing if it has none."""


def begin(trial: Trial) -> None:
    """Registers a trial as that of this process, to which `report` then goes."""
    _trials[:] = [trial]


def _count_ranks() -> int:
    """Returns the number of ranks that train together with this process, as torch knows them."""
    torch = sys.modules.get("torch")
    distributed: Any = getattr(torch, "distributed", None)
    ready = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if ready else 1


def report(
    step: int, *, score: float | None = None, fraction: float | None = None, fit: int | None = None, **metrics: float
) -> bool:
    """Calls `Trial.report` of this process's run; outside a sweep it does nothing and returns False."""
    return _trials[0].report(step, score=score, fraction=fraction, fit=fit, **metrics) if _trials else False


def best_folder() -> Path | None:
    """Returns `Trial.best_folder` of this process's run; None outside a sweep."""
    return _trials[0].best_folder if _trials else None
