"""A copy of a search in a database of its own, for optuna-dashboard. Written once per observation, never read."""

import logging
import warnings
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import create_trial
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from analysis.ledger.database import parse_url
from cluster.plan.match import Observation
from cluster.search.optuna_sampler import outcome
from cse_train.fields import ConfigError
from search_spaces.cells import ResolvedSpace
from search_spaces.domains import Domain

log = logging.getLogger(__name__)


def mirror_url(ledger: str) -> str:
    """Where the copy of a ledger's searches lies: in its PostgreSQL database, or in `optuna.db` beside its file."""
    url = parse_url(ledger)
    if url.get_backend_name() == "postgresql":
        return url.render_as_string(hide_password=False)
    file = Path(str(url.database)).with_name("optuna.db")
    file.parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{file}"


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string()
    except ArgumentError:
        return url


class StudyMirror:
    """One study in an Optuna database; written again from the ledger at every start, under the space's ID."""

    def __init__(self, url: str, resolved: ResolvedSpace) -> None:
        """Raises ConfigError, one line, when the database cannot be opened."""
        self._axes = resolved.axes
        self._away = False
        self._left: list[Observation] = []
        """Finished runs that the database has not taken."""
        name = resolved.space.id
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            storage = optuna.storages.RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
            if name in optuna.study.get_all_study_names(storage):
                optuna.delete_study(study_name=name, storage=storage)
            self._study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(
                [f"no mirror: mirror={_without_password(url)}; {reason}, give a URL such as sqlite:///mirror.db"]
            ) from error

    def add(self, observation: Observation) -> None:
        """Add one finished run, and those that a database which was away could not take; one warning while it is."""
        self._left.append(observation)
        try:
            while self._left:
                trial = self._frozen(self._left[0])
                if not self._has(trial):
                    self._study.add_trial(trial)
                self._left.pop(0)
        except Exception as error:
            if not self._away:
                log.warning("mirror behind: %s; the ledger has everything", str(error).splitlines()[0])
            self._away = True
            return
        self._away = False

    def _has(self, trial: optuna.trial.FrozenTrial) -> bool:
        """Whether another driver of the search, which sees the same runs end, has added it."""
        trials = self._study.get_trials(deepcopy=False)
        return any((other.params, other.user_attrs) == (trial.params, trial.user_attrs) for other in trials)

    def _frozen(self, observation: Observation) -> optuna.trial.FrozenTrial:
        key: dict[str, Any] = dict(observation.cell.key)
        distributions = {name: _shown(self._axes[name]) for name in key}
        notes = {"seed": observation.seed, "state": observation.state}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return create_trial(params=key, distributions=distributions, user_attrs=notes, **outcome(observation))


def _shown(domain: Domain) -> BaseDistribution:
    """The axis with its real values, as people want to see it."""
    values: list[Any] = list(domain.values() if domain.finite else domain.ends())
    if domain.word == "randint":
        return IntDistribution(values[0], values[-1])
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        return CategoricalDistribution(values)
    return FloatDistribution(float(min(values)), float(max(values)), log=domain.word == "loguniform")
