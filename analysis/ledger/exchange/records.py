"""Reads rows of a ledger as records, each list in the order of its key, so that equal rows give equal records."""

import math
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Float, inspect, select

from analysis.ledger import baselines, queries, schema
from analysis.ledger.exchange.columns import BASELINES, RUN_SHAPE, SWEEP, UNTRAINED_SHAPE, Record, Shape
from analysis.ledger.integrity import intact
from analysis.run_state import NOT_HELD
from cse_train.results import Json

SETUP = ("train.encoder", "train.corpus", "train.dev_max_length")
"""Settings of a run on which its baselines depend."""


def run_records(connection: Connection, signatures: Collection[str] | None = None) -> list[Record]:
    """Returns the runs that have ended, each with its history, attempts, curve and scores: all, or the given
    signatures.

    The folder of an imported run is the one in which it was trained. Raises LedgerError for a row edited by hand.
    """
    query = select(*RUN_SHAPE.columns).where(schema.runs.c.state.in_(NOT_HELD))
    runs: dict[str, Record] = {}
    for statement in queries.select_by_signature(query, schema.runs.c.signature, signatures):
        for row in connection.execute(statement):
            intact(schema.runs, row._asdict())
            runs[row.signature] = {
                "kind": "run",
                **_plain(RUN_SHAPE, row._asdict()),
                **{name: [] for name in RUN_SHAPE.parts},
            }
    for name, shape in RUN_SHAPE.parts.items():
        signature = shape.table.c.signature
        query = select(signature.label("run"), *shape.columns).order_by(*shape.table.primary_key)
        for statement in queries.select_by_signature(query, signature, runs):
            for row in connection.execute(statement):
                runs[row.run][name].append(_plain(shape, row._asdict()))
        if shape.key:
            for run in runs.values():
                run[name].sort(key=shape.key_of)
    for name_of_run, source in queries.imports(connection, runs).items():
        runs[name_of_run]["folder"] = source.folder
    return [runs[signature] for signature in sorted(runs)]


def sweep_records(connection: Connection, names: Collection[str] | None = None) -> list[Record]:
    """Returns sweeps with their cells and their looks at test sets: all, or the given names."""
    query = select(*SWEEP.columns).order_by(schema.sweeps.c.id)
    statement = query if names is None else query.where(schema.sweeps.c.id.in_(list(names)))
    return [_sweep(connection, row._asdict()) for row in connection.execute(statement).all()]


def _sweep(connection: Connection, row: Json) -> Record:
    intact(schema.sweeps, row)
    cells, looks = SWEEP.parts["cells"], SWEEP.parts["looks"]
    links = connection.execute(select(*cells.columns).where(cells.table.c.sweep == row["id"]))
    query = select(*looks.columns).where(looks.table.c.space == row["id"]).order_by(looks.table.c.id)
    look_rows = connection.execute(query) if inspect(connection).has_table(looks.table.name) else ()
    return {
        "kind": "sweep",
        **_plain(SWEEP, row),
        "cells": sorted((_plain(cells, link._asdict()) for link in links), key=cells.key_of),
        "looks": [_plain(looks, look._asdict()) for look in look_rows],
    }


def baseline_records(connection: Connection, runs: Collection[Record]) -> list[Record]:
    """Returns the baseline rows for the encoders, corpora and sentence lengths of some runs."""
    setups = {tuple(run["config"].get(name) for name in SETUP) for run in runs}
    entries = sorted((entry for entry in baselines.read(connection) if entry.key[1:] in setups), key=lambda e: e.key)
    return [
        {
            "kind": "baselines",
            **dict(zip(BASELINES.key, entry.key, strict=True)),
            "inputs": dict(entry.inputs),
            "rows": [[name, finite(value)] for name, value in entry.rows.items()],
        }
        for entry in entries
    ]


def untrained_records(connection: Connection) -> list[Record]:
    """Returns the scores of all models that papers print and nobody trains; tables of any sweep may show them."""
    scores = baselines.read_untrained_scores(connection)
    records = [{"kind": "untrained", **_plain(UNTRAINED_SHAPE, score.row())} for score in scores]
    return sorted(records, key=UNTRAINED_SHAPE.key_of)


def _plain(shape: Shape, row: Json) -> Record:
    """Returns a row's columns, with None for numbers that are not finite, which JSON cannot hold."""
    floats = {column.name for column in shape.columns if isinstance(column.type, Float)}
    return {name: finite(row[name]) if name in floats else row[name] for name in shape.names}


def finite(value: Any) -> Any:
    """Returns None for NaN and infinities. A text in a column of numbers passes; the check of records reports it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
