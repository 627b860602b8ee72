"""Weights & Biases: a folder of offline runs, an exported .csv or .json, or `ENTITY/PROJECT` over the network."""

import ast
import csv
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cse.foreign import ForeignRun
from cse.foreign.sources import package
from cse.foreign.values import flat, numbers
from cse.foreign.wandb_log import records
from cse_train.fields import ConfigError
from cse_train.reading import reading

SCORE = None
FINISHED = "finished"
OURS = ("method", "train.", "method.")
"""How the names of settings begin; in a flat table every other column with numbers is a metric."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """Runs that ended in order. A table is W&B's export (a column for each value), or has `config` and `summary`."""
    path = Path(source).expanduser()
    if path.is_dir():
        return _offline(path)
    if path.is_file():
        remedy = "export it again: .csv with a header, or .json with a list of runs"
        with reading("unreadable table", f"source={path}", remedy):
            return [run for row in _rows(path) if (run := _from_row(row)) is not None]
    if path.suffix or source.count("/") != 1:
        raise ConfigError(
            [f"no such file: source={source}; name a folder of offline runs, a .csv, a .json or ENTITY/PROJECT"]
        )
    with reading("no project", f"source={source}", "give wandb login, or name a file that you exported"):
        return [_from_api(run) for run in package("wandb").Api().runs(source) if run.state == FINISHED]


def _offline(folder: Path) -> list[ForeignRun]:
    """A run that was resumed lies in several folders: the later one's values count."""
    files = sorted(folder.rglob("*.wandb"), key=lambda file: file.stat().st_mtime)
    if not files:
        raise ConfigError([f"no runs: source={folder} has no file *.wandb; name the folder `wandb` of offline runs"])
    parse = package("wandb.proto.wandb_internal_pb2").Record.FromString
    runs: dict[str, dict[str, Any]] = {}
    for file in files:
        with reading("unreadable run", f"file={file}", "take it away, or have it synced again"):
            seen = _offline_run(map(parse, records(file)))
        if seen:
            before = runs.setdefault(seen["id"], {"config": {}, "summary": {}})
            runs[seen["id"]] = seen | {part: before[part] | seen[part] for part in ("config", "summary")}
    return [
        ForeignRun(id=name, settings=flat(run["config"]), metrics=numbers(run["summary"]), begun=run["begun"])
        for name, run in runs.items()
        if run["code"] == 0
    ]


def _offline_run(parsed: Iterator[Any]) -> dict[str, Any]:
    """ID, configuration, last summary and exit code (None: it did not end) of one file; empty without a run."""
    run: dict[str, Any] = {}
    for record in parsed:
        kind = record.WhichOneof("record_type")
        if kind == "run" and not run:
            about = record.run
            begun = about.start_time.seconds or None
            run = {"id": f"{about.project}/{about.run_id}", "begun": begun, "config": {}, "summary": {}, "code": None}
        if run and kind in ("run", "config"):
            update = record.run.config.update if kind == "run" else record.config.update
            run["config"] |= _values(update)
        elif run and kind in ("history", "summary"):
            run["summary"] |= _values(record.history.item if kind == "history" else record.summary.update)
        elif run and kind == "exit":
            run["code"] = record.exit.exit_code
    return run


def _values(items: Any) -> dict[str, Any]:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def _rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".json":
        rows = json.loads(path.read_text(encoding="utf8"))
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("it is no list of runs")
        return rows
    with path.open(encoding="utf8", newline="") as file:
        return list(csv.DictReader(file))


def _from_row(row: Mapping[str, Any]) -> ForeignRun | None:
    """A run of a table; None for one that did not finish."""
    facts = {str(name).lower(): value for name, value in row.items()}
    if str(facts.get("state") or FINISHED).lower() != FINISHED:
        return None
    text = json.dumps(row, sort_keys=True, default=str)
    name = str(facts.get("id") or hashlib.sha256(text.encode()).hexdigest())
    if "config" in facts and "summary" in facts:
        return ForeignRun(
            id=name, settings=flat(_mapping(facts["config"])), metrics=numbers(_mapping(facts["summary"]))
        )
    settings = {name: value for name, value in row.items() if name and name.startswith(OURS)}
    metrics = {name: value for name, value in row.items() if name and name not in settings}
    return ForeignRun(id=name, settings=flat(settings), metrics=numbers(metrics))


def _mapping(value: Any) -> Mapping[str, Any]:
    """A dictionary, or its text as JSON or as Python writes it."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = ast.literal_eval(value)
    if not isinstance(value, Mapping):
        raise ValueError("config or summary is no dictionary")
    return value


def _from_api(run: Any) -> ForeignRun:
    return ForeignRun(id="/".join(run.path), settings=flat(dict(run.config)), metrics=numbers(run.summary_metrics))
