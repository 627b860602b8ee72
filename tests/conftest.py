"""What every test may ask for: real data when it is there, one Ray cluster, and a token cache of its own."""

import functools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from cluster.monitor.exporter import each
from cluster.plan.plan import PlannedRun
from cluster.runtime.options import SweepOptions
from cluster.sweep.events import OnEvent
from cluster.sweep.run_sweep import run_sweep
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.plugins import registry
from tests.chromium import chromium
from tests.readable import axe_source
from tests.wheel import build, install

REPO = Path(__file__).resolve().parents[1]
DATA = REPO.parent / "shared" / "data"
os.environ.pop("CSE_DATA", None)  # a test names the data that it reads


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="K/N", help="the K-th of N parts of all files, for marks that take hours")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of Ray come first: they are one of the two parts of a session of two processes, and the longer one."""
    items.sort(key=lambda item: not _of_ray(item.nodeid))
    if given := config.getoption("--part"):
        place, parts = map(int, given.split("/"))
        files = sorted({item.nodeid.partition("::")[0] for item in items})
        mine = {file for number, file in enumerate(files) if number % parts == place - 1}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid.partition("::")[0] not in mine])
        items[:] = [item for item in items if item.nodeid.partition("::")[0] in mine]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Divides the tests among pytest-xdist's processes so that the session has one Ray cluster, and a file stays whole.

    Its own `--dist loadgroup` (3.8.0) groups nothing under pytest 9.2, whose nodes keep their names elsewhere.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "ray" if _of_ray(nodeid) else nodeid.partition("::")[0]

    return ByFile(config, log)


def _of_ray(nodeid: str) -> bool:
    return _asks_for_ray(REPO / nodeid.partition("::")[0])


@functools.cache
def _asks_for_ray(file: Path) -> bool:
    return "ray_cluster" in file.read_text(encoding="utf8")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tests share the cores: torch computes with one thread."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="module", autouse=True)
def no_plug_ins_left() -> Iterator[None]:
    """A file's plug-ins are forgotten behind it: where any is known, each model is scored in a process of its own."""
    yield
    if registry.list_given():
        registry.forget()


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The token cache of this session, for worker processes too."""
    before = os.environ.get("CSE_CACHE")
    folder = tmp_path_factory.mktemp("cache")
    os.environ["CSE_CACHE"] = str(folder)
    yield folder
    os.environ.pop("CSE_CACHE") if before is None else os.environ.update(CSE_CACHE=before)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel."""
    return build(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def cse_of_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that has the wheel."""
    return install(wheel, tmp_path_factory.mktemp("clean"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Real sentences and SentEval's sets, beside the repository; the test is skipped where they are absent."""
    if not DATA.is_dir():
        pytest.skip(f"no real data at {DATA}")
    return DATA


@pytest.fixture
def project_copy(tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder with the project's packages: copies of those that are named, links to the others."""

    def made(*copied: str) -> Path:
        for name in ("analysis", "cluster", "cse", "cse_train", "search_spaces"):
            if name in copied:
                shutil.copytree(REPO / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                (tmp_path / name).symlink_to(REPO / name)
        return tmp_path

    return made


@pytest.fixture
def called() -> Callable[..., str]:
    """Runs `cse` of a copy of the project in a process of its own; what it printed."""

    def output(copy: Path, *arguments: str) -> str:
        command = [sys.executable, "-m", "cse", *arguments]
        environment = os.environ | {"PYTHONPATH": str(copy)}
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return output


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, with no data folder that the environment names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    return tmp_path


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The session's one Ray cluster of 2 CPUs; the process works from a neutral folder while it lives."""
    from cluster.runtime import start

    # workers find stub_training
    paths = [str(REPO / "tests" / "cluster"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    with start.ray_cluster(tmp_path_factory.mktemp("ray"), num_cpus=2):
        yield


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this test runs believes that its process has no Ray, and does not end the session's."""
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.shutdown", lambda: None)


@dataclass
class Swept:
    """What a sweep of stubs gave."""

    outcome: Any
    ledger: Any
    folder: Path
    events: list[tuple[float, Any]] = field(default_factory=list)
    """Seconds since the start, event."""

    def of(self, seed: int, *kinds: str) -> list[tuple[float, Any]]:
        return [
            (at, e) for at, e in self.events if e.signature == f"signature{seed}" and (not kinds or e.kind in kinds)
        ]

    def row(self, seed: int) -> Any:
        return self.ledger.run(f"signature{seed}")

    def log(self, seed: int, rank: int) -> str:
        return Path(self.row(seed).folder, "logs", f"rank{rank}.log").read_text()


def planned(seed: int, **settings: Any) -> PlannedRun:
    flat = {"method": "simcse", "train.seed": seed, "train.examples": 128, "train.evaluations": 4} | settings
    return PlannedRun(
        signature=f"signature{seed}", run=parse_run(flat), identity={}, cell={"seed": seed}, seed=seed, sweep="s"
    )


def sweep_of(
    folder: Path, told: dict[str, Any], seeds: list[int], *, on_event: OnEvent = lambda event: None, **options: Any
) -> Swept:
    """Run seeds under a script: seed -> how its run behaves."""
    (folder / "script.json").write_text(json.dumps(told))
    stub = {"function": "stub_training:train", "scorer": "stub_training:score"}
    events: list[tuple[float, Any]] = []
    begun = time.monotonic()
    outcome = run_sweep(
        [planned(seed) for seed in seeds],
        folder / "ledger.db",
        DataPaths(train_file=folder / "script.json"),
        SweepOptions(storage=folder / "runs", **(stub | options)),
        each(lambda event: events.append((time.monotonic() - begun, event)), on_event),
        {"s": ["a"]},
    )
    return Swept(outcome, Ledger.open(folder / "ledger.db"), folder, events)


@pytest.fixture(scope="module")
def sweeper() -> Callable[..., Swept]:
    return sweep_of


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser of 1280 by 1000 pixels; a test is skipped where it is absent."""
    with chromium(1280, 1000) as opened:
        opened.set_page_load_timeout(600)
        opened.set_script_timeout(600)
        yield opened


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    return axe_source(tmp_path_factory.mktemp("axe"))
