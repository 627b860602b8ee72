"""What comes from beside a block while it runs: work in a thread, and signals that ask it to end."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
"""Of Ctrl-C; of `timeout`, systemd and schedulers; of a terminal that closes; of Ctrl-backslash; of Slurm before a time
limit."""


@contextlib.contextmanager
def background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """`work` in a thread while inside; it ends soon after the event that it is given is set."""
    done = threading.Event()
    thread = threading.Thread(target=work, args=(done,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(5)


def ending_signals() -> list[signal.Signals]:
    """Of `ENDING` those that may come here: only the main thread gets any, and `nohup` keeps one out."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [name for name in ENDING if name is not signal.SIGHUP or signal.getsignal(name) is not signal.SIG_IGN]


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Each of them raises KeyboardInterrupt inside, as Ctrl-C does."""
    before = {name: signal.signal(name, signal.default_int_handler) for name in ending_signals()}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """A KeyboardInterrupt that a signal's handler raises inside comes at the end; what else the handler does, at once.

    For a call into C++ that is half done where an exception leaves it, and ends the process with a segmentation fault.
    """
    before = {name: handler for name in ending_signals() if callable(handler := signal.getsignal(name))}
    interrupted = False

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        try:
            before[signal.Signals(number)](number, frame)
        except KeyboardInterrupt:
            interrupted = True
        for name in before:
            signal.signal(name, hold)  # the handler may have put another in its place

    for name in before:
        signal.signal(name, hold)
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
        if interrupted:
            raise KeyboardInterrupt
