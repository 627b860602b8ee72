"""Prints the progress of a running sweep: one live block on a terminal, plain lines in a file or a pipe."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from cluster.monitor.metrics import Tally
from cluster.sweep.events import RUN_ENDS, EventKind, SweepEvent
from cse_train.reading import plain_text

UNLOGGED_KINDS = (EventKind.REUSED, EventKind.STARTED, EventKind.POINT, EventKind.SCORED)
PROGRESS_BAR = 40
"""Characters of the progress bar; one as wide as the terminal would break when the window gets narrower."""
MARKS_LISTED = 12
"""Number of running runs that are named; the others are counted."""
EVENT_COLOURS = {
    EventKind.DONE: "green",
    EventKind.FAILED: "red",
    EventKind.STOPPED: "yellow",
    EventKind.RETRIED: "yellow",
    EventKind.WAITING: "dim",
}
"""Kind of event -> colour of its line; only failures are red, wherever they are counted."""


class Progress:
    """Listener of a sweep that prints its events; a context manager, because a live block must be closed."""

    def __init__(
        self,
        totals: Mapping[str, int],
        *,
        labels: Mapping[str, str] | None = None,
        reused: Iterable[str] = (),
        notes: Sequence[str] = (),
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`totals`: sweep ID -> number of runs; `notes`: lines below the counts. Both may change meanwhile."""
        self._totals, self._notes = totals, notes
        self.tally = Tally(sum(totals.values()), state=dict.fromkeys(reused, EventKind.REUSED))
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._labels, self._now = {} if labels is None else labels, now
        self._lock = threading.Lock()
        """Guards the tally, since Rich draws the block in a thread of its own.

        Not held during a print, which waits for Rich's thread: that would be a deadlock.
        """
        self._live = Live(console=self.console, refresh_per_second=4, transient=False, get_renderable=self._block)

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live.is_started:
            self._live.stop()

    def __call__(self, event: SweepEvent) -> None:
        with self._lock:
            self.tally.total = sum(self._totals.values())
            self.tally.add(event, self._now())
            line = self.line(event)
        if event.kind not in UNLOGGED_KINDS and not (self.console.is_terminal and event.kind == EventKind.DONE):
            self.console.print(Text(line, style=EVENT_COLOURS.get(event.kind, "")))

    def line(self, event: SweepEvent) -> str:
        """Returns an event as one line of text; where a run ended, with the sweep's counts after it."""
        words: list[str] = [event.kind, self._labels.get(event.signature, event.signature)]
        if event.kind in (EventKind.DONE, EventKind.STOPPED) and event.best is not None:
            words.append(f"best {event.best_reported:.2f}")
        if event.reason:
            words.append(event.reason)
        if event.log and event.kind in (EventKind.FAILED, EventKind.RETRIED):
            words.append(f"log {event.log}")
        tail = f"  [{'; '.join([self.tally.summary(self._now()), *self._notes])}]" if event.kind in RUN_ENDS else ""
        return plain_text("  ".join(part for part in words if part)) + tail

    def _block(self) -> Group:
        with self._lock:
            running = list(self.tally.running)
            lines = [self._bar(), Text(self.tally.summary(self._now())), *map(Text, self._notes)]
            for signature in running[:MARKS_LISTED]:
                share, name = self.tally.share(signature), plain_text(self._labels.get(signature, signature))
                lines.append(Text(f"  {share:4.0%}  {name}", style="dim"))
        if len(running) > MARKS_LISTED:
            lines.append(Text(f"  and {len(running) - MARKS_LISTED} more", style="dim"))
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)

    def _bar(self) -> Text:
        """Draws the bar: done runs green, stopped yellow, failed red, the trained part of running ones cyan."""
        count, total = self.tally.count, max(self.tally.total, 1)
        ends = {kind: count(kind) for kind in RUN_ENDS}
        ends[EventKind.DONE] += count(EventKind.REUSED)
        parts = [(number, EVENT_COLOURS[kind]) for kind, number in ends.items()]
        under_way = self.tally.work_done() - sum(ends.values()) + count(EventKind.REUSED)
        bar, so_far = Text(), 0.0
        for number, colour in [*parts, (under_way, "cyan")]:
            length = round(PROGRESS_BAR * min(1.0, (so_far + number) / total)) - len(bar)
            so_far += number
            bar.append("━" * max(0, length), style=colour)
        return bar.append("━" * (PROGRESS_BAR - len(bar)), style="bright_black")
