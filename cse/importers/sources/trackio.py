"""Reads the runs of a Trackio project from its SQLite file; the last value of each metric counts.

Values that a run logged before it went back to an earlier step are left out, from that step on.
"""

import contextlib
import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from cse.importers import ForeignRun
from cse.importers.values import flat, numbers, require_table, sqlite_file
from cse_train.fields import ConfigError
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
        connection.row_factory = sqlite3.Row
        table = connection.execute("select * from metrics order by id")
        columns = [column[0] for column in table.description]
        key = "run_id" if "run_id" in columns else "run_name"  # older versions have no IDs
        configs = dict(tuple(row) for row in connection.execute(f"select {key}, config from configs"))
        by_run: dict[str, list[sqlite3.Row]] = {}
        for row in table:
            by_run.setdefault(row[key], []).append(row)
        runs, remarks = list[ForeignRun](), list[str]()
        for id, rows in by_run.items():
            logged = [(row["step"], numbers(json.loads(row["metrics"]))) for row in rows]
            if len(steps := _drop_abandoned(logged)) < len(logged):
                again = f"steps logged again: {rows[0]['run_name']}"
                remarks.append(f"{again}; what it logged before from there on is left out")
            config = json.loads(configs.get(id) or "{}")
            group = {"group": str(config[GROUP])} if config.get(GROUP) else {}
            runs.append(
                ForeignRun(
                    id=id,
                    settings={**group, **flat(config)},
                    metrics={name: value for _, values in steps for name, value in values.items()},
                    rest={} if rows[0]["run_name"] == id else {"name": rows[0]["run_name"]},
                    begun=datetime.fromisoformat(rows[0]["timestamp"]).timestamp(),
                    remarks=remarks,
                )
            )
        return runs


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
