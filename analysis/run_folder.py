"""Where everything of a run lies: this module alone knows the names.

STORAGE/runs/SIGNATURE is a run's home. Each attempt has a folder there, of one ledger alone, whoever else uses the
storage:

    attempt-2/          attempt 2; attempt-2-3 where attempts of other ledgers have the names before
      attempt.json      whose it is, and with what it was trained
      best/, last/      the model to use, and the state to go on from: `cse_train.checkpoint` writes them
      best_sha256.json  of a program's run that has ended: the checksums of its model's files
      scores/           the cosines behind the scores of suites
      logs/rank0.log    what a rank printed
    final-2/            the same folder once the attempt is finished; ledgers of 0.1.0 call it final
    unbooked-2/         the same of a finished attempt whose run is trained once more
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
"""How the name of an attempt's folder begins in the course of time."""

Checkpoint = Literal["last", "best"]


def runs_folder(storage: Path) -> Path:
    """The homes of all runs of a storage."""
    return storage / RUNS


def home_of(storage: Path, signature: str) -> Path:
    """The folder of one run's attempts."""
    return storage / RUNS / signature


@dataclass(frozen=True)
class RunFolder:
    """The folder of one attempt; it need not exist."""

    path: Path

    @classmethod
    def of_attempt(cls, home: Path, attempt: int, number: int = 1) -> "RunFolder":
        """The folder of an attempt that begins, where `number` - 1 names of other ledgers' attempts are taken."""
        return cls(home / f"{ATTEMPT}-{attempt}{f'-{number}' if number > 1 else ''}")

    @classmethod
    def around(cls, named: Path) -> "RunFolder":
        """Of what a person names: the run's folder itself, or that of its best checkpoint."""
        return cls(named.parent if named.name == BEST_FOLDER else named)

    @classmethod
    def in_home(cls, home: Path) -> list["RunFolder"]:
        """All attempts' folders in a home, whichever ledger has them, by name. OSError where the home is gone."""
        return [cls(path) for path in sorted(home.iterdir()) if path.name.startswith(FOLDER_KINDS) and _is_folder(path)]

    @classmethod
    def finished_in(cls, home: Path) -> list["RunFolder"]:
        """Those of finished attempts, newest first; none where the home is gone."""
        folders = list[RunFolder]()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            paths = [Path(entry.path) for entry in os.scandir(home) if entry.name.startswith(FINAL_HOME)]
            folders = [cls(path) for path in paths if _is_folder(path)]
        return sorted(folders, key=lambda folder: folder._numbers, reverse=True)

    @property
    def best(self) -> Path:
        """The folder of the model to use."""
        return self.path / BEST_FOLDER

    @property
    def last(self) -> Path:
        """The folder of the state to go on from."""
        return self.path / LAST_FOLDER

    @property
    def digests(self) -> Path:
        """The file with the checksums of a program's model, where it saved one."""
        return self.path / PROGRAM_DIGESTS

    @property
    def scores(self) -> Path:
        """The folder of the cosines behind scores."""
        return self.path / "scores"

    @property
    def logs(self) -> Path:
        """The folder of the ranks' logs."""
        return self.path / "logs"

    @property
    def mark(self) -> Path:
        """The file that says whose attempt it is."""
        return self.path / "attempt.json"

    def log(self, rank: int) -> Path:
        """What a rank printed."""
        return self.logs / f"rank{rank}.log"

    def written_logs(self) -> list[Path]:
        """The logs that are there, by name."""
        return sorted(self.logs.glob("rank*.log"))

    def checkpoints(self) -> Iterator[tuple[Checkpoint, Path]]:
        """What is kept of training and is there: the state to go on from, then the model."""
        named: tuple[tuple[Checkpoint, Path], ...] = (("last", self.last), ("best", self.best))
        return ((kind, path) for kind, path in named if _is_folder(path))

    @property
    def has_state(self) -> bool:
        """Whether there is something to go on from; a file that is being written does not count."""
        return self.last.is_dir() and any(not path.name.startswith(".") for path in self.last.iterdir())

    @property
    def end(self) -> str:
        """The name behind its kind, `2` or `2-3`; empty for a folder of 0.1.0."""
        return self.path.name.partition("-")[2]

    @property
    def published(self) -> "RunFolder":
        """Where the folder lies once its attempt is finished."""
        return RunFolder(self.path.with_name(f"{FINAL_HOME}-{self.end}"))

    def set_aside(self, attempt: int) -> "RunFolder":
        """Where the folder of a finished attempt lies whose run is trained once more."""
        return RunFolder(self.path.with_name(f"{SET_ASIDE}-{self.end or attempt}"))

    def other_names(self) -> Iterator[Path]:
        """Where the same attempt's folder lies before or after."""
        names = (self.path.with_name(f"{kind}-{self.end}" if self.end else kind) for kind in FOLDER_KINDS)
        return (path for path in names if path != self.path)

    @property
    def _numbers(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.path.name.split("-")[1:] if part.isdigit())


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
