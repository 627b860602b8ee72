"""What a sweep's progress says, event by event."""

import io
import random
import sys
import threading

import pytest
from rich.console import Console

from cluster.monitor.metrics import Tally, clock
from cluster.monitor.progress import MARKS_LISTED, PROGRESS_BAR, Progress
from cluster.sweep.events import SweepEvent


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def shown(terminal: bool) -> tuple[Progress, io.StringIO, Clock]:
    out, now = io.StringIO(), Clock()
    console = Console(file=out, force_terminal=terminal, width=100, highlight=False, soft_wrap=not terminal)
    labels = {"a": "dup_rate=0.32 seed 0", "b": "dup_rate=0.32 seed 1"}
    return Progress({"s": 4}, labels=labels, console=console, now=now), out, now


def test_time_left_counts_the_share_of_a_running_run_and_leaves_reused_ones_out() -> None:
    tally = Tally(4)
    tally.add(SweepEvent(kind="reused", signature="z", best=70.0), 0.0)
    tally.add(SweepEvent(kind="started", signature="a", total_examples=100), 10.0)
    assert tally.seconds_left(20.0) is None
    tally.add(SweepEvent(kind="point", signature="a", examples=50, best=40.0), 20.0)
    assert tally.seconds_left(20.0) == pytest.approx(10.0 * 2.5 / 0.5)
    tally.add(SweepEvent(kind="done", signature="a", examples=100, best=55.0), 30.0)
    assert tally.seconds_left(30.0) == pytest.approx(20.0 * 2.0)
    assert tally.best == 70.0


def test_summary_counts_each_kind_once() -> None:
    tally = Tally(4)
    for kind, signature in (("reused", "a"), ("started", "b"), ("started", "c"), ("failed", "c"), ("started", "d")):
        tally.add(SweepEvent(kind=kind, signature=signature), 0.0)  # type: ignore[arg-type]
    tally.add(SweepEvent(kind="done", signature="d", best=61.25), 6.0)
    assert tally.summary(6.0) == "2/4 done (1 reused), 1 running, 1 failed, best run 61.25, about 3 s left"


def test_a_search_names_its_runs_as_it_proposes_them() -> None:
    out, labels = io.StringIO(), {}
    with Progress({"s": 1}, labels=labels, console=Console(file=out)) as progress:
        labels["a"] = "learning_rate=0.001 seed 0"
        progress(SweepEvent(kind="started", signature="a", total_examples=100))
        progress(SweepEvent(kind="point", signature="a", examples=25, best=51.0))
        assert progress.tally.share("a") == 0.25
        progress(SweepEvent(kind="done", signature="a", examples=100, best=54.0))
    assert out.getvalue().startswith("done  learning_rate=0.001 seed 0  best 54.00")


def test_a_pipe_gets_plain_lines_without_control_codes() -> None:
    progress, out, now = shown(terminal=False)
    with progress:
        progress(SweepEvent(kind="started", signature="a", total_examples=100))
        progress(SweepEvent(kind="point", signature="a", examples=50, best=51.0))
        now.seconds = 8.0
        progress(SweepEvent(kind="done", signature="a", examples=100, best=54.125))
        progress(SweepEvent(kind="failed", signature="b", reason="NaN loss at step 3", log="runs/b/logs"))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("done  dup_rate=0.32 seed 0  best 54.12  [1/4 done, best run 54.12, about 24 s left]")
    assert lines[1].startswith("failed  dup_rate=0.32 seed 1  NaN loss at step 3  log runs/b/logs  [")
    assert "\x1b" not in out.getvalue()
    assert len(lines) == 2


@pytest.mark.parametrize("terminal", [False, True])
def test_values_and_reasons_move_nothing_on_a_terminal(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200, soft_wrap=True)
    with Progress({"s": 2}, labels={"a": "cell \x1b]0;owned\x07", "b": "b\u202ec"}, console=console) as progress:
        progress(SweepEvent(kind="started", signature="b", total_examples=100))
        progress(SweepEvent(kind="failed", signature="a", reason="why \x1b[2J\u202e\nmore"))
    said = console.file.getvalue()
    assert "cell  ]0;owned" in said and "why  [2J more" in said
    assert not any(obeyed in said for obeyed in ("\x1b]", "\x1b[2J", "\x07", "\u202e"))


