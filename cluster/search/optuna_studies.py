"""Optuna's samplers, which propose cells, and copies of searches in an Optuna database for optuna-dashboard.

Each seed of a cell is a trial of its own with the cell's parameters, not as a mean over seeds: a Gaussian process reads
the noise off such repeats, TPE weighs a cell by how often it did well, and neither waits for the last seed. The study
lives in memory; a new start adds the ledger's rows to it.
"""

import contextlib
import fcntl
import logging
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from sqlalchemy import Engine, event, text

from analysis.ledger import mask_password
from analysis.ledger.database import parse_url
from analysis.matching import Observation
from analysis.run_state import RunState
from cluster.search.samplers import Sampler
from cse_train.fields import Scalar
from search_spaces.cells import Cell, ResolvedSpace
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


class OptunaSampler(Sampler):
    """Samples cells from an in-memory study; a cell under way is a running trial, and not proposed again."""

    def __init__(self, resolved: ResolvedSpace, kind: type[optuna.samplers.BaseSampler], **options: Any) -> None:
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
        trial = self._study.ask()
        key: dict[str, Scalar] = {}
        for name, domain in self._resolved.axes.items():
            if domain.active({**self._resolved.fixed, **key}):
                key[name] = self._codes[name].suggest(trial, name)
        return trial, key

    def _params(self, cell: Cell) -> dict[str, object]:
        return {name: self._codes[name].encode(value) for name, value in cell.key.items()}


def outcome(observation: Observation) -> dict[str, Any]:
    """Returns an observation's state and value for Optuna; a stopped run is PRUNED, one without a score FAIL."""
    if observation.state == RunState.DONE:
        return {"state": TrialState.COMPLETE, "value": observation.value}
    if observation.state == RunState.STOPPED:
        scores = {observation.examples or 0: observation.value}
        return {"state": TrialState.PRUNED, "value": observation.value, "intermediate_values": scores}
    return {"state": TrialState.FAIL}


class _Code:
    """Maps an axis to an Optuna distribution; listed numbers are coded by rank, since their spacing means nothing."""

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


def mirror_url(ledger: str) -> str:
    """Returns the database of a ledger's Optuna copies: the same PostgreSQL, or `optuna.db` beside an SQLite file."""
    url = parse_url(ledger)
    if url.get_backend_name() == "postgresql":
        return url.render_as_string(hide_password=False)
    return f"sqlite:///{Path(str(url.database)).with_name('optuna.db')}"


class StudyMirror:
    """Mirrors one search as an Optuna study under the space's ID; a context manager that brings it up to date at exit.

    `add` returns at once. No search reads the copy, and its failure never affects one: the ledger has everything. An
    unreachable database costs one warning, and gets later what it lacks.
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
                if not self._warned:
                    reason = mask_password((str(error).strip() or type(error).__name__).splitlines()[0])
                    place = mask_password(self._url)
                    log.warning("mirror behind: mirror=%s; %s; the ledger has everything", place, reason)
                self._warned = True
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
                event.listen(storage.engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous = OFF"))
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


def _make_distribution(domain: Domain) -> BaseDistribution:
    """Returns an axis as an Optuna distribution over its real values, as people want to see it."""
    values: list[Any] = list(domain.values() if domain.finite else domain.ends())
    if domain.word == "randint":
        return IntDistribution(values[0], values[-1])
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        return CategoricalDistribution(values)
    return FloatDistribution(float(min(values)), float(max(values)), log=domain.word == "loguniform")
