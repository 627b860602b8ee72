"""Process of one run of a program: runs the user's script as Python would, and reports how it ended."""

import atexit
import contextlib
import ctypes
import datetime
import functools
import hashlib
import importlib.abc
import importlib.util
import os
import re
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from cse_train.files import alive
from cse_train.training.program_callback import watch_import
from cse_train.training.trial import Trial, TrialStopped, begin
from cse_train.training.wire import MARK_VARIABLE, TRIAL_VARIABLE, TrialOrder, Wire, end_marked

PR_SET_PDEATHSIG = 1
"""Option of prctl(2): the signal that this process gets when its parent ends."""
REASON_LENGTH = 300


def main() -> int:
    """Runs the order that the environment holds, and returns the exit code."""
    order = TrialOrder.read(os.environ.pop(TRIAL_VARIABLE))
    _end_with_rank(order)
    end = socket.socket(fileno=order.wire)
    end.set_inheritable(False)
    wire = Wire(end)
    trial = Trial(order, wire, int(os.environ.get("RANK", "0")))
    begin(trial)
    watch_import(trial)
    TimedFolders(Path(order.last).parent, order.last, functools.partial(_refuse, wire)).watch()
    sys.argv = [order.script, *order.arguments]
    sys.path[:0] = dict.fromkeys([order.root, str(Path(order.script).parent)])
    sys.meta_path.insert(0, CopiedModules(order.root, order.places))
    try:
        _run(order)
    except TrialStopped:
        print("stopped by the scheduler", flush=True)
    except SystemExit as ended:
        _flush()
        if ended.code not in (None, 0):
            if isinstance(ended.code, str):
                print(ended.code, file=sys.stderr, flush=True)
            return ended.code if isinstance(ended.code, int) else 1
    except BaseException as error:
        _flush()
        traceback.print_exception(type(error), error, _below(error, order))
        wire.say(error=_tell(error, order), kinds=[kind.__name__ for kind in type(error).__mro__])
        return 1
    trial.publish()
    return 0


def _end_with_rank(order: TrialOrder) -> None:
    """Makes this process end with its rank, and starts a watcher that ends all that it has started."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != order.parent:  # the rank ended before prctl took effect: its signal will never come
        os._exit(1)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os.close(order.life)
        return
    if os.fork():  # the watcher is nobody's child, so that a script that waits for its own does not see it
        os._exit(0)
    os.close(order.wire)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.read(order.life, 1)
    end_marked(os.environ[MARK_VARIABLE], spare=os.getpid())
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _refuse(wire: Wire, path: str) -> None:
    """Ends the process because another run writes to `path`; the rank starts the program again later.

    By then a name with the time in it is a different one.
    """
    wire.say(shared=path)
    os._exit(1)


def _run(order: TrialOrder) -> None:
    """Runs the user's file as the main module, with the path that the original file has."""
    module = ModuleType("__main__")
    module.__file__ = order.script
    module.__spec__ = None
    sys.modules["__main__"] = module
    exec(compile(Path(order.code).read_bytes(), order.script, "exec"), vars(module))
    _flush()


def _flush() -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()


def _below(error: BaseException, order: TrialOrder) -> TracebackType | None:
    """Returns the part of an error's traceback from the user's file on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != order.script:
        trace = trace.tb_next
    return trace or error.__traceback__


def _tell(error: BaseException, order: TrialOrder) -> str:
    """Returns `TYPE: first line (FILE:LINE in FUNCTION)` of an error, with the innermost frame in the user's code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename).name}:{error.lineno})"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = f"{type(error).__name__}: {lines[0][:REASON_LENGTH]}" if lines else type(error).__name__
    roots = tuple(str(place) + os.sep for place in {Path(order.script).parent, order.root, *order.places.values()})
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(roots) and "-packages" + os.sep not in frame.filename
    ]
    return f"{reason} ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})" if frames else reason


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


class CopiedModules(importlib.abc.MetaPathFinder):
    """Import hook for modules that were copied, unless Python would find other files than the copied ones."""

    def __init__(self, root: str, places: Mapping[str, str]) -> None:
        """Creates the hook; `places`: top-level module -> the folder from which it was copied into `root`."""
        self._root, self._places = Path(root), places

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        parts = name.split(".")
        if parts[0] not in self._places:
            return None
        folders = [folder for folder in path or sys.path if not Path(folder).is_relative_to(self._root)]
        finders: list[Any] = [finder for finder in sys.meta_path if finder is not self]
        specs = (
            PathFinder.find_spec(name, folders) if finder is PathFinder else finder.find_spec(name, path, target)
            for finder in finders
        )  # fmt: skip
        spec: ModuleSpec | None = next(filter(None, specs), None)
        for file in (Path(*parts).with_suffix(".py"), Path(*parts, "__init__.py")):
            copy, original = self._root / file, Path(self._places[parts[0]]) / file
            if spec is None and copy.is_file():
                return spec_from_file_location(name, copy)
            if spec and spec.origin and copy.is_file() and Path(spec.origin).resolve() == original.resolve():
                spec.loader = _CopyLoader(name, spec.origin, copy)
                return spec
        return None


class _CopyLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, copy: Path) -> None:
        super().__init__(name, path)
        self._copy = copy

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._copy.read_bytes(), self.path)


if __name__ == "__main__":
    sys.exit(main())
