"""What Ray's dashboard leaves among the temporary files: it is killed, and Python tidies up only after an end in order.

One folder `pymp-*` for each start of a cluster, with the socket of the server that forks the dashboard's modules.
"""

import contextlib
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from cluster.ports import listeners, sockets

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


def remove(folders: Iterable[Path]) -> None:
    """After the processes have ended."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
