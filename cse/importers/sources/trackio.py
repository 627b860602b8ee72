"""Trackio: the runs of a project, out of its SQLite file in TRACKIO_DIR; the last value of each metric counts."""

import contextlib
import json
import sqlite3
from datetime import datetime

from cse.importers import ForeignRun
from cse.importers.values import flat, numbers, require_table, sqlite_file
from cse_train.fields import ConfigError
from cse_train.reading import reading

SCORE = None


def read(source: str, study: str | None) -> list[ForeignRun]:
    """Every run that logged a metric; Trackio does not say whether one has ended."""
    if study is not None:
        raise ConfigError([f"no studies: study={study}; Trackio has a file for each project, name it"])
    file = sqlite_file(source)
    if file is None:
        raise ConfigError([f"no such file: source={source}; name PROJECT.db in the folder TRACKIO_DIR"])
    require_table(file, "metrics", "Trackio")
    with (
        reading("no Trackio", f"source={source}", "use the version of Trackio that wrote it"),
        contextlib.closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection,
    ):
        key = "run_id" if "run_id" in _columns(connection, "metrics") else "run_name"
        configs = dict(connection.execute(f"select {key}, config from configs"))
        rows = connection.execute(f"select {key}, timestamp, metrics from metrics order by step, id").fetchall()
        runs: dict[str, tuple[str, dict[str, object]]] = {}
        for run, at, text in rows:
            runs.setdefault(run, (at, {}))[1].update(json.loads(text))
        return [
            ForeignRun(
                id=run,
                settings=flat(json.loads(configs.get(run) or "{}")),
                metrics=numbers(metrics),
                begun=datetime.fromisoformat(at).timestamp(),
            )
            for run, (at, metrics) in runs.items()
        ]


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"pragma table_info({table})")]
