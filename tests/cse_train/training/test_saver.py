"""The thread that writes behind a run: one write at a time, the newest alone, errors and interrupts."""

import threading
import time
from collections.abc import Callable

import pytest

from cse_train.training import saver
from cse_train.training.saver import Saver


def writer(written: list[str], name: str, go_on: threading.Event | None = None) -> Callable[[], None]:
    """Notes a name when it ends; waits for `go_on` before that."""

    def write() -> None:
        assert go_on is None or go_on.wait(10)
        written.append(f"{name} in {threading.current_thread().name}")

    return write


def written_by(saver: Saver) -> bool:
    until = time.monotonic() + 10
    while not saver.wait(0.1):
        assert time.monotonic() < until
    return True


def test_the_caller_goes_on_while_a_thread_writes_and_of_what_waits_the_newest_is_written() -> None:
    written, go_on = list[str](), threading.Event()
    with Saver(5) as behind:
        assert behind.is_due, "the first is written at once: a bad disk is told early"
        behind.hand_over(writer(written, "first", go_on), now=True)
        assert not written and not behind.is_due and not behind.wait(0.01)
        for name in ("second", "third"):
            behind.hand_over(writer(written, name), now=behind.is_due)
        go_on.set()
        assert written_by(behind)
    assert written == ["first in saver", "third in saver"]
    assert "saver" not in [thread.name for thread in threading.enumerate()]


def test_the_next_is_due_after_so_many_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(saver.time, "monotonic", lambda: now)
    behind = Saver(5)
    behind.hand_over(lambda: None, now=True)
    behind.flush()
    behind._thread.join()
    now += 299.0
    assert not behind.is_due
    now += 1.0
    assert behind.is_due


def test_with_0_minutes_the_caller_writes_itself() -> None:
    written: list[str] = []
    with Saver(0) as behind:
        for name in ("first", "second"):
            assert behind.is_due
            behind.hand_over(writer(written, name), now=True)
    assert written == ["first in MainThread", "second in MainThread"]


def fill() -> None:
    """A write on a full disk."""
    raise OSError(28, "No space left on device", "/runs/last")


@pytest.mark.parametrize("call", ["hand_over", "wait"])
def test_an_error_of_the_thread_is_raised_at_the_next_call_as_it_was(call: str) -> None:
    """A disk that failed is not tried again on the way out."""
    written: list[str] = []

    def train() -> None:
        with Saver(5) as behind:
            behind.hand_over(fill, now=True)
            behind._thread.join()
            if call == "hand_over":
                behind.hand_over(writer(written, "next"), now=True)
            behind._newest.append(writer(written, "next"))
            behind.wait(1)

    with pytest.raises(OSError, match="No space left on device: '/runs/last'"):
        train()
    assert not written


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_waits_is_written_before_an_interrupt_or_an_error_goes_on(error: type[BaseException]) -> None:
    written: list[str] = []

    def train() -> None:
        with Saver(5) as behind:
            behind.hand_over(writer(written, "old"), now=True)
            behind.hand_over(writer(written, "new"), now=False)
            raise error

    with pytest.raises(error):
        train()
    assert written[-1] == "new in MainThread" and written[:-1] in ([], ["old in saver"])


def test_an_error_is_not_hidden_by_one_of_the_last_write(caplog: pytest.LogCaptureFixture) -> None:
    def train() -> None:
        with Saver(5) as behind:
            behind.hand_over(fill, now=False)
            raise RuntimeError("the run's own")

    with pytest.raises(RuntimeError, match="the run's own"):
        train()
    assert caplog.messages == ["not saved: [Errno 28] No space left on device: '/runs/last'"]


def test_another_thread_may_ask_to_save_what_waits_of_every_run_that_trains() -> None:
    written: list[str] = []
    with Saver(5) as one, Saver(5) as other:
        one.hand_over(writer(written, "one"), now=False)
        other.hand_over(writer(written, "other"), now=False)
        asker = threading.Thread(target=saver.save_open, name="asker")
        asker.start()
        asker.join()
        assert sorted(written) == ["one in asker", "other in asker"]
        assert one.wait(0) and other.wait(0)
    one.hand_over(writer(written, "late"), now=False)
    saver.save_open()
    assert len(written) == 2, "a run that has ended is none of them"
