"""Publishes the nodes of a sweep's Ray cluster to Prometheus, as one file per driver in the shared storage.

Ray writes its service-discovery file into its session's folder, which only the head's host has, and which under Slurm
no other user can read. A driver on the head copies it to the storage; a driver elsewhere has nothing to copy.
"""

import contextlib
import os
import platform
import time
from pathlib import Path

from cluster.runtime import ray_internals

DISCOVERY_FOLDER = "prometheus"
"""Folder of the target files below the storage, which prometheus.yml reads."""
DISCOVERY_PERIOD_SECONDS = 15.0
"""Seconds between two copies of Ray's target file, which Ray itself writes every 5 s."""
STALE_FILE_SECONDS = 3600.0
"""Age in seconds at which a target file is taken for a killed driver's and deleted."""


class TargetFile:
    """Prometheus target file of one driver, which exists while the driver sweeps."""

    def __init__(self, storage: Path) -> None:
        self.path = storage / DISCOVERY_FOLDER / f"{platform.node()}-{os.getpid()}.json"
        self._next = 0.0

    def refresh(self) -> None:
        """Copies Ray's target file, at most every DISCOVERY_PERIOD_SECONDS, and deletes files of killed drivers.

        Errors of the file system are ignored, so that a full disk delays nothing.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + DISCOVERY_PERIOD_SECONDS
        source = ray_internals.discovery_file()
        if source is None:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new_file = self.path.with_suffix(".new")
            new_file.write_bytes(source.read_bytes())
            new_file.replace(self.path)
            newest = self.path.stat().st_mtime
            for other in self.path.parent.glob("*.json"):
                if newest - other.stat().st_mtime > STALE_FILE_SECONDS:
                    other.unlink(missing_ok=True)

    def remove(self) -> None:
        """Deletes the driver's target file at the end of the sweep."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
