"""Reads a folder of MTEB results: MODEL/REVISION/TASK.json beside model_meta.json, as `mteb run` writes it."""

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.tables.labels import some
from cse.importers import ForeignRun
from cse.importers.seeds import SEED_KEY, split_seed
from cse_train.fields import ConfigError, Json, Scalar
from cse_train.reading import reading

SCORE = None
META_FILE = "model_meta.json"
EXPERIMENTS = "experiments"
"""Folder in which MTEB stores a model's results with other arguments, such as a shorter length."""
USUAL_SPLIT = "test"
"""Split that a task's plain name means; other splits are named after the task."""
USUAL_SUBSET = "default"
OLD_MAIN_SCORES = "main_score cos_sim.spearman cos_sim.ap ndcg_at_10 v_measure map f1 accuracy".split()
"""Dotted keys of the main score in files of MTEB before 1.12, which name none; the first that a file has counts."""
OLD_FACTS = ("dataset_revision", "mteb_dataset_name", "mteb_version")
COMPARED_FACTS = ("dataset_revision", "mteb_version")
"""Facts that results of one task must share to be comparable."""
NAMES_IN_LINE = 4

Subsets = dict[str, float]


@dataclass
class ScoredModel:
    """The results in one model's folder."""

    id: str
    name: str
    settings: dict[str, Scalar]
    tasks: dict[str, dict[str, Subsets]] = field(default_factory=dict)
    """Task -> split -> subset -> main score."""
    facts: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Task -> revision of its data, and version of MTEB."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """Returns a run for each model and revision, with its tasks' main scores as metrics.

    Scores are in MTEB's unit, mostly a share from 0 to 1: the mean over the subsets that all models have, and each
    subset by itself. A seed in a model's name is taken as the run's seed. Raises ConfigError for a folder without
    results.
    """
    if study is not None:
        raise ConfigError([f"no studies: study={study}; MTEB has models, name the folder of one"])
    folder = Path(source).expanduser()
    files = sorted(file for file in folder.rglob("*.json") if file.name != META_FILE) if folder.is_dir() else []
    folders = dict.fromkeys(file.parent for file in files)
    if not folders:
        raise ConfigError([f"no results: source={source} has no TASK.json; name MTEB's folder `results`"])
    remarks: dict[str, None] = {}
    read_models = [_read_model(at, [file for file in files if file.parent == at], remarks) for at in folders]
    models = [model for model in read_models if model.tasks]
    seedless = [model.settings for model in models if SEED_KEY not in model.settings]
    pairs = {(str(settings["model"]), settings["revision"]) for settings in seedless}
    several = sorted(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
    if several:
        names_text = some(several, NAMES_IN_LINE)
        remarks[f"several revisions of {names_text}; --seed revision takes their numbers for seeds"] = None
    shared = _share_subsets(models, remarks)
    _compare_facts(models, remarks)
    scores = [(model, *_read_scores(model, shared)) for model in models]
    return [
        ForeignRun(id=model.id, settings={**model.settings, **subsets}, metrics=metrics, remarks=list(remarks))
        for model, subsets, metrics in scores
    ]


def _read_model(folder: Path, files: Sequence[Path], remarks: dict[str, None]) -> ScoredModel:
    meta: Json = {}
    if (folder / META_FILE).is_file():
        with reading("unreadable result", f"file={folder / META_FILE}", "take it away"):
            meta = dict(json.loads((folder / META_FILE).read_text(encoding="utf8")))
    name, revision = str(meta.get("name") or folder.parent.name), str(meta.get("revision") or folder.name)
    model, seed = split_seed(name)
    revised, revised_seed = split_seed(revision) if seed is None else (revision, None)
    seed = revised_seed if seed is None else seed
    settings: dict[str, Scalar] = {"model": model, "revision": revised}
    id = f"{name}@{revision}"
    if seed is not None:
        settings |= {SEED_KEY: seed}
        remarks["seeds are read of the names of models"] = None
    if folder.parent.name == EXPERIMENTS:
        id, settings = f"{id}/{folder.name}", {**settings, "experiment": folder.name}
    scored = ScoredModel(id, name, settings)
    unread = []
    for file in files:
        with reading("unreadable result", f"file={file}", "take it away, or have the task scored again"):
            result = json.loads(file.read_text(encoding="utf8"))
            task, splits, chosen = _read_task(result, file.stem)
        if splits:
            scored.tasks[task] = splits
            scored.facts[task] = {fact: str(result[fact]) for fact in COMPARED_FACTS if result.get(fact)}
        else:
            unread.append(file.name)
        if chosen:
            remarks[f"old results: {chosen} is taken for the main score of {task}"] = None
    if unread:
        remarks[f"left out: files without a score of a task: {some(unread, NAMES_IN_LINE)} of {name}"] = None
    return scored


def _read_task(result: Any, stem: str) -> tuple[str, dict[str, Subsets], str]:
    """Returns a task's name, its scores by split and subset, and the key of the main score chosen in an old file."""
    if not isinstance(result, dict):
        return stem, {}, ""
    if isinstance(result.get("scores"), dict):
        splits: dict[str, Subsets] = {}
        for split, subsets in result["scores"].items():
            for number, subset in enumerate(subsets):
                name = str(subset.get("hf_subset", number))
                splits.setdefault(split, {})[name] = float(subset["main_score"])
        return str(result["task_name"]), splits, ""
    splits, chosen = {}, ""
    for split, scores in result.items():
        if split in OLD_FACTS or not isinstance(scores, dict):
            continue
        for subset, values in ({USUAL_SUBSET: scores} if _find_main(scores) else scores).items():
            if isinstance(values, dict) and (main := _find_main(values)):
                splits.setdefault(split, {})[str(subset)] = main[1]
                chosen = main[0] if main[0] != OLD_MAIN_SCORES[0] else chosen
    return str(result.get("mteb_dataset_name") or stem), splits, chosen


