"""Reads Weights & Biases runs: a folder of offline runs, an exported .csv or .json, or `ENTITY/PROJECT` online."""

import ast
import hashlib
import json
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cse.importers import ForeignRun
from cse.importers.sources import package
from cse.importers.sources.csv import read_flat, read_rows
from cse.importers.values import flat, numbers, scalar
from cse_train.fields import ConfigError, Json, Scalar
from cse_train.reading import reading

SCORE = None
WANDB_FINISHED = "finished"
FACTS = ("id", "name", "state", "created", "created_at", "createdat")
"""Columns, in lower case, that identify a run, or tell how it ended."""
TEXTS = tuple("displayname display_name notes tags user username sweep sweepname url path".split())
"""Columns, in lower case, of texts that the user or W&B wrote about a run."""
CONFIGS, SUMMARIES = ("config",), ("summary", "summarymetrics", "summary_metrics")
"""Columns, in lower case, of a run's settings, and of the last value of each metric."""
RUN_GROUPS = {"group": "group", "run_group": "group", "job_type": "job_type", "jobtype": "job_type"}
"""W&B's field for groups of runs -> setting; groups may distinguish configurations with equal settings."""
VALUE_AND_DESCRIPTION = frozenset(("value", "desc"))
"""Keys of a setting as W&B stores it, with its description."""
NOT_FINITE = re.compile(r"(?<=[:\[,( ])-?(?:nan|inf)(?=[,\]})])")
"""Pattern of NaN and infinity in the text of a Python dictionary."""
OfflineRun = dict[str, Any]
"""ID, configuration, last summary and exit code of an offline W&B run, as one of its files holds them."""
MAGIC = b":W&B"
BEFORE = 7
"""Bytes before the first piece; they count as part of the first block."""
LOG_BLOCK = 32 * 1024
PIECE_HEADER = struct.Struct("<IHB")
"""Layout of a piece's header: checksum, length of the data, type."""
WHOLE_PIECE, FIRST_PIECE, MIDDLE_PIECE, LAST_PIECE = 1, 2, 3, 4


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
    runs: dict[str, OfflineRun] = {}
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
        replace(
            _make_run(run["config"], run["summary"], run["groups"], run["about"]),
            id=name,
            unfinished={0: "", None: "running"}.get(run["code"], "crashed"),
            begun=run["begun"],
        )
        for name, run in runs.items()
    ]


def _offline_run(parsed: Iterator[Any]) -> OfflineRun:
    """Returns ID, configuration, last summary and exit code (None if it did not end) of one file; {} without a run."""
    run: OfflineRun = {}
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


def records(file: Path) -> Iterator[bytes]:
    """Yields each complete record of a `.wandb` file; a cut-off end, as in a file still being written, is left out.

    The format is LevelDB's log (github.com/google/leveldb, doc/log_format.md): blocks of 32 KiB, and within them pieces
    of a header (checksum, length, type) and data, after seven bytes of W&B's own. wandb 0.31 has no reader of it in
    Python. Checksums are not compared: a damaged record fails when it is parsed. Raises ValueError for a file that does
    not begin as W&B's files do.
    """
    data = file.read_bytes()
    if not data.startswith(MAGIC):
        raise ValueError("it does not begin as W&B's files do")
    place, pieces = BEFORE, b""
    while place + PIECE_HEADER.size <= len(data):
        # A block without room for another header ends in padding.
        if (left := LOG_BLOCK - place % LOG_BLOCK) < PIECE_HEADER.size:
            place += left
            continue
        _, length, kind = PIECE_HEADER.unpack_from(data, place)
        place += PIECE_HEADER.size
        piece = data[place : place + length]
        if len(piece) < length or kind not in (WHOLE_PIECE, FIRST_PIECE, MIDDLE_PIECE, LAST_PIECE):
            return
        place += length
        pieces = piece if kind in (WHOLE_PIECE, FIRST_PIECE) else pieces + piece
        if kind in (WHOLE_PIECE, LAST_PIECE):
            yield pieces


