"""`run_sweep` trains the runs of a source once each and records them; the same call continues a sweep."""

import contextlib
import dataclasses
import os
import platform
import signal
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from analysis.ledger import Ledger, LedgerError
from analysis.run_state import RunState
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import ListSource, RunSource
from cluster.runtime import ray_internals
from cluster.runtime.background import background, ending_signals
from cluster.runtime.code_version import other_code
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import (
    cards_of,
    check_cards,
    check_options,
    cluster_nodes,
    keep_kind,
    slots_that_fit,
    this_machine,
)
from cluster.runtime.start import cluster_watch, ray_cluster
from cluster.runtime.storage import blames_storage, check_nodes, inputs_of
from cluster.sweep.dispatcher import Dispatcher
from cluster.sweep.events import EventKind, OnEvent, SweepEvent, SweepOutcome
from cluster.sweep.ledger_retry import RetryingLedger
from cluster.sweep.places import describe_places, wait_for_nodes
from cluster.sweep.recorder import ClaimedRun
from cluster.sweep.tune import run_trials
from cse_train.data_paths import DataPaths

LEASE_HEARTBEAT_SECONDS = 10.0
MAX_CHECKED_RUNS = 100_000
"""Number of coming runs whose `train.precision` is checked before the first run starts."""
HEARTBEAT_RETRY_SECONDS = 1.0
"""Seconds between two tries of a heartbeat while the database is unreachable."""
RELEASE_DELAY_SECONDS = 5.0
"""Seconds after a requested stop in which runs may still report, before their claims are released."""

SAME_SIGNAL_SECONDS = 1.0
"""Seconds in which signals count as one: `timeout` sends its own to the program and to the group."""


def run_sweep(
    source: RunSource | Iterable[PlannedRun],
    ledger_url: str | Path,
    paths: DataPaths,
    options: SweepOptions,
    on_event: OnEvent = lambda event: None,
    suites: Mapping[str, Sequence[str]] | None = None,
    over: threading.Event | None = None,
) -> SweepOutcome:
    """Trains the runs of `source` that the ledger lacks, as many at once as fit.

    `suites`: sweep ID, or one run's signature -> suites on which a finished run's best checkpoint is scored. Runs that
    another driver holds are waited for. `over` ends the sweep when it is set; signals set it. Ray is not started when
    nothing is left to run. Raises ConfigError (does not fit, other code on a worker), LedgerError, StorageFailed and
    ClusterLost. A run's own error is a `Failure` of the outcome.
    """
    start = time.monotonic()
    options = dataclasses.replace(options, storage=Path(options.storage).resolve())
    check_options(options)
    ledger = Ledger.open(ledger_url, storage=options.storage)
    chosen = source if isinstance(source, RunSource) else ListSource(source)
    over = over or threading.Event()
    retrying = RetryingLedger(ledger, over, lambda line: on_event(SweepEvent(kind=EventKind.LEDGER, reason=line)))
    owner = f"{options.user}@{platform.node()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    # Absolute, because the driver later leaves the user's folder.
    places: dict[str, Any] = {name: path.resolve() for name, path in vars(paths).items() if isinstance(path, Path)}
    paths = dataclasses.replace(paths, **places)
    dispatcher = Dispatcher(chosen, retrying, paths, options, owner, suites or {}, on_event)  # type: ignore[arg-type]
    heartbeats = partial(_heartbeats, ledger, retrying, owner, over)
    give_back = partial(_give_back, ledger, owner, over)
    with _signals_end(over) as signals, background(heartbeats), background(give_back):
        try:
            _run(dispatcher, ledger, options, over, on_event)
            ledger.require_file()
        finally:
            with contextlib.suppress(LedgerError):  # what ended the sweep is reported; leases give the claims back
                ledger.release(owner)
            ledger.close()
    outcome = dispatcher.recorder.outcome
    return dataclasses.replace(outcome, interrupted=bool(signals), seconds=time.monotonic() - start)


