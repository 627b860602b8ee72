"""Keeps runs apart that write to files or folders named by the time, where two begin within one second.

A script finds its data by paths from its own folder, so that no run can have a working folder to itself. In its process
each write is looked at: the first run that writes to a path with the time in it owns it, and another one that runs
meanwhile on this machine is started again, when the time has another name.
"""

import atexit
import datetime
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cse_train.files import alive

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT
NAMED_MINUTES = 10
"""Minutes after the start in which a script makes most of its names; a later name is recognised in its own minute."""
EARLIEST = datetime.timedelta(seconds=2)
"""Time before this process's start at which a name may have been made, such as by a script that starts it."""


class TimedFolders:
    """Audit hook that claims the paths with the time in their names to which this process writes."""

    def __init__(self, run_folder: Path, mark: str, refuse: Callable[[str], object]) -> None:
        """Creates the hook.

        Paths in `run_folder` need no claim. `mark` identifies the run. `refuse` is called with a path that another run
        has claimed, and must end the process.
        """
        self._own, self._mark, self._refuse = str(run_folder.resolve()) + os.sep, mark, refuse
        self._claims = Path(tempfile.gettempdir(), f"cse-folders-{os.getuid()}")
        self._start, self._claimed, self._busy = datetime.datetime.now(), set[str](), False
        self._process = os.getpid()

    def watch(self) -> None:
        """Starts to watch every folder that is made and every file that is opened for writing."""
        sys.addaudithook(self._hear)
        atexit.register(self._give_back)

    def _give_back(self) -> None:
        self._busy = True
        for path in self._claimed if os.getpid() == self._process else ():
            self._place(path).unlink(missing_ok=True)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self._busy or not (event == "os.mkdir" or (event == "open" and _writes(args))):
            return
        if os.getpid() != self._process:  # forked: it cannot speak to the rank
            return
        self._busy = True  # a claim opens files itself, and this hook would hear them
        try:
            if isinstance(args[0], str | bytes | os.PathLike) and (path := self._timed(os.fsdecode(args[0]))):
                if path not in self._claimed and not self._claim(path):
                    self._refuse(path)
                self._claimed.add(path)
        finally:
            self._busy = False

    def _timed(self, path: str) -> str:
        """Returns the path up to its first name with the time in it; empty if it has none or is the run's own."""
        full = os.path.abspath(path)
        if full.startswith(self._own) or not re.search(r"\d{2}", full):
            return ""
        names = full.split(os.sep)
        index = next((index for index, name in enumerate(names) if self._has_time(name)), None)
        return "" if index is None else os.sep.join(names[: index + 1])

    def _has_time(self, name: str) -> bool:
        digits = re.sub(r"\D", "", name)
        now, minute = datetime.datetime.now(), datetime.timedelta(minutes=1)
        if len(digits) < 6:
            return False
        first = [self._start - EARLIEST + minutes * minute for minutes in range(NAMED_MINUTES)]
        for local in (*(moment for moment in first if moment <= now), now - minute, now):
            for moment in (local, local.astimezone(datetime.UTC)):
                forms = ("%d%H%M", "%Y%H%M", "%y%H%M") if len(digits) >= 10 else ("%d%H%M",)  # a date alone has eight
                dated = any(moment.strftime(form) in digits for form in forms)
                if dated or (len(digits) == 6 and digits.startswith(moment.strftime("%H%M"))):
                    return True
        return any(str(int(moment.timestamp()))[:8] in digits for moment in (self._start, now))

    def _claim(self, path: str) -> bool:
        """Claims a path for this run; returns False if a living process of another run has it."""
        self._claims.mkdir(mode=0o700, exist_ok=True)
        claim = self._place(path)
        while True:
            aside = claim.with_name(f"{claim.name}.{os.getpid()}")
            aside.write_text(f"{os.getpid()} {self._mark}")
            try:
                os.link(aside, claim)  # with its content at once, and by one process alone
                return True
            except FileExistsError:
                process, _, mark = claim.read_text().partition(" ")
                if mark == self._mark:
                    return True
                if alive(int(process)):
                    return False
                claim.unlink(missing_ok=True)
            finally:
                aside.unlink(missing_ok=True)

    def _place(self, path: str) -> Path:
        return self._claims / hashlib.sha256(path.encode("utf8", "surrogateescape")).hexdigest()[:32]


def _writes(args: tuple[Any, ...]) -> bool:
    mode, flags = (*args[1:], None, None)[:2]
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return isinstance(flags, int) and bool(flags & WRITE_FLAGS)