def _values(items: Any) -> Json:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def _read_table(rows: Sequence[tuple[int, Json]]) -> list[ForeignRun]:
    """Returns the runs of a table; a row without an ID is identified by its name and time of creation, if unique.

    Other rows have no ID, and are recognised by their values. Every run also has the ID that an earlier version of
    cse-search gave it: the hash of its row.
    """
    facts = [{name.lower(): value for name, value in row.items()} for _, row in rows]
    row_names = [_name_run(each) for each in facts]
    counts = Counter(row_names)
    about = [_rest({name: value for name, value in row.items() if name.lower() in ("name", *TEXTS)}) for _, row in rows]
    parts = [(_find(each, CONFIGS), _find(each, SUMMARIES)) for each in facts]
    if rows and all(config is not None and summary is not None for config, summary in parts):
        groups = [
            {RUN_GROUPS[name]: scalar(value) for name, value in each.items() if name in RUN_GROUPS and value}
            for each in facts
        ]
        runs = [
            _make_run(_mapping(config), _mapping(summary), run_groups, texts)
            for (config, summary), run_groups, texts in zip(parts, groups, about, strict=True)
        ]
    else:
        names = dict.fromkeys(name for _, row in rows for name in row)
        columns = [name for name in names if name.lower() not in (*FACTS, *TEXTS)]
        table = read_flat([(number, {name: row.get(name) for name in names}) for number, row in rows], columns, None)
        runs = [replace(run, rest={**texts, **run.rest}) for run, texts in zip(table, about, strict=True)]
    identified = []
    for run, (number, row), each, name in zip(runs, rows, facts, row_names, strict=True):
        is_unnamed = name == NAMELESS or (counts[name] > 1 and not each.get("id"))
        text, state = json.dumps(row, sort_keys=True, default=str), str(each.get("state") or WANDB_FINISHED).lower()
        identified.append(
            replace(
                run,
                id="" if is_unnamed else name,
                earlier_id="" if each.get("id") else hashlib.sha256(text.encode()).hexdigest(),
                unfinished="" if state == WANDB_FINISHED else state,
                row=number,
            )
        )
    return identified


NAMELESS = json.dumps([None, None])


def _name_run(facts: Json) -> str:
    created = (str(facts[name]) for name in ("created", "created_at", "createdat") if facts.get(name))
    return str(facts.get("id") or json.dumps([facts.get("name") or None, next(created, None)]))


def _find(facts: Json, names: Sequence[str]) -> Any:
    return next((value for name, value in facts.items() if name in names and value is not None), None)


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
    groups = {name: text for name in ("group", "job_type") if (text := scalar(getattr(run, name, None)))}
    about = {name: text for name in ("name", "tags") if (text := getattr(run, name, None))}
    made = _make_run(dict(run.config), dict(run.summary_metrics), groups, about)
    return replace(made, id="/".join(run.path), unfinished="" if run.state == WANDB_FINISHED else str(run.state))


def _make_run(config: Json, summary: Json, groups: Mapping[str, Scalar], about: Json) -> ForeignRun:
    """Returns a finished run without an ID, with its settings by dotted key.

    A setting that W&B stores with its description, `{"value": 1, "desc": null}`, is its value; the settings that an
    earlier version of cse-search made of it are superseded.
    """
    settings = flat(
        {
            name: value["value"]
            if isinstance(value, Mapping) and "value" in value and VALUE_AND_DESCRIPTION.issuperset(value)
            else value
            for name, value in config.items()
        }
    )
    return ForeignRun(
        id="",
        settings={**groups, **settings},
        metrics=numbers(summary),
        rest={**_rest(about), **_rest(summary)},
        superseded=frozenset(flat(config)) - frozenset(settings),
    )


def _rest(values: Json) -> dict[str, Scalar]:
    """Returns the values that are no numbers, by dotted key."""
    return {name: value for name, value in flat(values).items() if value is not None and name not in numbers(values)}
