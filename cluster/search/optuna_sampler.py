"""Adapts Optuna's samplers to propose cells.

Each seed of a cell is a trial of its own with the cell's parameters, not as a mean over seeds: a Gaussian process reads
the noise off such repeats, TPE weighs a cell by how often it did well, and neither waits for the last seed. The study
lives in memory; a new start adds the ledger's rows to it.
"""

import warnings
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial, TrialState, create_trial

from analysis.matching.match import Observation
from analysis.run_state import RunState
from cluster.search.sampler import Sampler
from cse_train.fields import Scalar
from search_spaces.cells import Cell, ResolvedSpace
from search_spaces.domains import Domain


class OptunaSampler(Sampler):
    """Samples cells from an in-memory Optuna study.

    A cell under way is a running trial, which keeps Optuna's samplers from proposing it again.
    """

    def __init__(self, resolved: ResolvedSpace, kind: type[optuna.samplers.BaseSampler], **options: Any) -> None:
        """Creates the study; `kind` is Optuna's sampler class and `options` its arguments."""
        self._resolved = resolved
        self._codes = {name: _Code(domain) for name, domain in resolved.axes.items()}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = kind(**options)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._running: dict[str, Trial] = {}
        self._suggested: Trial | None = None

    def suggest(self) -> Cell:
        self._suggested, key = self._ask()
        return self._resolved.cell(key)

    def repeat(self, cell: Cell, value: float | None) -> None:
        assert self._suggested is not None
        self._study.tell(self._suggested, value, TrialState.COMPLETE if value is not None else TrialState.FAIL)
        self._suggested = None

    def start(self, cell: Cell) -> None:
        suggested, self._suggested = self._suggested, None
        if cell.id in self._running:
            return
        if suggested is None or suggested.params != self._params(cell):
            if suggested is not None:
                self._study.tell(suggested, state=TrialState.FAIL)
            self._study.enqueue_trial(self._params(cell))
            suggested, _ = self._ask()
        self._running[cell.id] = suggested

    def observe(self, observation: Observation) -> None:
        trial, end = self._running.pop(observation.cell.id, None), outcome(observation)
        if trial is None:
            params = self._params(observation.cell)
            distributions = {name: self._codes[name].distribution for name in params}
            self._study.add_trial(create_trial(params=params, distributions=distributions, **end))
            return
        for examples, value in end.get("intermediate_values", {}).items():
            trial.report(value, examples)
        self._study.tell(trial, observation.value if end["state"] is TrialState.COMPLETE else None, end["state"])

    def _ask(self) -> tuple[Trial, dict[str, Scalar]]:
        """Returns a new running trial, and its parameters as axis values."""
        trial = self._study.ask()
        key: dict[str, Scalar] = {}
        for name, domain in self._resolved.axes.items():
            if domain.active({**self._resolved.fixed, **key}):
                key[name] = self._codes[name].suggest(trial, name)
        return trial, key

    def _params(self, cell: Cell) -> dict[str, object]:
        return {name: self._codes[name].encode(value) for name, value in cell.key.items()}


def outcome(observation: Observation) -> dict[str, Any]:
    """Returns an observation's Optuna state and value.

    A stopped run is PRUNED at its examples, one without a score FAIL.
    """
    if observation.state == RunState.DONE:
        return {"state": TrialState.COMPLETE, "value": observation.value}
    if observation.state == RunState.STOPPED:
        scores = {observation.examples or 0: observation.value}
        return {"state": TrialState.PRUNED, "value": observation.value, "intermediate_values": scores}
    return {"state": TrialState.FAIL}


class _Code:
    """Maps an axis to an Optuna distribution.

    Listed numbers are coded by rank, so that order counts and spacing does not.
    """

    def __init__(self, domain: Domain) -> None:
        self._ranked: list[Any] = []
        self.distribution: BaseDistribution
        if not domain.finite:
            low, high = domain.ends()
            self.distribution = FloatDistribution(float(low), float(high), log=domain.word == "loguniform")
        elif all(isinstance(v, int | float) and not isinstance(v, bool) for v in domain.values()):
            self._ranked = sorted(domain.values())
            self.distribution = IntDistribution(0, len(self._ranked) - 1)
        else:
            self.distribution = CategoricalDistribution(domain.values())

    def suggest(self, trial: Trial, name: str) -> Scalar:
        kind, value = self.distribution, None
        if isinstance(kind, FloatDistribution):
            value = trial.suggest_float(name, kind.low, kind.high, log=kind.log)
        elif isinstance(kind, IntDistribution):
            value = self._ranked[trial.suggest_int(name, kind.low, kind.high)]
        else:
            value = trial.suggest_categorical(name, kind.choices)
        return cast(Scalar, value)

    def encode(self, value: Scalar) -> Any:
        return self._ranked.index(value) if self._ranked else value
