"""Reads Weights & Biases runs: a folder of offline runs, an exported .csv or .json, or `ENTITY/PROJECT` online."""

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cse.importers import ForeignRun
from cse.importers.sources import package
from cse.importers.sources.csv import read_flat
from cse.importers.tables import read_rows
from cse.importers.values import flat, numbers, scalar
from cse.importers.wandb_log import records
from cse_train.fields import ConfigError, Json, Scalar
from cse_train.reading import reading

SCORE = None
WANDB_FINISHED = "finished"
FACTS = ("id", "name", "state", "created", "created_at", "createdat")
"""Columns, in lower case, that identify a run, or tell how it ended."""
TEXTS = (
    "displayname",
    "display_name",
    "notes",
    "tags",
    "user",
    "username",
    "sweep",
    "sweepname",
    "url",
    "path",
)
"""Columns, in lower case, of texts that the user or W&B wrote about a run."""
CONFIGS, SUMMARIES = ("config",), ("summary", "summarymetrics", "summary_metrics")
"""Columns, in lower case, of a run's settings, and of the last value of each metric."""
RUN_GROUPS = {"group": "group", "run_group": "group", "job_type": "job_type", "jobtype": "job_type"}
"""W&B's field for groups of runs -> setting; groups may distinguish configurations with equal settings."""
VALUE_AND_DESCRIPTION = frozenset(("value", "desc"))
"""Keys of a setting as W&B stores it, with its description."""
NOT_FINITE = re.compile(r"(?<=[:\[,( ])-?(?:nan|inf)(?=[,\]})])")
"""Pattern of NaN and infinity in the text of a Python dictionary."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """Returns every run at the source; a table has a column for each value, or the columns `config` and `summary`.

    Raises ConfigError for a source that is neither a file, a folder nor a project.
    """
    if study is not None:
        raise ConfigError([f"no studies: study={study}; W&B has projects, name one as ENTITY/PROJECT"])
    path = Path(source).expanduser()
    if path.is_dir():
        return _offline(path)
    if path.is_file():
        remedy = "export it again: .csv with a header, or .json with a list of runs"
        with reading("unreadable table", f"source={path}", remedy):
            return _read_table(read_rows(path))
    if path.suffix or source.count("/") != 1:
        raise ConfigError(
            [f"no such file: source={source}; name a folder of offline runs, a .csv, a .json or ENTITY/PROJECT"]
        )
    with reading("no project", f"source={source}", "give wandb login, or name a file that you exported"):
        return [_read_api_run(run) for run in package("wandb").Api().runs(source)]


def _offline(folder: Path) -> list[ForeignRun]:
    """Returns the runs in a folder of offline runs; of a resumed run, which has several folders, later values win."""
    # Oldest first, so that a resumed run's later values win below.
    files = sorted(folder.rglob("*.wandb"), key=lambda file: file.stat().st_mtime)
    if not files:
        raise ConfigError([f"no runs: source={folder} has no file *.wandb; name the folder `wandb` of offline runs"])
    parse = package("wandb.proto.wandb_internal_pb2").Record.FromString
    runs: dict[str, Json] = {}
    for file in files:
        with reading("unreadable run", f"file={file}", "take it away, or have it synced again"):
            run_values = _offline_run(map(parse, records(file)))
        if run_values:
            earlier = runs.setdefault(run_values["id"], {"config": {}, "summary": {}})
            runs[run_values["id"]] = {
                **run_values,
                **{part: earlier[part] | run_values[part] for part in ("config", "summary")},
            }
    return [
        ForeignRun(
            id=name,
            unfinished={0: "", None: "running"}.get(run["code"], "crashed"),
            settings={**run["groups"], **_settings(run["config"])},
            metrics=numbers(run["summary"]),
            rest={**_rest(run["about"]), **_rest(run["summary"])},
            begun=run["begun"],
            superseded=_superseded(run["config"]),
        )
        for name, run in runs.items()
    ]


def _offline_run(parsed: Iterator[Any]) -> Json:
    """Returns ID, configuration, last summary and exit code (None if it did not end) of one file; {} without a run."""
    run: dict[str, Any] = {}
    for record in parsed:
        kind = record.WhichOneof("record_type")
        if kind == "run" and not run:
            about = record.run
            begun = about.start_time.seconds or None
            run = {"id": f"{about.project}/{about.run_id}", "begun": begun, "config": {}, "summary": {}, "code": None}
            groups = {"group": about.run_group, "job_type": about.job_type}
            run["groups"] = {name: text for name, text in groups.items() if text}
            run["about"] = {"name": about.display_name, "tags": ", ".join(about.tags), "notes": about.notes}
        if run and kind in ("run", "config"):
            update = record.run.config.update if kind == "run" else record.config.update
            run["config"] |= _values(update)
        elif run and kind in ("history", "summary"):
            run["summary"] |= _values(record.history.item if kind == "history" else record.summary.update)
        elif run and kind == "exit":
            run["code"] = record.exit.exit_code
    return run


def _values(items: Any) -> Json:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def _read_table(rows: Sequence[tuple[int, Json]]) -> list[ForeignRun]:
    """Returns the runs of a table; a row without an ID is identified by its name and time of creation, if unique.

    Other rows have no ID, and are recognised by their values.
    """
    row_names = [_name_run(row) for _, row in rows]
    counts = Counter(row_names)
    ids = [
        "" if (counts[name] > 1 and not _facts(row).get("id")) or name == NAMELESS else name
        for (_, row), name in zip(rows, row_names, strict=True)
    ]
    nested = [row for _, row in rows if _find(row, CONFIGS) is not None and _find(row, SUMMARIES) is not None]
    if nested and len(nested) == len(rows):
        return [_read_nested(row, number, id) for (number, row), id in zip(rows, ids, strict=True)]
    names = dict.fromkeys(name for _, row in rows for name in row)
    columns = [name for name in names if name.lower() not in (*FACTS, *TEXTS)]
    filled = [(number, {name: row.get(name) for name in names}) for number, row in rows]
    return [
        _add_state(replace(run, id=id, rest={**_about(row), **run.rest}), row)
        for run, (_, row), id in zip(read_flat(filled, columns, None), rows, ids, strict=True)
    ]


NAMELESS = json.dumps([None, None])


def _name_run(row: Json) -> str:
    facts = _facts(row)
    created = (str(facts[name]) for name in ("created", "created_at", "createdat") if facts.get(name))
    return str(facts.get("id") or json.dumps([facts.get("name") or None, next(created, None)]))


def _read_nested(row: Json, number: int, id: str) -> ForeignRun:
    config, summary = (_mapping(_find(row, names)) for names in (CONFIGS, SUMMARIES))
    groups = {RUN_GROUPS[name]: scalar(value) for name, value in _facts(row).items() if name in RUN_GROUPS and value}
    run = ForeignRun(
        id=id,
        settings={**groups, **_settings(config)},
        metrics=numbers(summary),
        rest={**_about(row), **_rest(summary)},
        row=number,
        superseded=_superseded(config),
    )
    return _add_state(run, row)


def _settings(config: Json) -> dict[str, Scalar]:
    """Returns settings by dotted key; `{"value": 1, "desc": null}` becomes 1."""
    return flat({name: value["value"] if _is_wrapped(value) else value for name, value in config.items()})


def _is_wrapped(value: object) -> bool:
    return isinstance(value, Mapping) and "value" in value and VALUE_AND_DESCRIPTION.issuperset(value)


def _superseded(config: Json) -> frozenset[str]:
    """Returns the settings that an earlier version of cse-search made of W&B's settings with a description."""
    return frozenset(flat(config)) - frozenset(_settings(config))


