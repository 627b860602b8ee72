"""Tracker for Trackio: a project for each sweep, in TRACKIO_DIR or on the Space or server of Trackio's environment."""

import contextvars
import os
import re
from pathlib import Path
from typing import Any

if os.environ.get("TRACKIO_DIR"):  # read at the import; while Ray runs, the working folder is not the user's
    os.environ["TRACKIO_DIR"] = str(Path(os.environ["TRACKIO_DIR"]).resolve())

import trackio
import trackio.run
import trackio.utils

from cse.trackers.tools import TrackedRun


class Tracker:
    """Sends runs to Trackio; a name ends in the start of the signature, so that a later command continues the run."""

    def __init__(self, storage: Path) -> None:
        self._runs: dict[str, Any] = {}
        self._problems: list[str] = []
        for module in (trackio, trackio.run, trackio.utils):
            # It prints on stdout, which is the table's, and warns where others raise. It has no option for either.
            vars(module)["print"] = lambda *text, **options: None
            vars(module)["_emit_nonfatal_warning"] = lambda text, *rest, **options: self._problems.append(str(text))

    def send(self, run: TrackedRun) -> None:
        trackio_run = self._runs.get(run.signature) or self._open(run)
        for examples, metrics in run.points:
            trackio_run.log(dict(metrics), step=examples)
        if run.ended:
            last = max((examples for examples, _ in run.points), default=None)
            trackio_run.log({**run.results, **run.notes}, step=last)
            trackio_run.finish()
            del self._runs[run.signature]
        if self._problems:
            line, self._problems = self._problems[0], []
            raise RuntimeError(line)

    def close(self) -> None:
        for trackio_run in self._runs.values():
            trackio_run.finish()

    def _open(self, run: TrackedRun) -> Any:
        # In a context of its own, since a second `init` in one context ends the first one's run.
        trackio_run = self._runs[run.signature] = contextvars.copy_context().run(
            trackio.init,
            project=re.sub(r"[^\w=.,@+ -]", "_", run.sweep),
            name=f"{run.name} {run.signature[:8]}",
            group=run.sweep,
            config=dict(run.settings),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        return trackio_run
