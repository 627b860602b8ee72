"""Signals that end a command end it as Ctrl-C does, but for what `nohup` keeps out."""

import os
import signal
import threading

import pytest

from cluster.runtime.background import TERMINATION_SIGNALS, ending_signals, interrupts_held, signals_interrupt


@pytest.mark.parametrize("name", TERMINATION_SIGNALS)
def test_a_signal_interrupts_and_its_handler_comes_back(name: signal.Signals) -> None:
    before = signal.getsignal(name)
    with pytest.raises(KeyboardInterrupt), signals_interrupt():
        os.kill(os.getpid(), name)
    assert signal.getsignal(name) is before


def test_nohup_keeps_a_closed_terminal_out() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_interrupt():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.SIGHUP not in ending_signals() and signal.SIGTERM in ending_signals()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_thread_gets_no_signals() -> None:
    found: list[signal.Signals] = []
    thread = threading.Thread(target=lambda: found.extend(ending_signals()))
    thread.start()
    thread.join()
    assert found == []


def test_interrupts_wait_for_the_end_of_a_call_into_ray() -> None:
    """As often as they come: of Ray's start a second Ctrl-C once made a segmentation fault."""
    names, reached = (signal.SIGINT, signal.SIGINT, signal.SIGTERM), list[signal.Signals]()

    def start() -> None:
        with interrupts_held():
            for name in names:
                os.kill(os.getpid(), name)
                reached.append(name)

    before = signal.getsignal(signal.SIGINT)
    with signals_interrupt():
        inside = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            start()
        assert tuple(reached) == names and signal.getsignal(signal.SIGINT) is inside
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_raises_nothing_is_called_at_once() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            assert seen == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_that_puts_another_in_its_place_is_held_all_the_same() -> None:
    """As a sweep's does at a second Ctrl-C; a third one then ends nothing before its time either."""
    reached: list[int] = []

    def replaced(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise KeyboardInterrupt

    def start() -> None:
        with interrupts_held():
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGINT)
                reached.append(1)

    before = signal.signal(signal.SIGINT, replaced)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert len(reached) == 3
    finally:
        signal.signal(signal.SIGINT, before)
