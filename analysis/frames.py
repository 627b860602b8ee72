"""Reads a ledger into pandas data frames, for notebooks and custom figures; `cse table` does not use them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from analysis.ledger import Ledger, LedgerError, RunRow

FIELDS = ("signature", "method", "seed", "state", "best", "best_examples", "examples", "seconds", "attempt", "reason")
"""Fields of `RunRow` that become the first columns of the frame of runs, before the settings."""


def runs(ledger: str | Path, sweep: str | None = None) -> pd.DataFrame:
    """Returns a frame with one line per run in the order of creation. Its columns are FIELDS, `folder`, every setting
    by its dotted name, `input.NAME` for the content hash of each input (`input.corpus`, `input.dev`; `input.code`
    where the method's code differs from the released one), and `score.SUITE` for each suite that some run was
    scored on (the newest score counts).

    Before averaging, group runs by their settings, their inputs and `version`, the VERSION of the method's code (absent
    for runs of version 0.1.0).

    `ledger` is a path or a URL as in --ledger, `sweep` the name of one of its sweeps (`cse ls`). Raises LedgerError
    where either is absent. Dev scores are Spearman x 100; `seconds` is the training time.
    """
    with _rows(ledger, sweep) as (opened, rows):
        versions, lines = opened.versions(), dict[str, dict[str, object]]()
        for row in rows:
            line: dict[str, object] = {name: getattr(row, name) for name in (*FIELDS, "folder")}
            line["state"] = row.state.value  # a plain text, as a notebook groups and prints it
            inputs = {f"input.{name}": value for name, value in row.identity.items()}
            lines[row.signature] = {**line, **row.config, "version": versions.get(row.signature), **inputs}
        for score in opened.scores(lines):
            lines[score.signature][f"score.{score.suite}"] = score.value
    return pd.DataFrame(list(lines.values()), columns=None if lines else list(FIELDS))


def curves(ledger: str | Path, sweep: str | None = None) -> pd.DataFrame:
    """Returns a frame with one line per evaluation of each run: `signature`, `examples`, `best` so far, and one column
    per metric."""
    with _rows(ledger, sweep) as (opened, rows):
        by_run = opened.curves(row.signature for row in rows)
    return pd.DataFrame(
        {"signature": signature, "examples": point.examples, "best": point.best, **point.metrics}
        for signature, points in by_run.items()
        for point in points
    )


def scores(ledger: str | Path, sweep: str | None = None) -> pd.DataFrame:
    """Returns a frame with one line per score: `signature`, `suite`, `value`, `protocol_hash`, and the fields of the
    score's protocol as `protocol.*`."""
    with _rows(ledger, sweep) as (opened, rows):
        scores = opened.scores(row.signature for row in rows)
    return pd.DataFrame(
        {"signature": score.signature, "suite": score.suite, "value": score.value, "protocol_hash": score.protocol_hash}
        | {f"protocol.{name}": value for name, value in score.protocol.facts.items()}
        for score in scores
    )


@contextlib.contextmanager
def _rows(ledger: str | Path, sweep: str | None) -> Iterator[tuple[Ledger, list[RunRow]]]:
    with contextlib.closing(Ledger.open(ledger, create=False)) as opened:
        sweeps = [row.id for row in opened.sweeps()]
        if sweep is not None and sweep not in sweeps:
            raise LedgerError(f"unknown sweep: sweep={sweep}; the ledger has {', '.join(sweeps) or 'none'}")
        yield opened, opened.runs(sweep=sweep)
