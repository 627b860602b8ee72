"""Context managers for work in a background thread and for signals that ask the process to end."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

TERMINATION_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
"""Signals that ask a driver to end: Ctrl-C; `timeout` and schedulers; a closed terminal; SIGQUIT; Slurm's warning."""


@contextlib.contextmanager
def background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs `work` in a daemon thread inside the block; at its end sets work's event and waits at most 5 s."""
    done = threading.Event()
    thread = threading.Thread(target=work, args=(done,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(5)


def ending_signals() -> list[signal.Signals]:
    """Returns the signals of `TERMINATION_SIGNALS` for this thread: of the main one, and no SIGHUP under `nohup`."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [
        name
        for name in TERMINATION_SIGNALS
        if name is not signal.SIGHUP or signal.getsignal(name) is not signal.SIG_IGN
    ]


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Makes every signal of `TERMINATION_SIGNALS` raise KeyboardInterrupt inside the block, as Ctrl-C does."""
    before = {name: signal.signal(name, signal.default_int_handler) for name in ending_signals()}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Delays a KeyboardInterrupt of a signal handler until the block ends; the handler's other work is done at once.

    For calls into C++ (such as `ray.init`) which end the process with a segmentation fault if an exception leaves them
    half done.
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
