"""Process of one run of a program: calls the user's script or function as Python would, and reports how it ended."""

import contextlib
import ctypes
import functools
import importlib.util
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from types import ModuleType, TracebackType

from cse_train.training.trainer.callback import watch_import
from cse_train.training.trainer.copies import CopiedModules
from cse_train.training.trainer.marked import MARK_VARIABLE, end_marked
from cse_train.training.trainer.timed_folders import TimedFolders
from cse_train.training.trainer.trial import Trial, TrialStopped, begin
from cse_train.training.trainer.wire import TRIAL_VARIABLE, TrialOrder, Wire

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
        _call(order, trial)
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


def _call(order: TrialOrder, trial: Trial) -> None:
    if order.function:
        module = _load(order, Path(order.script).stem)
        function = getattr(module, order.function, None)
        if not callable(function):
            raise AttributeError(f"no function: {order.function} is not in {Path(order.script).name}")
        function(trial)
    else:
        _load(order, "__main__")
    _flush()


def _load(order: TrialOrder, name: str) -> ModuleType:
    """Runs the user's file as a module of this name, with the path that the original file has."""
    module = ModuleType(name)
    module.__file__ = order.script
    module.__spec__ = None if name == "__main__" else importlib.util.spec_from_file_location(name, order.script)
    sys.modules[name] = module
    exec(compile(Path(order.code).read_bytes(), order.script, "exec"), vars(module))
    return module


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


if __name__ == "__main__":
    sys.exit(main())
