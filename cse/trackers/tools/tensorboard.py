"""Tracker for TensorBoard: event files in STORAGE/tensorboard/SWEEP/RUN, with settings for its HParams page."""

import re
from pathlib import Path

from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import hparams

from cse.trackers.tools import TrackedRun

LONGEST_NAME = 200
"""Characters kept of a folder's name; file systems take 255 bytes."""


class Tracker:
    """Writes runs as TensorBoard event files, with one writer for each run that has not ended."""

    def __init__(self, storage: Path) -> None:
        self._folder = storage.resolve() / "tensorboard"
        self._writers: dict[str, SummaryWriter] = {}

    def send(self, run: TrackedRun) -> None:
        writer = self._writers.get(run.signature) or self._open(run)
        for examples, metrics in run.points:
            for name, value in metrics.items():
                writer.add_scalar(name, value, examples)
        if run.ended:
            last = max((examples for examples, _ in run.points), default=0)
            for name, value in run.results.items():
                writer.add_scalar(name, value, last)
            for name, text in run.notes.items():
                writer.add_text(name, text, last)
            self._writers.pop(run.signature).close()
        else:
            writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _open(self, run: TrackedRun) -> SummaryWriter:
        folder = self._folder / _name(run.sweep) / _name(f"{run.name} {run.signature[:8]}")
        writer = self._writers[run.signature] = SummaryWriter(str(folder))
        if run.whole:  # what an earlier call of the command wrote comes again: TensorBoard drops it at a new session
            writer.file_writer.add_event(Event(session_log=SessionLog(status=SessionLog.START)), step=0)
        settings = {name: value for name, value in run.settings.items() if isinstance(value, bool | int | float | str)}
        for summary in hparams(settings, {"best": 0.0})[:2]:
            writer.file_writer.add_summary(summary)
        return writer


def _name(text: str) -> str:
    """Returns a text as the name of one folder."""
    return re.sub(r"[^\w=.,@+ -]", "_", text)[-LONGEST_NAME:].strip(". ") or "_"
