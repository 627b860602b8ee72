"""Reads the runs of a Trackio project from its SQLite file; the last value of each metric counts.

Values that a run logged before it went back to an earlier step are left out, from that step on.
"""

import contextlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime

from cse.importers import ForeignRun
from cse.importers.values import flat, numbers, require_table, sqlite_file
from cse_train.fields import ConfigError, Json, Scalar
from cse_train.reading import reading

SCORE = None
GROUP = "_Group"
Logged = tuple[int, dict[str, float]]
"""A step of a Trackio run, and the metrics logged at that step."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """Returns every run that logged a metric; Trackio does not record whether a run has ended.

    Raises ConfigError for a file that is no Trackio database.
    """
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
        columns = f"{key}, run_name, timestamp, step, metrics"
        rows = connection.execute(f"select {columns} from metrics order by id").fetchall()
        runs: dict[str, tuple[str, str, list[Logged]]] = {}
        for run, name, at, step, text in rows:
            runs.setdefault(run, (name, at, []))[2].append((step, numbers(json.loads(text))))
        remarks = [
            f"steps logged again: {name}; what it logged before from there on is left out" for name in _restarted(runs)
        ]
        return [
            ForeignRun(
                id=run,
                settings=_settings(json.loads(configs.get(run) or "{}")),
                metrics={name: value for _, values in _drop_abandoned(logged) for name, value in values.items()},
                rest={} if name == run else {"name": name},
                begun=datetime.fromisoformat(at).timestamp(),
                remarks=remarks,
            )
            for run, (name, at, logged) in runs.items()
        ]


def _settings(config: Json) -> dict[str, Scalar]:
    """Returns the configuration as settings, with the group that Trackio stores in it."""
    group = config.get(GROUP)
    return {**({"group": str(group)} if group else {}), **flat(config)}


def _restarted(runs: Mapping[str, tuple[str, str, list[Logged]]]) -> list[str]:
    return [name for name, _, logged in runs.values() if len(_drop_abandoned(logged)) < len(logged)]


def _drop_abandoned(logged: Sequence[Logged]) -> list[Logged]:
    """Returns a run's logged values in order of steps, without values from before it went back to an earlier step.

    A run went back if a metric appears at an earlier step than before; another metric at an earlier step, such as a
    test score of step 0 at the end, is no restart.
    """
    entries: list[Logged] = []
    newest: dict[str, int] = {}  # metric -> its last step
    for step, values in logged:
        if any(newest.get(name, step) > step for name in values):
            entries = [each for each in entries if each[0] < step]
            newest = {name: earlier_step for earlier_step, others in entries for name in others}
        entries.append((step, values))
        newest |= dict.fromkeys(values, step)
    return sorted(entries, key=lambda each: each[0])


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"pragma table_info({table})")]