def _find_main(scores: Json) -> tuple[str, float] | None:
    """Returns key and value of the main score in an old file; None where it has none of OLD_MAIN_SCORES."""
    for key in OLD_MAIN_SCORES:
        value: Any = scores
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, int | float):
            return key, float(value)
    return None


Shared = Mapping[tuple[str, str], Sequence[str]]
"""(Task, split) of MTEB -> subsets that all models with this split have; empty where they share none."""


def _share_subsets(models: Sequence[ScoredModel], remarks: dict[str, None]) -> Shared:
    """Returns the subsets over which each task's mean is taken, and adds a remark on the others."""
    occurrences: dict[tuple[str, str], list[Subsets]] = defaultdict(list)
    for model in models:
        for task, splits in model.tasks.items():
            for split, subsets in splits.items():
                occurrences[task, split].append(subsets)
    shared = {}
    for (task, split), each in occurrences.items():
        all_names = dict.fromkeys(name for subsets in each for name in subsets)
        shared[task, split] = [name for name in all_names if all(name in subsets for subsets in each)]
        missing = [name for name in all_names if name not in shared[task, split]]
        if missing:
            over = (
                f"its mean is over {some(shared[task, split], NAMES_IN_LINE)}"
                if shared[task, split]
                else "it has no mean"
            )
            line = f"not all models have {some(missing, NAMES_IN_LINE)} of {task} ({split}): {over}"
            remarks[f"{line}; each subset is a metric, such as {task} [{missing[0]}]"] = None
    return shared


def _compare_facts(models: Sequence[ScoredModel], remarks: dict[str, None]) -> None:
    """Adds a remark for each fact in which results of one task differ, and for tasks that a model lacks."""
    values: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for model in models:
        for task, facts in model.facts.items():
            for fact, value in facts.items():
                values[fact, task][value] = None
    for fact in COMPARED_FACTS:
        tasks = [task for (each, task), distinct in values.items() if each == fact and len(distinct) > 1]
        if tasks:
            distinct = some(list(values[fact, tasks[0]]), NAMES_IN_LINE)
            remarks[
                f"models differ in {fact} of {some(tasks, NAMES_IN_LINE)} ({distinct}): the numbers may not compare"
            ] = None
    all_tasks = {task for model in models for task in model.tasks}
    for model in models:
        if missing := sorted(all_tasks - set(model.tasks)):
            remarks[f"{model.name} lacks {some(missing, NAMES_IN_LINE)}"] = None


def _read_scores(model: ScoredModel, shared: Shared) -> tuple[dict[str, Scalar], dict[str, float]]:
    """Returns the settings and the metrics of a model's results.

    A setting for each task has the subsets of its mean, so that imports with other subsets become other cells. Metrics
    are means over shared subsets, and single subsets where there are several.
    """
    settings: dict[str, Scalar] = {}
    metrics: dict[str, float] = {}
    for task, splits in model.tasks.items():
        all_splits = [split for each, split in shared if each == task]
        # The split that a task's plain name means: `test` where any model has it, else the first.
        usual = USUAL_SPLIT if USUAL_SPLIT in all_splits else all_splits[0]
        for split, subsets in splits.items():
            name, names = task if split == usual else f"{task} ({split})", shared[task, split]
            if names:
                metrics[name] = statistics.fmean(subsets[each] for each in names)
            if len(subsets) > 1 or not names:
                metrics |= {f"{name} [{subset}]": value for subset, value in subsets.items()}
            if split == usual and names and list(subsets) != [USUAL_SUBSET]:
                settings[f"subsets of {task}"] = ", ".join(sorted(names))
    return settings, metrics
