"""A command that is asked to end, at any moment: one line, exit code 130, within 15 s, no process left, no run lost."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from analysis.ledger import Ledger
from tests.conftest import REPO

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SPACE = """version: 1
id: tiny
method: simcse
seeds: 2
set:
  train.encoder: words-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: {examples}
  train.batch_size: 16
  train.evaluations: {evaluations}
space:
  method.temperature: {{grid: [0.05]}}
"""
LONG = {"examples": 16000, "evaluations": 1000}
SHORT = {"examples": 640, "evaluations": 4}
COMMAND = """
import importlib, pathlib, sys, time
place, seconds = sys.argv.pop(1), float(sys.argv.pop(1))
moment = pathlib.Path("moment").absolute()
if place:
    module, name = place.split(":")
    module = importlib.import_module(module)
    call = getattr(module, name)
    def paused(*given, **options):
        if not moment.exists():
            moment.touch()
            time.sleep(seconds)
        return call(*given, **options)
    setattr(module, name, paused)
from cse.cli.app import main
sys.exit(main())
"""
"""The command with a pause at its first call of one function, which lets a signal come there."""
RUN = ("run", "tiny.yaml", "--workers", "1", "--max-concurrent", "1")
MOMENTS = {
    "planning": (RUN, "cse.experiments.request:plan_all"),
    "start": (RUN, ""),
    "training": (RUN, ""),
    "ending": (RUN, "cluster.runtime.processes:remove"),
    "table": (("table", "tiny.yaml"), "cse.cli.results.table:build"),
    "export": (("export", "RUN", "--to", "model"), "cse_train.export.export:write_modules"),
}
"""Moment -> the command, and the function that it has then come to: before Ray, Ray's start, a run, Ray's end."""
PAUSE_S, END_S = 8.0, 15.0
LINES = (
    "cse: interrupted; the same command continues",
    "cse: interrupted; finished runs are kept, the same command continues",
)


class Driver:
    """One command whose output this process reads until it closes the pipe."""

    def __init__(self, folder: Path, moment: str, settings: dict[str, int]) -> None:
        (folder / "tiny.yaml").write_text(SPACE.format(**settings), encoding="utf8")
        self.folder, self.moment = folder, moment
        words, place = MOMENTS[moment]
        words = tuple(last_run(folder) if word == "RUN" else word for word in words)
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        argv = [sys.executable, "-c", COMMAND, place, str(PAUSE_S), *words]
        environment = os.environ | {"PYTHONPATH": str(REPO)}
        self.process = subprocess.Popen(
            argv, cwd=folder, env=environment, stdout=writer, stderr=writer, start_new_session=True
        )
        os.close(writer)
        self.said = ""

    def read(self) -> str:
        while self.reader is not None:
            try:
                more = os.read(self.reader, 65536)
            except BlockingIOError:
                break
            if not more:
                break
            self.said += more.decode()
        return self.said

    def wait_for_moment(self) -> None:
        deadline = time.monotonic() + 180
        while not self._is_there():
            assert time.monotonic() < deadline and self.process.poll() is None, self.said
            time.sleep(0.1)

    def _is_there(self) -> bool:
        said = self.read()
        if self.moment == "start" and "starts on this machine" in said:
            time.sleep(1.5)  # some of Ray's processes are there
            return True
        if self.moment == "training" and "cluster " in said:
            with opened(self.folder) as ledger:
                return any(ledger.curve(row.signature) for row in ledger.runs())
        return (self.folder / "moment").exists()

    def end(self, limit_s: float) -> int:
        """The exit code as a shell has it: 130 too for one whom a second Ctrl-C meets on its way out."""
        until = time.monotonic() + limit_s
        while self.process.poll() is None and time.monotonic() < until:
            self.read()
            time.sleep(0.05)
        code = self.process.wait(1)
        self.read()
        return code if code >= 0 else 128 - code

    def kill(self) -> None:
        if self.process.poll() is None:
            for process in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
                process.kill()


@contextmanager
def opened(folder: Path) -> Iterator[Ledger]:
    ledger = Ledger.open(folder / "results" / "ledger.db", create=False)
    try:
        yield ledger
    finally:
        ledger.close()


def last_run(folder: Path) -> str:
    with opened(folder) as ledger:
        return ledger.runs()[-1].signature


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished sweep."""
    folder = tmp_path_factory.mktemp("finished")
    driver = Driver(folder, "start", SHORT)
    assert driver.end(300) == 0, driver.said
    return folder


