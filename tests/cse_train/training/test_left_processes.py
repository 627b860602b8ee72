"""However a program ends, nothing that it has started lives on: own sessions, forked twice, torchrun's ranks."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cse_train.reading import MachineFault
from cse_train.training.wire import MARK_VARIABLE
from tests.cse_train.training.programs import run_program

PATIENCE_S = 120.0
SLEEPS = "import os, time; open(f'pid-{os.getpid()}', 'w').close(); time.sleep(600)"
"""A process that notes its number in the folder."""
STARTS = """
import os, pathlib, subprocess, sys, time
import cse

sleeps = [sys.executable, "-c", {sleeps!r}]
subprocess.Popen(sleeps, start_new_session=True)
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execv(sys.executable, sleeps)
    os._exit(0)
{more}
while len([*pathlib.Path().glob("pid-*")]) < {number}:
    time.sleep(0.05)
cse.report(1, score=1, fraction=1)
(cse.best_folder() / "model.txt").write_text("1")
{end}
"""
TORCHRUN = """
pathlib.Path("rank.py").write_text(sleeps[2])
torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "rank.py"]
subprocess.Popen(torchrun)
import torch.utils.data


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        pathlib.Path(f"pid-{os.getpid()}").touch()
        return at


loader = iter(torch.utils.data.DataLoader(Rows(), num_workers=2, persistent_workers=True))
next(loader)
"""
ENDS = {"in order": "", "by a signal": "os.kill(os.getpid(), 9)", "by an error": "1 / 0"}


@pytest.fixture
def strangers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of nobody's run, one of them of another run's."""
    marks = ({}, {MARK_VARIABLE: "another"}, {"NAMES": MARK_VARIABLE})
    started = [subprocess.Popen(["sleep", "600"], env=os.environ | mark, start_new_session=True) for mark in marks]
    yield started
    for process in started:
        process.kill()
        process.wait()


def _is_alive(process: int) -> bool:
    try:
        return Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _assert_all_end(folder: Path, number: int, strangers: list[subprocess.Popen[bytes]]) -> None:
    processes = [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]
    assert len(processes) >= number
    until = time.monotonic() + PATIENCE_S
    while any(map(_is_alive, processes)) and time.monotonic() < until:
        time.sleep(0.1)
    assert [process for process in processes if _is_alive(process)] == []
    assert all(process.poll() is None for process in strangers)


@pytest.mark.parametrize("end", ENDS)
def test_what_a_program_has_started_in_sessions_of_its_own_ends_with_it(
    tmp_path: Path, end: str, strangers: list[subprocess.Popen[bytes]]
) -> None:
    try:
        run_program(tmp_path, STARTS.format(sleeps=SLEEPS, more="", number=2, end=ENDS[end]))
    except (MachineFault, ValueError):
        assert end != "in order"
    _assert_all_end(tmp_path, 2, strangers)


RANK = """
import sys
from pathlib import Path
from tests.cse_train.training.programs import run_program

run_program(Path(sys.argv[1]), Path(sys.argv[2]).read_text())
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("whose", ["rank", "program"])
def test_ranks_of_torchrun_and_workers_of_a_loader_end_with_a_rank_or_a_program_that_is_killed(
    tmp_path: Path, whose: str, strangers: list[subprocess.Popen[bytes]]
) -> None:
    end = "pathlib.Path('begun').touch()\ntime.sleep(600)"
    text = tmp_path / "text"
    text.write_text(STARTS.format(sleeps=SLEEPS, more=f"{TORCHRUN}\npathlib.Path('me').write_text(str(os.getpid()))",
                                  number=6, end=end))  # fmt: skip
    rank = subprocess.Popen([sys.executable, "-c", RANK, str(tmp_path), str(text)], stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE_S * 2
    while not (tmp_path / "begun").exists() and time.monotonic() < until:
        time.sleep(0.1)
    os.kill(rank.pid if whose == "rank" else int((tmp_path / "me").read_text()), signal.SIGKILL)
    rank.wait(PATIENCE_S)
    _assert_all_end(tmp_path, 6, strangers)
