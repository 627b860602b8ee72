"""Processes of a Ray session on this machine: their listening ports and the temporary folders that they leave.

Both are read from the operating system, without a Ray client, a connection or a token.
"""

import contextlib
import ipaddress
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

SCRIPTS = {"dashboard.py": "dashboard", "monitor.py": "autoscaler", "log_monitor.py": "log monitor"}
"""File of one of Ray's own Python programs -> the program's name in messages."""
TEMP = Path("/tmp/ray")
LISTENER_FOLDER = re.compile(r"^(/.*/pymp-[^/]+)/listener-[^/]+$")
"""Pattern of the socket of a server started by Python's multiprocessing; group 1 is the socket's own folder."""
T = TypeVar("T")


@dataclass(frozen=True, order=True)
class Listener:
    """A listening TCP socket of a process of Ray."""

    process: str
    """Process name: gcs_server, raylet, dashboard, autoscaler, driver, or a worker's title (ray::DashboardAgent)."""
    address: str
    """IP address to which the socket is bound; 0.0.0.0 or :: for every interface."""
    port: int
    pid: int

    @property
    def loopback(self) -> bool:
        """True if only this machine can reach the socket."""
        bound = ipaddress.ip_address(self.address)
        return (getattr(bound, "ipv4_mapped", None) or bound).is_loopback

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.process} {host}:{self.port}"


def sessions(temp: Path = TEMP) -> list[Path]:
    """Returns the folders of Ray sessions under `temp` that have a living process on this machine, oldest first."""
    names = {name for process in psutil.process_iter() for name in _sessions_of(process, temp)}
    return [temp / name for name in sorted(names)]


def listeners(session: Path) -> list[Listener]:
    """Returns the listening TCP sockets of a session's processes on this machine; other users' only for root."""
    return sorted(
        {
            Listener(_name(process), socket.laddr.ip, socket.laddr.port, process.pid)
            for process in _list_processes(session)
            for socket in _readable(process.net_connections, "tcp")
            if socket.status == psutil.CONN_LISTEN
        }
    )


def dashboard_folders(session: Path) -> set[Path]:
    """Returns the temporary folders that a session's dashboard will leave; empty where none runs on this machine.

    Ray kills its dashboard, and Python removes the folder (`pymp-*`) of the server that forks the dashboard's modules
    only after an orderly end: without this, every start of a cluster would leave one folder.
    """
    dashboards = (process for process in _list_processes(session) if _name(process) == "dashboard")
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


def _name(process: psutil.Process) -> str:
    words: list[str] = _readable(process.cmdline) or [""]
    if words[0].startswith("ray::"):
        return words[0]
    if Path(words[0]).name in ("gcs_server", "raylet"):
        return Path(words[0]).name
    return next((SCRIPTS[Path(word).name] for word in words if Path(word).name in SCRIPTS), "driver")


def _readable(read: Callable[..., Iterable[T]], *args: str) -> list[T]:
    """Returns what psutil reads of a process; empty where the process is gone or may not be inspected."""
    with contextlib.suppress(psutil.Error):
        return list(read(*args))
    return []
