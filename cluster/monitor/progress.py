"""What a person sees of a running sweep: one live block on a terminal, plain lines in a file or a pipe."""

import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cluster.monitor.tally import ENDED, Tally
from cluster.sweep.events import SweepEvent

SPOKEN = {"done", "stopped", "failed", "retried", "waiting", "cluster", "ledger"}
"""Events that are worth a line in a log."""


class Progress:
    """Shows a sweep's events; a context manager, because a live block must be closed."""

    def __init__(
        self,
        total: int,
        *,
        labels: Mapping[str, str] | None = None,
        reused: Iterable[str] = (),
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tally = Tally(total, state=dict.fromkeys(reused, "reused"))
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
        words = [event.kind, self._labels.get(event.signature, event.signature)]
        if event.kind in ("done", "stopped") and event.best is not None:
            words.append(f"best {event.best:.2f}")
        if event.reason:
            words.append(event.reason)
        if event.log and event.kind in ("failed", "retried"):
            words.append(f"log {event.log}")
        tail = f"  [{self.tally.summary(self._now())}]" if event.kind in ENDED else ""
        return "  ".join(part for part in words if part) + tail

    def _block(self) -> Table:
        block = Table.grid(expand=True)
        done = self.tally.work_done() + self.tally.count("reused")
        block.add_row(ProgressBar(total=max(self.tally.total, 1), completed=done))
        block.add_row(Text(self.tally.summary(self._now())))
        for signature, state in self.tally.state.items():
            if state == "started":
                line = f"  {self.tally.share(signature):4.0%}  {self._labels.get(signature, signature)}"
                block.add_row(Text(line, style="dim"))
        return block
