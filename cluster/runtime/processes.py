"""The processes of a Ray session on this machine: the ports they listen on, and the folders that they leave.

Both are read from the operating system, without a client, a connection or a token.
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
"""Ray's own Python programs by their file."""
TEMP = Path("/tmp/ray")
"""Where Ray keeps its sessions by default."""
LISTENER_FOLDER = re.compile(r"^(/.*/pymp-[^/]+)/listener-[^/]+$")
"""The socket of a server that Python's multiprocessing starts, in a folder of its own."""
T = TypeVar("T")


@dataclass(frozen=True, order=True)
class Listener:
    """One listening TCP socket."""

    process: str
    """gcs_server, raylet, dashboard, autoscaler, a worker's title such as ray::DashboardAgent, or driver."""
    address: str
    """The address it is bound to; 0.0.0.0 or :: for every interface."""
    port: int
    pid: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        bound = ipaddress.ip_address(self.address)
        return (getattr(bound, "ipv4_mapped", None) or bound).is_loopback

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.process} {host}:{self.port}"


def sessions(temp: Path = TEMP) -> list[Path]:
    """Folders of the sessions that have a living process here, oldest first."""
    names = {name for process in psutil.process_iter() for name in _sessions_of(process, temp)}
    return [temp / name for name in sorted(names)]


def listeners(session: Path) -> list[Listener]:
    """The listening sockets of a session's processes on this machine; other users' processes only for root."""
    return sorted(
        {
            Listener(_name(process), socket.laddr.ip, socket.laddr.port, process.pid)
            for process in _list_processes(session)
            for socket in _readable(process.net_connections, "tcp")
            if socket.status == psutil.CONN_LISTEN
        }
    )


def dashboard_folders(session: Path) -> set[Path]:
    """The temporary folders that a session's dashboard will leave; none where it does not run here.

    The dashboard is killed, and Python removes the folder of the server that forks its modules only after an end in
    order: one folder `pymp-*` for each start of a cluster.
    """
    dashboards = (process for process in _list_processes(session) if _name(process) == "dashboard")
    return listener_folders(child for process in dashboards for child in _readable(process.children))


def listener_folders(processes: Iterable[psutil.Process]) -> set[Path]:
    """Folders in which one of these processes listens; nothing of those that are gone or another user's."""
    return {
        Path(match[1])
        for process in processes
        for socket in _readable(process.net_connections, "unix")
        if (match := LISTENER_FOLDER.match(str(socket.laddr)))
    }


def remove(folders: Iterable[Path]) -> None:
    """After the processes have ended."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _list_processes(session: Path) -> Iterator[psutil.Process]:
    return (process for process in psutil.process_iter() if session.name in _sessions_of(process, session.parent))


def _sessions_of(process: psutil.Process, temp: Path) -> set[str]:
    """Sessions under `temp` in which the process has a file open (each of Ray's has its log there) or that it names."""
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
    """What psutil reads of a process; nothing where the process is gone or not ours to look at."""
    with contextlib.suppress(psutil.Error):
        return list(read(*args))
    return []
