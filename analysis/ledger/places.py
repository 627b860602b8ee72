"""Finds the files of runs. The ledger stores paths relative to the storage, so that a folder of results may move.

A run's files lie in STORAGE/runs/SIGNATURE. Rows of version 0.1.0 hold absolute paths; where those are gone, the part
from `runs` on is looked for in the same storages. A SQLite ledger must not lie on a network file system.
"""

import contextlib
import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path

import psutil
from sqlalchemy import Connection, select

from analysis.ledger import schema
from analysis.run_folder import RUNS, home_of, runs_folder

STORAGE_KEY = "storage"
"""Key in `cse_meta` of the storages in which drivers put files, without the SQLite file's own folder."""
NAMED_STORAGE_OPTION = "cse_storage"
"""Execution option of an engine that holds the storage which a person named."""
FEW_FOLDERS = 32
"""Number of runs whose folders are looked up one by one; beyond it, the storage is listed once."""


class Places:
    """Finds runs' files in the storage that a person named, in the ledger's folder, or where a driver put them."""

    def __init__(self, roots: Sequence[Path], usual: Path | None) -> None:
        """Takes the storages to search, in order, and `usual`, the storage to assume for files in none of them."""
        self._roots, self._usual, self._lookups = roots, usual, 0
        self._listed: dict[Path, frozenset[str]] = {}
        self._folder = functools.cache(Path)

    def path(self, stored: str | None, signature: str) -> str | None:
        """Returns the absolute path for a path stored in the ledger, whether or not the file exists."""
        if stored is None or (end := _relative_end(stored, signature)) is None:
            return stored
        fallback = self._folder(stored[: -len(end)]) if os.path.isabs(stored) else self._usual
        roots = self._roots if fallback is None else [*self._roots, fallback]
        root = next((root for root in roots if self._has(root, signature)), fallback)
        return stored if root is None else os.path.join(root, end)

    def _has(self, root: Path, signature: str) -> bool:
        self._lookups += 1
        if self._lookups <= FEW_FOLDERS:
            return home_of(root, signature).is_dir()
        if root not in self._listed:
            folder = runs_folder(root)
            self._listed[root] = frozenset(os.listdir(folder) if folder.is_dir() else ())
        return signature in self._listed[root]


def read_places(connection: Connection) -> Places:
    """Returns the storages that a ledger's runs may lie in."""
    storage = connection.get_execution_options().get(NAMED_STORAGE_OPTION)
    ledger_folder, recorded = _find_sqlite_folder(connection), _read_storages(connection)
    roots = [Path(storage)] if storage else []
    roots += [folder for folder in (ledger_folder, *reversed(recorded)) if folder is not None]
    usual = Path(storage) if storage else recorded[-1] if recorded else ledger_folder
    return Places(list(dict.fromkeys(roots)), usual)


def shorten_path(path: str | Path | None, signature: str) -> str | None:
    """Returns the form in which the ledger stores a path: from `runs` on for a file of the run, else the whole path."""
    return None if path is None else _relative_end(str(path), signature) or str(path)


def storage_of(folder: str | Path | None, signature: str) -> Path | None:
    """Returns the storage that holds a run's folder; None for a folder elsewhere, or for a relative path."""
    end = _relative_end(str(folder), signature)
    return Path(str(folder)[: -len(end)]) if folder and end and Path(folder).is_absolute() else None


def note_storage(connection: Connection, root: Path) -> None:
    """Records a storage that holds folders of runs, unless it is the ledger's own folder."""
    if root == _find_sqlite_folder(connection):
        return
    storages = _read_storages(connection)
    if root != (storages[-1] if storages else None):
        value = json.dumps([str(folder) for folder in storages if folder != root] + [str(root)])
        statement = schema.insert_for(connection.dialect.name)(schema.meta).values(key=STORAGE_KEY, value=value)
        connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": value}))


def _relative_end(path: str, signature: str) -> str | None:
    """Returns the end of a path from `runs/SIGNATURE` on; None for a path without that part."""
    _, middle, rest = f"/{path}/".rpartition(f"/{RUNS}/{signature}/")
    return f"{RUNS}/{signature}/{rest}".rstrip("/") if middle else None


def _find_sqlite_folder(connection: Connection) -> Path | None:
    """Returns the folder of a SQLite ledger; None for a database server."""
    url = connection.engine.url
    return Path(url.database).resolve().parent if url.get_backend_name() == "sqlite" and url.database else None


def _read_storages(connection: Connection) -> list[Path]:
    text = connection.scalar(select(schema.meta.c.value).where(schema.meta.c.key == STORAGE_KEY))
    return [Path(folder) for folder in json.loads(text)] if text else []


NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb", "smbfs", "smb2", "smb3", "ncpfs", "afs", "davfs"),
        *("lustre", "gpfs", "beegfs", "ceph", "glusterfs", "pvfs2", "orangefs", "ocfs2"),
        *("panfs", "wekafs", "virtiofs", "juicefs", "fuse.juicefs", "fuse.weka", "fuse.panfs"),
        *("fuse.sshfs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.davfs2"),
    }
)
"""Types of mounts on which SQLite's locks and shared memory do not work between machines. 9p is not listed: it is the
root of several sandboxes, local to one machine."""


def network_file_system(path: Path) -> str | None:
    """Returns the type of network file system on which `path` lies; None for a local one, and where mounts are
    unknown."""
    target = path.resolve()
    kind, depth = "", -1
    with contextlib.suppress(OSError):
        for mount in psutil.disk_partitions(all=True):
            point = Path(mount.mountpoint)
            if target.is_relative_to(point) and len(point.parts) >= depth:
                kind, depth = mount.fstype, len(point.parts)
    return kind if kind in NETWORK_FILE_SYSTEMS else None
