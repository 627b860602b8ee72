"""Which ports the processes of a Ray session listen on, read from Linux's /proc: no client, no connection, no token."""

import contextlib
import ipaddress
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LISTEN = "0A"
"""A listening socket's state in /proc/net/tcp."""
SCRIPTS = {"dashboard.py": "dashboard", "monitor.py": "autoscaler", "log_monitor.py": "log monitor"}
"""Ray's own Python programs by their file."""
TEMP = Path("/tmp/ray")
"""Where Ray keeps its sessions unless told otherwise."""


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
    found = {name for pid in _pids() for name in _sessions_of(pid, temp)}
    return [temp / name for name in sorted(found)]


def listeners(session: Path, proc: Path = Path("/proc")) -> list[Listener]:
    """The listening sockets of a session's processes on this machine; other users' processes only for root."""
    bound = _listening(proc)
    found = set()
    for pid in _pids(proc):
        if session.name in _sessions_of(pid, session.parent, proc):
            name = _name(pid, proc)
            found |= {Listener(name, *bound[inode], pid) for inode in sockets(pid, proc) if inode in bound}
    return sorted(found)


def _pids(proc: Path = Path("/proc")) -> list[int]:
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]


def _listening(proc: Path) -> dict[str, tuple[str, int]]:
    """Inode -> (address, port) of every listening TCP socket."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in _read(proc / "net" / table).splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN:
                host, _, port = fields[1].partition(":")
                found[fields[9]] = (_address(host), int(port, 16))
    return found


def _address(digits: str) -> str:
    """`0100007F` -> 127.0.0.1: words of four bytes, each in the machine's (little-endian) order."""
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def _sessions_of(pid: int, temp: Path, proc: Path = Path("/proc")) -> set[str]:
    """Sessions under `temp` in which the process has a file open (each of Ray's has its log there) or that it names."""
    words = [*_links(pid, proc), *_words(pid, proc)]
    inside = re.compile(rf"{re.escape(str(temp))}/(session_[\d_-]+)")
    return {match[1] for word in words for match in inside.finditer(word)}


def sockets(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """Inodes of the sockets that a process has open; none where it is gone or not ours to look at."""
    return [target[8:-1] for target in _links(pid, proc) if target.startswith("socket:[")]


def _links(pid: int, proc: Path) -> Iterator[str]:
    """What the process has open; nothing where it is gone or not ours to look at."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(proc / str(pid) / "fd"):
            with contextlib.suppress(FileNotFoundError):
                yield os.readlink(entry.path)


def _name(pid: int, proc: Path) -> str:
    words = _words(pid, proc)
    if words[0].startswith("ray::"):
        return words[0]
    if Path(words[0]).name in ("gcs_server", "raylet"):
        return Path(words[0]).name
    return next((SCRIPTS[Path(word).name] for word in words if Path(word).name in SCRIPTS), "driver")


def _words(pid: int, proc: Path) -> list[str]:
    return _read(proc / str(pid) / "cmdline").rstrip("\0").split("\0")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


FOLDER = re.compile(r"^(/.*/pymp-[^/]+)/listener-[^/]+$")


def of_dashboard(session: Path, proc: Path = Path("/proc")) -> set[Path]:
    """The folders that a session's dashboard will leave; none where it does not run here."""
    dashboards = {one.pid for one in listeners(session, proc) if one.process == "dashboard"}
    return of_processes((pid for pid, parent in parents(proc) if parent in dashboards), proc)


def of_processes(pids: Iterable[int], proc: Path = Path("/proc")) -> set[Path]:
    """Folders in which one of these processes listens; nothing of those that are gone or another user's."""
    found = set()
    for pid in pids:
        owned = set(sockets(pid, proc))
        with contextlib.suppress(OSError):
            for line in (proc / str(pid) / "net" / "unix").read_text(errors="replace").splitlines()[1:]:
                inode, path = [*line.split(maxsplit=7)[6:], ""][:2]
                if inode in owned and (match := FOLDER.match(path)):
                    found.add(Path(match[1]))
    return found


def parents(proc: Path = Path("/proc")) -> Iterator[tuple[int, int]]:
    """(pid, its parent's) of every process."""
    for file in proc.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield int(file.parent.name), int(file.read_text(errors="replace").rpartition(")")[2].split()[1])
