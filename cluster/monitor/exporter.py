"""Exports a sweep's metrics to Prometheus through one long-lived actor, which the driver feeds with events.

Ray forgets a gauge that is not set again within some 20 s, so the driver repeats all of them: a run that has ended, and
a sweep whose driver is gone, disappear by themselves. Nothing here may delay or end a sweep.
"""

import contextlib
import logging
import os
import platform
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from analysis.ledger import Ledger, LedgerError, cluster_log
from cluster.monitor.metrics import METRICS, Board, Sample
from cluster.runtime import ray_internals
from cluster.runtime.join import start_here
from cluster.runtime.start import ClusterLost, logs_place
from cluster.sweep.events import EventKind, OnEvent, SweepEvent

DISCOVERY_FOLDER = "prometheus"
"""Folder of the target files below the storage, which prometheus.yml reads."""
DISCOVERY_PERIOD_SECONDS = 15.0
"""Seconds between two copies of Ray's target file, which Ray itself writes every 5 s."""
STALE_FILE_SECONDS = 3600.0
"""Age in seconds at which a target file is taken for a killed driver's and deleted."""


class TargetFile:
    """Prometheus target file of one driver in the shared storage, while it sweeps.

    Ray's own lies in its session's folder, which only the head's host has, and under Slurm no other user can read.
    """

    def __init__(self, storage: Path) -> None:
        self.path = storage / DISCOVERY_FOLDER / f"{platform.node()}-{os.getpid()}.json"
        self._next = 0.0

    def refresh(self) -> None:
        """Copies Ray's target file now and then, and deletes those of killed drivers; a full disk delays nothing."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + DISCOVERY_PERIOD_SECONDS
        source = ray_internals.discovery_file()
        if source is None:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new_file = self.path.with_suffix(".new")
            new_file.write_bytes(source.read_bytes())
            new_file.replace(self.path)
            newest = self.path.stat().st_mtime
            for other in self.path.parent.glob("*.json"):
                if newest - other.stat().st_mtime > STALE_FILE_SECONDS:
                    other.unlink(missing_ok=True)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


EXPORT_PERIOD_SECONDS = 2.0
log = logging.getLogger(__name__)


class SweepMonitor:
    def __init__(self, title: str) -> None:
        from ray.util.metrics import Counter, Gauge

        kinds = {"gauge": Gauge, "counter": Counter}
        self._title = title
        self._metrics = {metric.name: kinds[metric.kind](metric.name, metric.help, metric.labels) for metric in METRICS}
        self._counters = {metric.name for metric in METRICS if metric.kind == "counter"}
        self._counted: dict[tuple[str, tuple[str, ...]], float] = {}

    def __repr__(self) -> str:
        return f"monitor of {self._title}"

    def take(self, samples: list[Sample]) -> None:
        """Exports samples; a counter's sample is its total, by whose increase the counter is raised."""
        for name, labels, value in samples:
            if name not in self._counters:
                self._metrics[name].set(value, labels)
                continue
            key = (name, tuple(labels.values()))
            increase = value - self._counted.get(key, 0.0)
            if increase > 0:
                self._counted[key] = value
                self._metrics[name].inc(increase, labels)


class Monitor(AbstractContextManager["Monitor"]):
    """Listener of one `run_sweep` that exports metrics from the event `cluster` on; a context manager."""

    def __init__(
        self,
        ledger: str,
        storage: Path,
        sweeps: Mapping[str, str],
        *,
        totals: Mapping[str, int],
        labels: Mapping[str, str],
        reused: Iterable[str] = (),
    ) -> None:
        """`sweeps`: signature -> sweep ID, `totals`: sweep ID -> number of runs; both may grow meanwhile."""
        self.board = Board(sweeps, totals, labels, reused)
        self.spent: Callable[[], Mapping[str, float]] = dict
        """Returns each limit of the budget, as text for a person -> fraction spent, 0 to 1."""
        self._storage = storage.resolve()
        self._ledger, self._totals = ledger, totals
        self._over, self._thread = threading.Event(), threading.Thread(target=self._export, daemon=True)
        self._cluster = ""

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(2 * EXPORT_PERIOD_SECONDS)
        if self._cluster and not (kind and issubclass(kind, ClusterLost)):
            self._tell_ledger(lambda ledger: cluster_log.leave(ledger, self._totals))

    def __call__(self, event: SweepEvent) -> None:
        self.board.add(event, time.monotonic())
        if event.kind == EventKind.CLUSTER and not self._cluster:
            self._cluster = event.reason
            self._thread.start()

    def _export(self) -> None:
        """Exports metrics until the sweep is over; errors of Ray or the database do not reach the sweep."""
        shape, _, dashboard = self._cluster.partition("; dashboard ")
        place = f"{shape}; logs {logs_place()}"
        self._tell_ledger(lambda ledger: cluster_log.join(ledger, self._totals, dashboard, place))
        import ray

        ray_internals.start_no_other()  # the sweep's Ray may end before this thread does
        targets = TargetFile(self._storage)
        try:
            exporter = start_here(SweepMonitor, ", ".join(self._totals))
            while ray.is_initialized() and not self._over.is_set():
                targets.refresh()
                exporter.take.remote([*self.board.samples(time.monotonic()), *self._measure_limits()])
                self._over.wait(EXPORT_PERIOD_SECONDS)
        except Exception as error:
            if not ray.is_initialized():
                return
            log.warning("metrics are not exported any more: %s", str(error).strip().partition("\n")[0])
        finally:
            targets.remove()

    def _measure_limits(self) -> Iterator[Sample]:
        """Yields the used fractions of the budget's limits, and of the storage's disk if it answers."""
        budgets = self.spent()
        for sweep in list(self._totals):
            for limit, share in budgets.items():
                yield "cse_budget_share", {"sweep": sweep, "budget": limit}, share
            with contextlib.suppress(OSError):
                disk = shutil.disk_usage(self._storage)
                yield "cse_storage_share", {"sweep": sweep}, disk.used / (disk.used + disk.free)

    def _tell_ledger(self, action: Callable[[Ledger], None]) -> None:
        with contextlib.suppress(LedgerError), contextlib.closing(Ledger.open(self._ledger, create=False)) as ledger:
            action(ledger)


def each(*listeners: OnEvent) -> OnEvent:
    """Returns one listener that passes every event on to all `listeners`."""

    def pass_on(event: SweepEvent) -> None:
        for listener in listeners:
            listener(event)

    return pass_on
