"""The folder of a listener is found by the process that listens in it, and no other program's is touched."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.runtime import processes, start


@pytest.fixture
def folder() -> Iterator[Path]:
    """Named as multiprocessing names it, in the folder of temporary files: a socket's path must be short."""
    made = Path(tempfile.mkdtemp(prefix="pymp-"))
    yield made
    start.remove([made])


def test_the_folder_that_a_process_listens_in_is_found_and_removed(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(folder / "listener-1"))
        opened.listen()
        assert folder in processes.of_processes([os.getpid()])
        assert folder not in processes.of_processes([os.getppid(), 2**30])
    assert folder not in processes.of_processes([os.getpid()]), "a closed socket is nobody's"
    start.remove([folder, folder])
    assert not folder.exists()


def test_sockets_elsewhere_are_left_alone(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(folder / "mine"))
        opened.listen()
        assert folder not in processes.of_processes([os.getpid()])


def test_every_process_has_its_parent() -> None:
    assert (os.getpid(), os.getppid()) in set(processes.parents())


@pytest.mark.slow
def test_a_cluster_that_ended_leaves_no_such_folder(tmp_path: Path) -> None:
    """In a process of its own: this one may hold the tests' cluster."""
    code = f"""
from pathlib import Path
from cluster.runtime.start import _left_by_dashboard, ray_cluster
with ray_cluster(Path({str(tmp_path)!r}), num_cpus=1):
    found = _left_by_dashboard()
    assert found and all(one.is_dir() for one in found), found
assert not [one for one in found if one.exists()], found
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
