"""What a person sees of a running sweep: one live block on a terminal, plain lines in a file or a pipe."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cluster.options import SweepEvent

ENDED = ("done", "stopped", "failed")
SPOKEN = {"done", "stopped", "failed", "retried", "waiting", "cluster", "ledger"}
"""Events that are worth a line in a log."""


@dataclass
class Tally:
    """Counts of a sweep, from its events alone."""

    total: int
    """Runs in all."""
    horizon: Mapping[str, int] = field(default_factory=dict)
    """Signature -> examples of that run, for the share that is trained."""
    begun: float | None = None
    """Clock reading at the first start; None before it."""
    state: dict[str, str] = field(default_factory=dict)
    trained: dict[str, int] = field(default_factory=dict)
    best: float | None = None
    best_signature: str = ""

    def add(self, event: SweepEvent, now: float) -> None:
        """Take one event into account; `now` is any steady clock in seconds."""
        if event.kind == "started" and self.begun is None:
            self.begun = now
        if event.kind in ("started", "reused", *ENDED):
            self.state[event.signature] = event.kind
        if event.examples:
            self.trained[event.signature] = event.examples
        if event.best is not None and event.kind != "failed" and (self.best is None or event.best > self.best):
            self.best, self.best_signature = event.best, event.signature

    def count(self, *kinds: str) -> int:
        return sum(state in kinds for state in self.state.values())

    def work_done(self) -> float:
        """Runs trained by this call, running ones by their share of examples."""
        return self.count(*ENDED) + sum(self.share(s) for s, state in self.state.items() if state == "started")

    def share(self, signature: str) -> float:
        """Trained part of a run, 0 where its length is not known."""
        horizon = self.horizon.get(signature)
        return min(1.0, self.trained.get(signature, 0) / horizon) if horizon else 0.0

    def seconds_left(self, now: float) -> float | None:
        """Time to the end at the pace so far; None while there is no pace."""
        done = self.work_done()
        if self.begun is None or done <= 0:
            return None
        return (now - self.begun) * (self.total - self.count("reused") - done) / done

    def summary(self, now: float) -> str:
        """One line: done, running, failed, reused, best, time left."""
        parts = [f"{self.count('done', 'stopped')}/{self.total - self.count('reused')} done"]
        parts += [
            f"{self.count('started')} running",
            f"{self.count('failed')} failed",
            f"{self.count('reused')} reused",
        ]
        if self.best is not None:
            parts.append(f"best {self.best:.2f}")
        if left := self.seconds_left(now):
            parts.append(f"about {clock(left)} left")
        return ", ".join(parts)


def clock(seconds: float) -> str:
    """`8 s`, `2 min 05 s`, `3 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class Progress:
    """Shows a sweep's events; a context manager, because a live block must be closed."""

    def __init__(
        self,
        total: int,
        *,
        labels: Mapping[str, str] | None = None,
        horizon: Mapping[str, int] | None = None,
        reused: Iterable[str] = (),
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tally = Tally(total, {} if horizon is None else horizon, state=dict.fromkeys(reused, "reused"))
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._labels, self._now = {} if labels is None else labels, now
        self._live = Live(console=self.console, refresh_per_second=4, transient=False, get_renderable=self._block)

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live.is_started:
            self._live.stop()

    def __call__(self, event: SweepEvent) -> None:
        self.tally.add(event, self._now())
        if event.kind in SPOKEN and not (self.console.is_terminal and event.kind == "done"):
            self.console.print(Text(self.line(event)))

    def line(self, event: SweepEvent) -> str:
        """An event in words, with where the sweep stands after it."""
        said = [event.kind, self._labels.get(event.signature, event.signature)]
        if event.kind in ("done", "stopped") and event.best is not None:
            said.append(f"best {event.best:.2f}")
        if event.reason:
            said.append(event.reason)
        if event.log and event.kind in ("failed", "retried"):
            said.append(f"log {event.log}")
        tail = f"  [{self.tally.summary(self._now())}]" if event.kind in ENDED else ""
        return "  ".join(part for part in said if part) + tail

    def _block(self) -> Table:
        block = Table.grid(expand=True)
        done = self.tally.work_done() + self.tally.count("reused")
        block.add_row(ProgressBar(total=max(self.tally.total, 1), completed=done))
        block.add_row(Text(self.tally.summary(self._now())))
        for signature, state in self.tally.state.items():
            if state == "started":
                block.add_row(self._running_line(signature))
        return block

    def _running_line(self, signature: str) -> Text:
        share = self.tally.share(signature)
        return Text(f"  {share:4.0%}  {self._labels.get(signature, signature)}", style="dim")
