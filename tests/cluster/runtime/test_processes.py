"""Which folders a session's processes listen in; no other program's is touched."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cluster.runtime import processes


@pytest.fixture
def folder() -> Iterator[Path]:
    """Named as multiprocessing names it, in the folder of temporary files: a socket's path must be short."""
    made = Path(tempfile.mkdtemp(prefix="pymp-"))
    yield made
    processes.remove([made])


def test_the_folder_that_a_process_listens_in_is_found_and_removed(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(folder / "listener-1"))
        opened.listen()
        assert folder in processes.listener_folders([psutil.Process()])
        assert folder not in processes.listener_folders([psutil.Process(os.getppid()), ended_process()])
    assert folder not in processes.listener_folders([psutil.Process()]), "a closed socket is nobody's"
    processes.remove([folder, folder])
    assert not folder.exists()


def test_sockets_elsewhere_are_left_alone(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(folder / "mine"))
        opened.listen()
        assert folder not in processes.listener_folders([psutil.Process()])


def ended_process() -> psutil.Process:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        return psutil.Process(started.pid)


SERVER = """
import socket, sys
opened = socket.socket(socket.AF_UNIX)
opened.bind(sys.argv[1] + "/listener-1")
opened.listen()
print("up", flush=True)
input()
"""
DASHBOARD = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[3]])
"""


def test_the_folder_of_a_dashboards_child_is_the_dashboards(folder: Path, tmp_path: Path) -> None:
    session = tmp_path / "session_2026-11-21_12-40-56_587490_7093"
    script = tmp_path / "dashboard.py"
    script.write_text(DASHBOARD)
    argv = [sys.executable, str(script), f"--session-dir={session}", SERVER, str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as dashboard:
        assert dashboard.stdout is not None and dashboard.stdout.readline() == b"up\n"
        assert processes.dashboard_folders(session) == {folder}
        assert processes.dashboard_folders(session.with_name("session_2026-01-01")) == set()
        dashboard.communicate(b"\n", timeout=20)


@pytest.mark.slow
def test_a_cluster_that_ended_leaves_no_such_folder(tmp_path: Path) -> None:
    """In a process of its own: this one may hold the tests' cluster."""
    code = f"""
from pathlib import Path
from cluster.runtime import processes, ray_internals
from cluster.runtime.start import ray_cluster
with ray_cluster(Path({str(tmp_path)!r}), num_cpus=1):
    folders = processes.dashboard_folders(ray_internals.session_folder())
    assert folders and all(folder.is_dir() for folder in folders), folders
assert not [folder for folder in folders if folder.exists()], folders
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