def _find(row: Json, names: Sequence[str]) -> Any:
    return next((value for name, value in _facts(row).items() if name in names and value is not None), None)


def _about(row: Json) -> dict[str, Scalar]:
    """Returns the texts that a user wrote about the run: its name, notes and tags."""
    texts = {name: value for name, value in row.items() if name.lower() in ("name", *TEXTS)}
    return _rest(texts)


def _add_state(run: ForeignRun, row: Json) -> ForeignRun:
    """Returns the run with its state, and with the ID that an earlier version of cse-search gave it."""
    facts = _facts(row)
    text = json.dumps(row, sort_keys=True, default=str)
    state = str(facts.get("state") or WANDB_FINISHED).lower()
    earlier_id = "" if facts.get("id") else hashlib.sha256(text.encode()).hexdigest()
    return replace(run, earlier_id=earlier_id, unfinished="" if state == WANDB_FINISHED else state)


def _facts(row: Json) -> Json:
    return {str(name).lower(): value for name, value in row.items()}


def _rest(values: Json) -> dict[str, Scalar]:
    """Returns the values that are no numbers, by dotted key."""
    return {name: value for name, value in flat(values).items() if value is not None and name not in numbers(values)}


def _mapping(value: Any) -> Json:
    """Parses a dictionary, or its text as JSON or Python. Raises ValueError for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = ast.literal_eval(NOT_FINITE.sub("None", value))
    if not isinstance(value, Mapping):
        raise ValueError("config or summary is no dictionary")
    return value


def _read_api_run(run: Any) -> ForeignRun:
    summary, config = dict(run.summary_metrics), dict(run.config)
    about = {name: getattr(run, name, None) for name in ("name", "group", "job_type", "tags")}
    groups = {name: scalar(about.pop(name)) for name in ("group", "job_type")}
    return ForeignRun(
        id="/".join(run.path),
        unfinished="" if run.state == WANDB_FINISHED else str(run.state),
        settings={**{name: text for name, text in groups.items() if text}, **_settings(config)},
        metrics=numbers(summary),
        rest={**_rest({name: value for name, value in about.items() if value}), **_rest(summary)},
        superseded=_superseded(config),
    )
