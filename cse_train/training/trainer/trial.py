"""What a training function is called with, and `report` for code that may run outside of a sweep too."""

import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cse_train.results import Scalar
from cse_train.training.trainer.models import BestModel, TrialFolder
from cse_train.training.trainer.wire import TrialOrder, Wire

FIT = "fit"
"""The metric that numbers the fits of a run, from 1."""
MOST_BEYOND = 0.1
"""How far a share may be beyond 0 and 1: the last step of an estimated length is a little more than all."""
FITS_ADVICE = "`fits: mean` for folds, `fits: last` where only the last one counts"


class TrialStopped(BaseException):
    """The scheduler ends this run here: it is raised by a report, and ends the process in order.

    It is no `Exception`, so that `except Exception` around a step lets it through.
    """


class Trial:
    """One run: what it is given, and where it keeps what.

    Every rank of a run has one and reports at the same steps; the scores of the first rank count.
    """

    def __init__(self, order: TrialOrder, wire: Wire, rank: int) -> None:
        self._order, self._wire, self.rank = order, wire, rank
        folder = TrialFolder(Path(order.last).parent)
        self._best = BestModel(folder.last, Path(order.best), order.mark)
        self.params: dict[str, Scalar] = order.params
        """The run's parameters by name."""
        self.seed = order.seed
        self.checkpoint_folder = folder.output
        """Whatever is written here is there again when the run goes on after an interruption."""
        self.resume_from = folder.output if order.resumes and any(folder.output.iterdir()) else None
        """The `checkpoint_folder` of a run that goes on; None for one that begins."""
        self.best_folder = self._best.aside
        """Empty after a report that was the best so far: save the model here, before the checkpoint."""
        self.score_name, self.steps = order.score, order.steps
        self._open = False
        """Whether the scheduler has not yet heard of the newest report."""
        self.reported: int | None = None
        """The step of the newest report, counted from the first fit's begin."""
        self.fits, self.fit, self.before = order.fits, 0, 0
        """What the space says of several fits, the number of this one from 0, and the steps of those before it."""
        self._ends = dict(order.fit_ends)
        """Number of a fit -> the step of its newest report, in an earlier attempt or this one."""

    def report(
        self,
        step: int,
        *,
        score: float | None = None,
        fraction: float | None = None,
        fit: int | None = None,
        **metrics: float,
    ) -> bool:
        """Tell the sweep a score, or `metrics` with it under the name that the space gives; whether it is the best yet.

        `fraction`: the share of the run that is done, which `length: {steps: N}` of the space gives too. Raises
        TrialStopped where the scheduler ends the run: after a report that was the best, or with several ranks, the next
        one does, so that the model is saved and all ranks end at one step. `fit`: the number, from 1, of the fold or
        stage, where `fits:` of the space says what counts of several. ValueError without score, length or that number.
        """
        if self._open and self.decide():
            raise TrialStopped
        value = metrics.get(self.score_name) if score is None else score
        if fraction is None:
            fraction = step / self.steps if self.steps else None
        if self.rank == 0 and value is None:
            raise ValueError(f"no score: report(step={step}) has no {self.score_name}; give score=, or that name")
        if fraction is None:
            line = f"no length: report(step={step}) without fraction="
            raise ValueError(f"{line}; give it, or `length: {{steps: N}}` in the space")
        if not -MOST_BEYOND <= fraction <= 1 + MOST_BEYOND:
            line = f"no share: report(step={step}) has fraction={fraction:g}"
            raise ValueError(f"{line}; give the share of the run that is done, from 0 to 1")
        self._require_fit(step, fit)
        score = math.nan if value is None else float(value)
        best = self.tell(step, score, fraction, metrics)
        if not best and count_ranks() == 1 and self.decide():
            raise TrialStopped
        return best

    def tell(self, step: int, score: float, fraction: float, metrics: Mapping[str, object]) -> bool:
        """Whether this is the best report so far, for which `best_folder` is empty now. `decide` follows.

        `step` and `fraction` are those of this fit alone.
        """
        counted = self.before + step
        if self.reported is not None and counted <= self.reported:
            line = f"step twice: report(step={step}) after step {self.reported - self.before}"
            raise ValueError(f"{line}; count up, or say in the space what counts of several fits: {FITS_ADVICE}")
        self.reported, self._open = counted, True
        self._ends[self.fit] = counted
        plain = {name: number for name, value in metrics.items() if (number := read_number(value)) is not None}
        if self.fits or self.fit:
            plain[FIT] = self.fit + 1.0
        answer = self._wire.ask(
            step=counted, score=score, fraction=fraction, fit=self.fit, metrics=plain, world=count_ranks()
        )
        if answer["best"]:
            self._best.begin(counted, score)
        return bool(answer["best"])

    def begin_fit(self, before: int) -> None:
        """The program trains once more from here on; `before`: steps of all its fits until now."""
        self.fit, self.before = self.fit + 1, before

    def _require_fit(self, step: int, fit: int | None) -> None:
        """Take the number of a fit, from 1, that a report names; ValueError where it lacks one, or has one too much."""
        if (fit is None) == bool(self.fits):
            what = f"no fit: report(step={step}) without fit=" if self.fits else f"two fits: report(fit={fit})"
            advice = "number the fits from 1" if self.fits else f"say in the space {FITS_ADVICE}"
            raise ValueError(f"{what}; {advice}")
        if fit is not None and fit - 1 < self.fit:
            raise ValueError(f"fit twice: report(fit={fit}) after fit {self.fit + 1}; count up")
        if fit is not None and fit - 1 > self.fit:
            self.fit = fit - 1
            self.before = max((end for number, end in self._ends.items() if number < self.fit), default=0)

    def decide(self) -> bool:
        """Whether the scheduler ends the run after the newest report, whose model, if it was the best, is saved now."""
        self._best.publish()
        self._open = False
        return bool(self._wire.ask(decide=True)["stop"])

    def say(self, **said: Any) -> None:
        """Tell the rank something that needs no answer."""
        self._wire.say(**said)

    def publish(self) -> None:
        """Let the model in `best_folder` count."""
        self._best.publish()


def read_number(value: object) -> float | None:
    """A metric as a number, of an array or tensor of one element too; None for anything else."""
    if isinstance(value, int | float):
        return float(value)
    item = getattr(value, "item", None)
    try:
        return float(item()) if callable(item) else None
    except (TypeError, ValueError, RuntimeError):
        return None


_trials: list[Trial] = []
"""The trial of this process, where it is one."""


def begin(trial: Trial) -> None:
    """This process is the trial's from now on."""
    _trials[:] = [trial]


def count_ranks() -> int:
    """Ranks that train together with this process, as torch knows them."""
    torch = sys.modules.get("torch")
    distributed: Any = getattr(torch, "distributed", None)
    ready = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if ready else 1


def report(
    step: int, *, score: float | None = None, fraction: float | None = None, fit: int | None = None, **metrics: float
) -> bool:
    """`Trial.report` of the run that this process is; outside of a sweep it does nothing and is False."""
    return _trials[0].report(step, score=score, fraction=fraction, fit=fit, **metrics) if _trials else False


def best_folder() -> Path | None:
    """`Trial.best_folder` of the run that this process is; None outside of a sweep."""
    return _trials[0].best_folder if _trials else None


def rank_here() -> int:
    """This process's rank, by its environment."""
    return int(os.environ.get("RANK", "0"))