@pytest.fixture
def start() -> Iterator[Callable[..., Driver]]:
    """Starts a command, which ends with its test, whatever that says."""
    drivers = list[Driver]()

    def begin(*given: object) -> Driver:
        drivers.append(Driver(*given))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.kill()


def single(name: signal.Signals) -> Callable[[int], None]:
    return lambda process: os.kill(process, name)


def group(name: signal.Signals) -> Callable[[int], None]:
    return lambda process: os.killpg(process, name)


def both(process: int) -> None:
    """As `timeout` does."""
    os.kill(process, signal.SIGTERM)
    os.killpg(process, signal.SIGTERM)


def often(process: int) -> None:
    """Ctrl-C again and again, by one who does not want to wait."""
    for _ in range(6):
        if psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
            return
        os.killpg(process, signal.SIGINT)
        time.sleep(1.2)


KINDS: dict[str, Callable[[int], None]] = {
    "SIGINT": single(signal.SIGINT),
    "SIGINT to the group": group(signal.SIGINT),
    "SIGINT six times": often,
    "SIGTERM to the group": group(signal.SIGTERM),
    "SIGTERM as of timeout": both,
    "SIGHUP to the group": group(signal.SIGHUP),
    "SIGQUIT to the group": group(signal.SIGQUIT),
    "SIGUSR1": single(signal.SIGUSR1),
}


def leave_nothing(driver: Driver, family: list[psutil.Process]) -> None:
    """No process of the command's, no run that nobody trains, no half of a model."""
    assert not psutil.wait_procs(family, timeout=5)[1]
    if (driver.folder / "results" / "ledger.db").exists():
        with opened(driver.folder) as ledger:
            assert not ledger.runs(states=["claimed", "running"])


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_ends_a_command_in_order(
    start: Callable[..., Driver], tmp_path: Path, request: pytest.FixtureRequest, moment: str, kind: str
) -> None:
    if moment in ("table", "export"):
        shutil.copytree(request.getfixturevalue("finished") / "results", tmp_path / "results")
    driver = start(tmp_path, moment, LONG if moment in ("planning", "start", "training") else SHORT)
    driver.wait_for_moment()
    family = psutil.Process(driver.process.pid).children(recursive=True)
    begun = time.monotonic()
    KINDS[kind](driver.process.pid)
    code = driver.end(60)
    took = time.monotonic() - begun
    said = driver.said.splitlines()
    print(f"\n{moment}, {kind}: {code}, {took:.1f} s, {len(family)} processes")
    assert code == 130 and said[-1] in LINES, said
    assert sum("interrupted" in line for line in said) == 1, said
    assert not any("GCS" in line or "Traceback" in line for line in said), said
    assert took < END_S
    leave_nothing(driver, family)
    assert not [path.name for path in tmp_path.iterdir() if "model" in path.name]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_closed_pipe_ends_nothing(
    start: Callable[..., Driver], tmp_path: Path, request: pytest.FixtureRequest, moment: str
) -> None:
    if moment in ("table", "export"):
        shutil.copytree(request.getfixturevalue("finished") / "results", tmp_path / "results")
    driver = start(tmp_path, moment, SHORT | ({"examples": 3200, "evaluations": 40} if moment == "training" else {}))
    driver.wait_for_moment()
    family = psutil.Process(driver.process.pid).children(recursive=True)
    os.close(driver.reader)
    driver.reader = None
    begun = time.monotonic()
    code = driver.end(240)
    print(f"\n{moment}, a closed pipe: {code}, {time.monotonic() - begun:.1f} s, {len(family)} processes")
    assert code == 0
    leave_nothing(driver, family)
    with opened(tmp_path) as ledger:
        assert {row.state for row in ledger.runs()} == {"done"}
    assert moment != "export" or (tmp_path / "model" / "modules.json").exists()
