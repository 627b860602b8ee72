"""MTEB: a folder of results, as `mteb run` writes it: MODEL/REVISION/TASK.json beside model_meta.json."""

import json
import statistics
from pathlib import Path

from cse.importers import ForeignRun
from cse_train.fields import ConfigError, Json
from cse_train.reading import reading

SCORE = None
META_FILE = "model_meta.json"
USUAL_SPLIT = "test"
"""The split of a task with several; the others' names stand behind the task's."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """A run for each model and revision, whose metrics are the main scores of its tasks: the mean over a task's
    subsets, in the unit of MTEB, which is mostly a share."""
    if study is not None:
        raise ConfigError([f"no studies: study={study}; MTEB has models, name the folder of one"])
    folder = Path(source).expanduser()
    files = sorted(file for file in folder.rglob("*.json") if file.name != META_FILE) if folder.is_dir() else []
    folders = dict.fromkeys(file.parent for file in files)
    if not folders:
        raise ConfigError([f"no results: source={source} has no TASK.json; name MTEB's folder `results`"])
    runs = [_read_model(place, [file for file in files if file.parent == place]) for place in folders]
    return [run for run in runs if run.metrics]


def _read_model(folder: Path, files: list[Path]) -> ForeignRun:
    metrics: dict[str, float] = {}
    for file in files:
        with reading("unreadable result", f"file={file}", "take it away, or have the task scored again"):
            metrics |= _read_task(json.loads(file.read_text(encoding="utf8")))
    meta: Json = {}
    if (folder / META_FILE).is_file():
        with reading("unreadable result", f"file={folder / META_FILE}", "take it away"):
            meta = dict(json.loads((folder / META_FILE).read_text(encoding="utf8")))
    model, revision = str(meta.get("name") or folder.parent.name), str(meta.get("revision") or folder.name)
    return ForeignRun(id=f"{model}@{revision}", settings={"model": model, "revision": revision}, metrics=metrics)


def _read_task(result: Json) -> dict[str, float]:
    """Task, with its split where that is not the usual one -> main score; empty for a file of another kind."""
    if not isinstance(result, dict) or not isinstance(result.get("scores"), dict):
        return {}
    name, means = str(result["task_name"]), {}
    for split, subsets in result["scores"].items():
        values = [float(subset["main_score"]) for subset in subsets]
        if values:
            means[split] = statistics.fmean(values)
    usual = USUAL_SPLIT if USUAL_SPLIT in means else next(iter(means), "")
    return {name if split == usual else f"{name} ({split})": value for split, value in means.items()}
