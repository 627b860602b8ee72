"""Temporary folders that the processes of a Ray session leave on this machine, as the operating system tells them."""

import contextlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import psutil

LISTENER_FOLDER = re.compile(r"^(/.*/pymp-[^/]+)/listener-[^/]+$")
"""Pattern of the socket of a server started by Python's multiprocessing; group 1 is the socket's own folder."""
T = TypeVar("T")


def dashboard_folders(session: Path) -> set[Path]:
    """Returns the temporary folders that a session's dashboard will leave; empty where none runs on this machine.

    Ray kills its dashboard, and Python removes the folder (`pymp-*`) of the server that forks the dashboard's modules
    only after an orderly end: without this, every start of a cluster would leave one folder.
    """
    dashboards = (
        process
        for process in _list_processes(session)
        if any(Path(word).name == "dashboard.py" for word in _readable(process.cmdline))
    )
    return listener_folders(child for process in dashboards for child in _readable(process.children))


def listener_folders(processes: Iterable[psutil.Process]) -> set[Path]:
    """Returns the multiprocessing folders in which `processes` listen; skips ended and other users' processes."""
    return {
        Path(match[1])
        for process in processes
        for socket in _readable(process.net_connections, "unix")
        if (match := LISTENER_FOLDER.match(str(socket.laddr)))
    }


def remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _list_processes(session: Path) -> Iterator[psutil.Process]:
    return (process for process in psutil.process_iter() if session.name in _sessions_of(process, session.parent))


def _sessions_of(process: psutil.Process, temp: Path) -> set[str]:
    """Returns the names of sessions under `temp` in a process's open files (its log) or command line."""
    words = [*(file.path for file in _readable(process.open_files)), *_readable(process.cmdline)]
    inside = re.compile(rf"{re.escape(str(temp))}/(session_[\d_-]+)")
    return {match[1] for word in words for match in inside.finditer(word)}


def _readable(read: Callable[..., Iterable[T]], *args: str) -> list[T]:
    """Returns what psutil reads of a process; empty where the process is gone or may not be inspected."""
    with contextlib.suppress(psutil.Error):
        return list(read(*args))
    return []
