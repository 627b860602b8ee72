"""Copies a search to an Optuna database for optuna-dashboard, in the background; no search reads the copy.

A failure of the copy never affects the search: the ledger has everything, and the next start adds what the copy lacks.
"""

import contextlib
import fcntl
import logging
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, create_trial
from sqlalchemy import Engine, event, text

from analysis.ledger import mask_password
from analysis.ledger.database import parse_url
from analysis.matching.match import Observation
from cluster.search.optuna_sampler import outcome
from search_spaces.cells import ResolvedSpace
from search_spaces.domains import Domain

log = logging.getLogger(__name__)
TRIALS_A_CALL = 100
"""Number of trials added under one lock, before other drivers may add theirs."""
MIRROR_RETRY_SECONDS = 5.0
"""Seconds until an unreachable Optuna database is tried again."""
MIRROR_CLOSE_SECONDS = 10.0
"""Maximum seconds that the end of a search waits for its Optuna copy."""
LOCK = 0x637365
"""Key of the PostgreSQL advisory lock under which one driver at a time compares and adds trials."""


def mirror_url(ledger: str) -> str:
    """Returns the URL of the database with Optuna copies of a ledger's searches.

    It is the ledger's own PostgreSQL database, or `optuna.db` beside the ledger's SQLite file.
    """
    url = parse_url(ledger)
    if url.get_backend_name() == "postgresql":
        return url.render_as_string(hide_password=False)
    return f"sqlite:///{Path(str(url.database)).with_name('optuna.db')}"


class StudyMirror:
    """Mirrors one search as an Optuna study under the space's ID; a context manager that brings it up to date at exit.

    `add` returns at once. An unreachable database costs one warning, and gets later what it lacks.
    """

    def __init__(self, url: str, resolved: ResolvedSpace) -> None:
        self._url, self._axes, self._name = url, resolved.axes, resolved.space.id
        self._study: optuna.Study | None = None
        self._engine: Engine | None = None
        self._left: list[Observation] = []
        """Finished runs that have not been added to the Optuna database yet."""
        self._every: list[Observation] = []
        self._news, self._closing = threading.Condition(), False
        self._warned = False
        self._thread = threading.Thread(target=self._work, name="mirror", daemon=True)

    def __enter__(self) -> "StudyMirror":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join(MIRROR_CLOSE_SECONDS)

    def add(self, observation: Observation) -> None:
        """Queues one finished run to be added, if the study lacks it."""
        with self._news:
            self._every.append(observation)
            self._left.append(observation)
            self._news.notify()

    def _work(self) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        while True:
            with self._news:
                self._news.wait_for(lambda: self._left or self._closing)
                chosen = self._left[:TRIALS_A_CALL]
                if not chosen:
                    return
            try:
                self._add_set(chosen)
            except Exception as error:  # of any database driver
                self._say(error)
                with self._news:
                    # All runs again: the study may have been deleted, and trials that it still has are skipped.
                    self._study, self._left = None, list(self._every)
                    if self._closing or self._news.wait_for(lambda: self._closing, MIRROR_RETRY_SECONDS):
                        return
                continue
            with self._news:
                self._left, self._warned = self._left[len(chosen) :], False

    def _add_set(self, chosen: list[Observation]) -> None:
        study = self._study = self._study or self._open_study()
        trials = {_key(trial): trial for trial in map(self._freeze, chosen)}
        with self._alone():
            present = {_key(trial) for trial in study.get_trials(deepcopy=False)}
            study.add_trials([trial for key, trial in trials.items() if key not in present])
        if self._engine is not None:
            self._engine.dispose()  # a server has few connections, and searches may be many

    def _open_study(self) -> optuna.Study:
        url = parse_url(self._url)
        server = url.get_backend_name() == "postgresql"
        if not server:
            Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
        # What a crash of the machine takes from the copy, the next start adds again: no write waits for the disk.
        fast = {"connect_args": {"options": "-c synchronous_commit=off", "connect_timeout": 10}} if server else {}
        with self._alone():
            storage = optuna.storages.RDBStorage(
                url.render_as_string(hide_password=False),
                engine_kwargs={"pool_pre_ping": True, "pool_size": 1, "max_overflow": 1, **fast},
            )
            self._engine = storage.engine
            if not server:
                event.listen(storage.engine, "connect", _skip_syncs)
                storage.engine.dispose()
            return optuna.create_study(
                storage=storage, study_name=self._name, direction="maximize", load_if_exists=True
            )

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Context manager in which one driver at a time compares and adds trials, so that none is added twice."""
        url = parse_url(self._url)
        if url.get_backend_name() == "sqlite":
            with Path(f"{url.database}.lock").open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
        elif self._engine is None:
            yield
        else:
            with self._engine.connect() as connection, connection.begin():
                connection.execute(text(f"select pg_advisory_xact_lock({LOCK})"))
                yield

    def _say(self, error: Exception) -> None:
        if not self._warned:
            reason = mask_password((str(error).strip() or type(error).__name__).splitlines()[0])
            log.warning("mirror behind: mirror=%s; %s; the ledger has everything", mask_password(self._url), reason)
        self._warned = True

    def _freeze(self, observation: Observation) -> FrozenTrial:
        key: dict[str, object] = dict(observation.cell.key)
        distributions = {name: _make_distribution(self._axes[name]) for name in key}
        notes = {"seed": observation.seed, "state": observation.state}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return create_trial(params=key, distributions=distributions, user_attrs=notes, **outcome(observation))


def _key(trial: FrozenTrial) -> tuple[object, ...]:
    """Returns what identifies a run's end; a run that ends again in another way is a trial of its own."""
    notes = trial.user_attrs
    return tuple(sorted(trial.params.items())), notes.get("seed"), notes.get("state"), trial.value


def _skip_syncs(connection: Any, record: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")


def _make_distribution(domain: Domain) -> BaseDistribution:
    """Returns an axis as an Optuna distribution over its real values, as people want to see it."""
    values: list[Any] = list(domain.values() if domain.finite else domain.ends())
    if domain.word == "randint":
        return IntDistribution(values[0], values[-1])
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        return CategoricalDistribution(values)
    return FloatDistribution(float(min(values)), float(max(values)), log=domain.word == "loguniform")
