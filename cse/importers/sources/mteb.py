"""MTEB: a folder of results, as `mteb run` writes it: MODEL/REVISION/TASK.json beside model_meta.json."""

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
"""The folder in which MTEB keeps a model's results with other arguments, such as a shorter length."""
USUAL_SPLIT = "test"
"""The split of a task with several; the others' names stand behind the task's."""
USUAL_SUBSET = "default"
OLD_MAIN_SCORES = (
    ("main_score",),
    ("cos_sim", "spearman"),
    ("cos_sim", "ap"),
    ("ndcg_at_10",),
    ("v_measure",),
    ("map",),
    ("f1",),
    ("accuracy",),
)
"""Where files of MTEB before 1.12, which name no main score, have it: the first that a file has."""
OLD_FACTS = ("dataset_revision", "mteb_dataset_name", "mteb_version")
COMPARED_FACTS = ("dataset_revision", "mteb_version")
"""What results of one task must have in common to be one measure."""
NAMES_IN_LINE = 4

Subsets = dict[str, float]


@dataclass
class ScoredModel:
    """The results of a model's folder."""

    id: str
    name: str
    settings: dict[str, Scalar]
    tasks: dict[str, dict[str, Subsets]] = field(default_factory=dict)
    """Task -> split -> subset -> main score."""
    facts: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Task -> what its file says of data and version."""

    @property
    def has_seed(self) -> bool:
        return SEED_KEY in self.settings


def read(source: str, study: str | None) -> list[ForeignRun]:
    """A run for each model and revision, whose metrics are the main scores of its tasks, in the unit of MTEB, which is
    mostly a share: the mean over those subsets that all models have, and each subset by itself. The model's name may
    say a seed."""
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
    pairs = {(str(model.settings["model"]), model.settings["revision"]) for model in models if not model.has_seed}
    several = sorted(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
    if several:
        shown = some(several, NAMES_IN_LINE)
        remarks[f"several revisions of {shown}; --seed revision takes their numbers for seeds"] = None
    shared = _share_subsets(models, remarks)
    _compare_facts(models, remarks)
    return [
        ForeignRun(
            id=model.id,
            settings={**model.settings, **_list_subsets(model, shared)},
            metrics=_measure(model, shared),
            remarks=list(remarks),
        )
        for model in models
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
    made = ScoredModel(id, name, settings)
    unread = []
    for file in files:
        with reading("unreadable result", f"file={file}", "take it away, or have the task scored again"):
            result = json.loads(file.read_text(encoding="utf8"))
            task, splits, chosen = _read_task(result, file.stem)
        if splits:
            made.tasks[task] = splits
            made.facts[task] = {fact: str(result[fact]) for fact in COMPARED_FACTS if result.get(fact)}
        else:
            unread.append(file.name)
        if chosen:
            remarks[f"old results: {chosen} is taken for the main score of {task}"] = None
    if unread:
        remarks[f"left out: files without a score of a task: {some(unread, NAMES_IN_LINE)} of {name}"] = None
    return made


def _read_task(result: Any, stem: str) -> tuple[str, dict[str, Subsets], str]:
    """A task, its scores by split and subset, and the score of an old file that counts as the main one."""
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
        by_subset = {USUAL_SUBSET: scores} if _find_main(scores) else scores
        for subset, of_subset in by_subset.items():
            if isinstance(of_subset, dict) and (path := _find_main(of_subset)):
                splits.setdefault(split, {})[str(subset)] = float(_follow(of_subset, path))
                chosen = ".".join(path) if path != OLD_MAIN_SCORES[0] else chosen
    return str(result.get("mteb_dataset_name") or stem), splits, chosen


def _find_main(scores: Json) -> tuple[str, ...]:
    return next((path for path in OLD_MAIN_SCORES if isinstance(_follow(scores, path), int | float)), ())


def _follow(scores: Any, path: Sequence[str]) -> Any:
    for name in path:
        scores = scores.get(name) if isinstance(scores, dict) else None
    return scores


Shared = Mapping[tuple[str, str], Sequence[str]]
"""Task and split -> the subsets that all models with this split have; where they share none, nothing."""


def _usual_split(task: str, shared: Shared) -> str:
    """The split that a task's name means: `test` where any model has it, else the first."""
    splits = [split for each, split in shared if each == task]
    return USUAL_SPLIT if USUAL_SPLIT in splits else splits[0]


def _share_subsets(models: Sequence[ScoredModel], remarks: dict[str, None]) -> Shared:
    """The subsets over which means are taken; the others are named."""
    having: dict[tuple[str, str], list[Subsets]] = defaultdict(list)
    for model in models:
        for task, splits in model.tasks.items():
            for split, subsets in splits.items():
                having[task, split].append(subsets)
    shared = {}
    for (task, split), each in having.items():
        every = dict.fromkeys(name for subsets in each for name in subsets)
        shared[task, split] = [name for name in every if all(name in subsets for subsets in each)]
        lacking = [name for name in every if name not in shared[task, split]]
        if lacking:
            over = (
                f"its mean is over {some(shared[task, split], NAMES_IN_LINE)}"
                if shared[task, split]
                else "it has no mean"
            )
            line = f"not all models have {some(lacking, NAMES_IN_LINE)} of {task} ({split}): {over}"
            remarks[f"{line}; each subset is a metric, such as {_name_subset(task, lacking[0])}"] = None
    return shared


def _compare_facts(models: Sequence[ScoredModel], remarks: dict[str, None]) -> None:
    """A line for each fact in which the results of one task differ."""
    values: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for model in models:
        for task, facts in model.facts.items():
            for fact, value in facts.items():
                values[fact, task][value] = None
    for fact in COMPARED_FACTS:
        tasks = [task for (each, task), given in values.items() if each == fact and len(given) > 1]
        if tasks:
            given = some(list(values[fact, tasks[0]]), NAMES_IN_LINE)
            remarks[
                f"models differ in {fact} of {some(tasks, NAMES_IN_LINE)} ({given}): the numbers may not compare"
            ] = None
    every = {task for model in models for task in model.tasks}
    for model in models:
        if lacking := sorted(every - set(model.tasks)):
            remarks[f"{model.name} lacks {some(lacking, NAMES_IN_LINE)}"] = None


def _name_subset(task: str, subset: str) -> str:
    return f"{task} [{subset}]"


def _list_subsets(model: ScoredModel, shared: Shared) -> dict[str, Scalar]:
    """Over what a task's mean is taken: another import into the sweep may have others, and is then another cell."""
    made: dict[str, Scalar] = {}
    for task, splits in model.tasks.items():
        names = shared[task, split] if (split := _usual_split(task, shared)) in splits else ()
        if names and list(splits[split]) != [USUAL_SUBSET]:
            made[f"subsets of {task}"] = ", ".join(sorted(names))
    return made


def _measure(model: ScoredModel, shared: Shared) -> dict[str, float]:
    """Task, with its split where that is not the usual one -> mean of the shared subsets; and each of several."""
    made: dict[str, float] = {}
    for task, splits in model.tasks.items():
        for split, subsets in splits.items():
            name = task if split == _usual_split(task, shared) else f"{task} ({split})"
            if values := [subsets[each] for each in shared[task, split]]:
                made[name] = statistics.fmean(values)
            if len(subsets) > 1 or not values:
                made |= {_name_subset(name, subset): value for subset, value in subsets.items()}
    return made
