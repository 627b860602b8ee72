"""Names and layout of a run's folders and files; no other module spells them.

STORAGE/runs/SIGNATURE is the home folder of a run. Each attempt has a folder there which belongs to one ledger, even
where several ledgers share the storage:

    attempt-2/          attempt 2; attempt-2-3 where attempts of other ledgers have taken the names before
      attempt.json      the attempt's number, its owner and its provenance
      best/, last/      the best model, and the state to resume from: `cse_train.checkpoint` writes both
      best_sha256.json  checksums of the model's files, for a user's program whose run has ended
      scores/           the cosines behind the scores of suites
      logs/rank0.log    the output of rank 0
    final-2/            the folder of attempt 2 once it is finished; ledgers of 0.1.0 call it final
    unbooked-2/         the folder of a finished attempt 2 whose run is trained once more
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cse_train.files import BEST_FOLDER, LAST_FOLDER, PROGRAM_DIGESTS

RUNS = "runs"
ATTEMPT, SET_ASIDE, FINAL_HOME = "attempt", "unbooked", "final"
FOLDER_KINDS = (ATTEMPT, SET_ASIDE, FINAL_HOME)
"""Prefixes of an attempt's folder name: while it trains, once it was set aside, and once it is finished."""

Checkpoint = Literal["last", "best"]


def runs_folder(storage: Path) -> Path:
    """Returns the folder that holds the home folders of all runs of a storage."""
    return storage / RUNS


def home_of(storage: Path, signature: str) -> Path:
    """Returns the home folder of one run, which holds the folders of its attempts."""
    return storage / RUNS / signature


@dataclass(frozen=True)
class RunFolder:
    """Paths of the files in the folder of one attempt of a run; the folder need not exist."""

    path: Path

    @classmethod
    def of_attempt(cls, home: Path, attempt: int, number: int = 1) -> "RunFolder":
        """Returns the folder of an attempt that is about to begin; `number` - 1 names are taken by attempts of other
        ledgers."""
        return cls(home / f"{ATTEMPT}-{attempt}{f'-{number}' if number > 1 else ''}")

    @classmethod
    def around(cls, path: Path) -> "RunFolder":
        """Returns the attempt's folder for a path that a person named: the folder itself or its best checkpoint."""
        return cls(path.parent if path.name == BEST_FOLDER else path)

    @classmethod
    def in_home(cls, home: Path) -> list["RunFolder"]:
        """Returns the folders of all attempts in a run's home folder, of every ledger, by name. Raises OSError."""
        return [cls(path) for path in sorted(home.iterdir()) if path.name.startswith(FOLDER_KINDS) and _is_folder(path)]

    @classmethod
    def finished_in(cls, home: Path) -> list["RunFolder"]:
        """Returns the folders of finished attempts in a run's home folder, newest first; none where the home folder is
        gone."""
        folders = list[RunFolder]()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            paths = [Path(entry.path) for entry in os.scandir(home) if entry.name.startswith(FINAL_HOME)]
            folders = [cls(path) for path in paths if _is_folder(path)]
        # By number: as text, final-10 would come before final-9.
        return sorted(folders, key=lambda folder: folder._numbers, reverse=True)

    @property
    def best(self) -> Path:
        """Folder of the attempt's best model."""
        return self.path / BEST_FOLDER

    @property
    def last(self) -> Path:
        """Folder of the attempt's last checkpoint, from which training resumes."""
        return self.path / LAST_FOLDER

    @property
    def digests(self) -> Path:
        """File with the checksums of the model that a user's program saved; it may be absent."""
        return self.path / PROGRAM_DIGESTS

    @property
    def scores(self) -> Path:
        """Folder of the cosines behind the run's scores."""
        return self.path / "scores"

    @property
    def logs(self) -> Path:
        """Folder of the logs of all ranks."""
        return self.path / "logs"

    @property
    def mark(self) -> Path:
        """File with the attempt's number, its owner and its provenance (`attempt.json`)."""
        return self.path / "attempt.json"

    def log(self, rank: int) -> Path:
        """Returns the log file of a rank."""
        return self.logs / f"rank{rank}.log"

    def written_logs(self) -> list[Path]:
        """Returns the log files of ranks that exist, by name."""
        return sorted(self.logs.glob("rank*.log"))

    def checkpoints(self) -> Iterator[tuple[Checkpoint, Path]]:
        """Yields kind and folder of each checkpoint that exists: the last one, to resume from, then the best one."""
        folders: tuple[tuple[Checkpoint, Path], ...] = (("last", self.last), ("best", self.best))
        return ((kind, path) for kind, path in folders if _is_folder(path))

    @property
    def has_state(self) -> bool:
        """True if a checkpoint to resume from exists; a file that is still being written does not count."""
        return self.last.is_dir() and any(not path.name.startswith(".") for path in self.last.iterdir())

    @property
    def end(self) -> str:
        """Part of the folder's name after its kind, such as `2` or `2-3`; empty for a folder of version 0.1.0."""
        return self.path.name.partition("-")[2]

    @property
    def published(self) -> "RunFolder":
        """Folder that holds the attempt's files once it is finished."""
        return RunFolder(self.path.with_name(f"{FINAL_HOME}-{self.end}"))

    def set_aside(self, attempt: int) -> "RunFolder":
        """Returns the folder to which a finished attempt moves when its run is trained once more."""
        return RunFolder(self.path.with_name(f"{SET_ASIDE}-{self.end or attempt}"))

    def other_names(self) -> Iterator[Path]:
        """Yields the other paths at which the attempt's folder may lie, earlier or later in its life."""
        names = (self.path.with_name(f"{kind}-{self.end}" if self.end else kind) for kind in FOLDER_KINDS)
        return (path for path in names if path != self.path)

    @property
    def _numbers(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.path.name.split("-")[1:] if part.isdigit())


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