def test_finished_runs_count_from_the_start() -> None:
    assert Progress({"s": 4}, reused=["x", "y"]).tally.summary(0.0) == "2/4 done (2 reused)"


def test_a_terminal_gets_one_live_block() -> None:
    progress, out, _ = shown(terminal=True)
    with progress:
        progress(SweepEvent(kind="started", signature="a", total_examples=100))
        progress(SweepEvent(kind="point", signature="a", examples=50, best=51.0))
    final = out.getvalue()
    assert "\x1b" in final
    assert "1 running" in final
    assert "50%  dup_rate=0.32 seed 0" in final


def test_the_bar_is_red_for_failures_alone_and_narrow() -> None:
    progress, _, _ = shown(terminal=True)
    healthy = progress._bar()
    assert "red" not in {str(span.style) for span in healthy.spans} and len(healthy) == PROGRESS_BAR
    for kind, signature in (("done", "a"), ("failed", "b"), ("started", "c"), ("stopped", "d")):
        progress(SweepEvent(kind=kind, signature=signature))  # type: ignore[arg-type]
    spans = [(str(span.style), span.end - span.start) for span in progress._bar().spans]
    assert spans == [("green", 10), ("yellow", 10), ("red", 10), ("bright_black", 10)]


def test_a_hundred_running_runs_leave_the_block_short() -> None:
    out = io.StringIO()
    progress = Progress({"s": 100}, console=Console(file=out, force_terminal=True, width=60))
    for number in range(100):
        progress(SweepEvent(kind="started", signature="a long label " * 9 + str(number)))
    lines = progress.console.render_lines(progress._block())
    assert len(lines) == MARKS_LISTED + 3 and "and 88 more" in "".join(part.text for part in lines[-1])


@pytest.mark.parametrize(("seconds", "said"), [(8.4, "8 s"), (125, "2 min 05 s"), (11400, "3 h 10 min")])
def test_clock(seconds: float, said: str) -> None:
    assert clock(seconds) == said


def test_the_block_is_drawn_while_thousands_of_runs_begin_and_end() -> None:
    progress, _, _ = shown(terminal=True)
    errors: list[BaseException] = []
    over = threading.Event()

    def draw() -> None:
        try:
            while not over.is_set():
                progress._block()
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=draw)
    thread.start()
    for number in range(3000):
        for kind in ("started", "point", "done"):
            progress(SweepEvent(kind=kind, signature=str(number), examples=1, total_examples=1))  # type: ignore[arg-type]
    over.set()
    thread.join(10)
    sys.setswitchinterval(before)
    assert errors == [] and progress.tally.count("done") == 3000 and not progress.tally.running


def test_a_score_of_a_suite_is_not_the_best_run() -> None:
    tally = Tally(1)
    tally.add(SweepEvent(kind="scored", signature="a", best=95.0, reason="intents"), 0.0)
    tally.add(SweepEvent(kind="done", signature="a", best=23.5), 1.0)
    assert tally.summary(2.0) == "1/1 done, best run 23.50"


def test_running_counts_equal_a_count_of_all_states() -> None:
    rng, tally = random.Random(0), Tally(50, state={"0": "reused"})
    kinds = ("started", "point", "requeued", "resting", "done", "stopped", "failed", "reused", "scored")
    for _ in range(2000):
        tally.add(SweepEvent(kind=rng.choice(kinds), signature=str(rng.randrange(50))), 0.0)  # type: ignore[arg-type]
        for kind in ("started", "done", "stopped", "failed", "reused"):
            assert tally.count(kind) == sum(state == kind for state in tally.state.values())
        assert set(tally.running) == {name for name, state in tally.state.items() if state == "started"}
