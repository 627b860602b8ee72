"""Trackio: the runs of a project, out of its SQLite file in TRACKIO_DIR; the last value of each metric counts, and
of a run that went back to an earlier step those that it logged before from there on do not."""

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
"""A step, and what was logged at it."""


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
    """The configuration, with the group that Trackio keeps in it."""
    group = config.get(GROUP)
    return {**({"group": str(group)} if group else {}), **flat(config)}


def _restarted(runs: Mapping[str, tuple[str, str, list[Logged]]]) -> list[str]:
    return [name for name, _, logged in runs.values() if len(_drop_abandoned(logged)) < len(logged)]


def _drop_abandoned(logged: Sequence[Logged]) -> list[Logged]:
    """What a run logged, in the order of its steps, without what it logged before it went back to an earlier one.

    It went back where a metric comes again at an earlier step than before; another metric at an earlier step, such as a
    test score of step 0 at the end, is no restart.
    """
    kept: list[Logged] = []
    newest: dict[str, int] = {}  # metric -> its last step
    for step, values in logged:
        if any(newest.get(name, step) > step for name in values):
            kept = [each for each in kept if each[0] < step]
            newest = {name: before for before, others in kept for name in others}
        kept.append((step, values))
        newest |= dict.fromkeys(values, step)
    return sorted(kept, key=lambda each: each[0])


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"pragma table_info({table})")]