def _run(
    dispatcher: Dispatcher, ledger: Ledger, options: SweepOptions, over: threading.Event, on_event: OnEvent
) -> None:
    first = None
    while first is None and not dispatcher.finished() and not over.is_set():
        first = dispatcher.next_run()
        if first is None and not dispatcher.finished():
            over.wait(1.0)
    if first is None:
        return
    dispatcher.put_back(first)
    if line := other_code(dispatcher.ledger.codes()):
        on_event(SweepEvent(kind=EventKind.LEDGER, reason=line))
    if options.address is None:
        slots_that_fit(options, [this_machine()])

    action = "starts on this machine" if options.address is None else f"joining the cluster at {options.address}"
    on_event(SweepEvent(kind=EventKind.RAY, reason=action))
    with ray_cluster(options.storage, address=options.address):
        if options.address is not None:
            wait_for_nodes(options, over, lambda line: on_event(SweepEvent(kind=EventKind.WAITING, reason=line)))
        if over.is_set():
            return
        check_nodes(options.storage, inputs_of(dispatcher.paths))
        nodes = cluster_nodes()
        check_cards(options, cards_of(nodes), _precisions(dispatcher, first))
        dispatcher.options = options = keep_kind(options, cards_of(nodes))
        if options.address is None:
            nodes = min(nodes, [this_machine()], key=lambda some: slots_that_fit(options, some))
        slots = slots_that_fit(options, nodes)
        shape = describe_places(options, slots, nodes)
        if address := ray_internals.dashboard():
            shape += f"; dashboard {address}"
        on_event(SweepEvent(kind=EventKind.CLUSTER, reason=shape))
        with cluster_watch(over), blames_storage(options.storage):
            run_trials(dispatcher, options, slots, ledger, over)


def _precisions(dispatcher: Dispatcher, first: ClaimedRun) -> set[str]:
    """Returns the values of `train.precision` in the runs that are to be trained, as far as they are known."""
    coming = [*([first.planned] if first.claim else []), *dispatcher.source.ahead(MAX_CHECKED_RUNS)]
    finished = {row.signature for row in dispatcher.ledger.runs(states=[RunState.DONE])}
    return {planned.run.train.precision for planned in coming if planned.signature not in finished}


@contextlib.contextmanager
def _signals_end(over: threading.Event) -> Iterator[list[float]]:
    """Context manager in which the first of `TERMINATION_SIGNALS` sets `over`; a later one has its former effect.

    Gives the list with the time of the first, empty before it.
    """
    before, first = {name: signal.getsignal(name) for name in ending_signals()}, list[float]()

    def restore() -> None:
        for name, handler in before.items():
            signal.signal(name, handler)

    def end(number: int, frame: object) -> None:
        if not first:
            first.append(time.monotonic())
            over.set()
        elif time.monotonic() - first[0] > SAME_SIGNAL_SECONDS:
            restore()
            signal.raise_signal(number)

    for name in before:
        signal.signal(name, end)
    try:
        yield first
    finally:
        restore()


def _heartbeats(
    ledger: Ledger, retrying: RetryingLedger, owner: str, over: threading.Event, done: threading.Event
) -> None:
    """Renews this driver's leases; ends a sweep whose ledger file was removed, which would write into nothing."""
    wait_s = 0.0
    while not done.wait(wait_s):
        try:
            ledger.require_file()
        except LedgerError:
            over.set()
            return
        try:
            ledger.heartbeat(owner)
            wait_s = LEASE_HEARTBEAT_SECONDS
        except LedgerError:
            retrying.away()
            wait_s = HEARTBEAT_RETRY_SECONDS


def _give_back(ledger: Ledger, owner: str, over: threading.Event, done: threading.Event) -> None:
    """Releases this driver's claims RELEASE_DELAY_SECONDS after `over`, however long Ray takes to start or end."""
    while not over.is_set():
        if done.wait(0.2):
            return
    if not done.wait(RELEASE_DELAY_SECONDS):
        with contextlib.suppress(LedgerError):
            ledger.release(owner)
