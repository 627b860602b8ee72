"""Signals that end a command end it as Ctrl-C does, but for what `nohup` keeps out."""

import os
import signal
import threading

import pytest

from cluster.runtime.background import ENDING, ending_signals, signals_interrupt


@pytest.mark.parametrize("name", ENDING)
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
