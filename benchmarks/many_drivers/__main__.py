"""Sixteen drivers and three live pages on a ledger of 100,000 runs in a PostgreSQL of this machine.

The ledger is `benchmarks.growth.synthetic_ledger`'s. Each driver is a process with four slots that only wait, and all
work at one list of further runs of the same grid; each page is `cse dashboard` and a reader that asks what the page
asks, every two seconds. Printed: what the database took, what a driver took and how long it waited, what a page took
and how fast it answered. Needs Debian's package postgresql.

    python -m benchmarks.many_drivers [--runs 100000] [--drivers 16] [--slots 4] [--pages 3] [--seconds 120]
"""

import argparse
import contextlib
import multiprocessing
import os
import re
import statistics
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.growth import synthetic_ledger
from benchmarks.many_drivers.driver import Pace, Used, drive
from tests.cluster_real.postgres import Postgres
from tests.cluster_real.processes import Processes, below, wait_until

ASK_S = 2.0
"""Seconds between two questions of a page."""
BAR_CORES, BAR_MS = 1.0, 50.0
PATHS = (f"/api/state?sweep={synthetic_ledger.SWEEP}", f"/api/runs?sweep={synthetic_ledger.SWEEP}")


@dataclass
class Reader:
    """Who looks at one page."""

    port: int
    token: str
    answers: list[float] = field(default_factory=list)
    """Seconds until each answer came."""
    errors: list[str] = field(default_factory=list)
    _tags: dict[str, str] = field(default_factory=dict)

    def read(self, over: threading.Event) -> None:
        while not over.wait(ASK_S):
            for path in PATHS:
                begun = time.monotonic()
                try:
                    self._ask(path)
                except OSError as error:
                    self.errors.append(f"{path}: {error}")
                self.answers.append(time.monotonic() - begun)

    def _ask(self, path: str) -> None:
        headers = {"Authorization": f"Bearer {self.token}", "If-None-Match": self._tags.get(path, "")}
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                answer.read()
                self._tags[path] = answer.headers["ETag"]
        except urllib.error.HTTPError as error:
            if error.code != 304:
                raise


@contextlib.contextmanager
def pages(processes: Processes, url: str, count: int) -> Iterator[list[tuple[psutil.Process, Reader]]]:
    """So many live pages with a reader each, who reads until the end."""
    over, made, threads = threading.Event(), [], []
    for number in range(count):
        log = f"page-{number}.log"
        began = processes.start("cse", "dashboard", "--ledger", url, "--port", "0", log=log)
        wait_until(lambda log=log: "token=" in processes.said(log), 60, f"a page: {processes.said(log)}")
        port, token = re.search(r":(\d+)/\S*token=([\w-]{22})", processes.said(log)).groups()  # type: ignore[union-attr]
        made.append((psutil.Process(began.pid), Reader(int(port), token)))
        threads.append(threading.Thread(target=made[-1][1].read, args=(over,)))
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        over.set()
        for thread in threads:
            thread.join()


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    """CPU seconds of these processes so far."""
    used = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            used += sum(process.cpu_times()[:2])
    return used


def server(folder: Path) -> list[psutil.Process]:
    """The processes of the database whose data lie in `folder`, that of each connection too."""
    (pid,) = (int(line) for line in (folder / "data" / "postmaster.pid").read_text().splitlines()[:1])
    return [psutil.Process(pid), *below(pid)]


def measured(processes: Processes, postgres: Postgres, space: Path, given: argparse.Namespace) -> list[str]:
    """Drivers and pages at work for so long: Markdown."""
    context, pace = multiprocessing.get_context("spawn"), Pace(given.slots, given.trial, given.points)
    pipes, drivers = [], []
    for number in range(given.drivers):
        ours, theirs = context.Pipe()
        storage = processes.folder / "stored"
        arguments = (postgres.url, space, storage, f"driver-{number}", pace, given.further, given.seconds, theirs)
        drivers.append(context.Process(target=drive, args=arguments))
        drivers[-1].start()
        pipes.append(ours)
    for pipe in pipes:
        pipe.recv()
    with pages(processes, postgres.url, given.pages) as read:
        before, of_pages = cpu_s(server(postgres.folder)), [cpu_s([page]) for page, _ in read]
        for pipe in pipes:
            pipe.send("go")
        time.sleep(given.seconds)
        database = (cpu_s(server(postgres.folder)) - before) / given.seconds
        shares = [(cpu_s([page]) - was) / given.seconds for (page, _), was in zip(read, of_pages, strict=True)]
        used = [pipe.recv() for pipe in pipes]
    for process in drivers:
        process.join()
    return report(database, used, shares, [reader for _, reader in read], given)


def report(
    database: float, used: Sequence[Used], shares: Sequence[float], readers: Sequence[Reader], given: argparse.Namespace
) -> list[str]:
    first = [driver.asked_ms[0] for driver in used]
    asked = sorted(ms for driver in used for ms in driver.asked_ms[1:])
    answers = sorted(s for reader in readers for s in reader.answers)
    errors = [error for reader in readers for error in reader.errors]
    high = asked[int(0.99 * len(asked))]
    held = [
        "held" if database < BAR_CORES else "MISSED",
        "held" if high < BAR_MS else "MISSED",
        "MISSED" if errors else "held",
    ]
    lines = [
        "| what | measured | bar | |",
        "|---|--:|--:|---|",
        f"| database, cores | {database:.2f} | {BAR_CORES:g} | {held[0]} |",
        "| CPU ms of a driver that asks for a run: median, 99 of 100, most "
        f"| {statistics.median(asked):.1f}, {high:.1f}, {asked[-1]:.1f} | {BAR_MS:g} | {held[1]} |",
        f"| the first time, when it also looks at the machine and the code | {statistics.median(first):.0f} | | |",
        f"| a driver, cores | {statistics.mean(driver.cpu_s for driver in used) / given.seconds:.3f} | | |",
        f"| longest wait of a driver for the database, s | {max(driver.slowest_s for driver in used):.2f} | | |",
        f"| runs ended | {sum(driver.ended for driver in used)} | | |",
    ]
    if readers:
        lines += [
            f"| a page, cores | {statistics.mean(shares):.2f} | | |",
            f"| s until a page answers: median, most | {statistics.median(answers):.2f}, {answers[-1]:.2f} | | |",
            f"| answers that failed | {len(errors)} of {len(answers)} | 0 | {held[2]} |",
        ]
    return [*lines, *errors[:3]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000, help="finished ones in the ledger")
    parser.add_argument("--further", type=int, default=5_000, help="runs that the drivers share")
    parser.add_argument("--drivers", type=int, default=16)
    parser.add_argument("--slots", type=int, default=4, help="of a driver")
    parser.add_argument("--trial", type=float, default=20.0, help="seconds of a trial")
    parser.add_argument("--points", type=int, default=5, help="dev points of a trial")
    parser.add_argument("--pages", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cse-many-", dir="/tmp") as place:
        folder = Path(place)
        folder.chmod(0o755)
        processes = Processes(folder)
        postgres = Postgres(processes, 54_330)
        try:
            postgres.create()
            postgres.start()
            begun = time.monotonic()
            synthetic_ledger.write(folder, given.runs, points=4, ledger=postgres.url)
            print(
                f"{given.runs:,} runs written in {time.monotonic() - begun:.0f} s; load {os.getloadavg()[0]:.1f}\n",
                flush=True,
            )
            print("\n".join(measured(processes, postgres, folder / "rows.yaml", given)))
        finally:
            postgres.stop()
            processes.end()


if __name__ == "__main__":
    main()
