"""Reads runs of Hugging Face's Trainer, also sentence-transformers', from their files `trainer_state.json`."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from analysis.tables.labels import number_of, some
from cse.importers import ForeignRun
from cse.importers.pickled import read_fields
from cse.importers.seeds import SEED_KEY, split_seed
from cse.importers.values import flat, numbers
from cse_train.fields import ConfigError, Json, Scalar
from cse_train.reading import first_line, reading

SCORE = None
STATE_FILE = "trainer_state.json"
ARGUMENTS_FILE = "training_args.bin"
KEPT_SETTINGS = ("train_batch_size", "num_train_epochs", "max_steps", "eval_steps", "trial_params")
"""Keys of the trainer state that are settings; they win over the training arguments."""
EVALUATED = "eval_"
"""Prefix of the names of evaluation metrics."""
NO_SETTINGS = re.compile(
    r"(hub|push_to_hub|log|logging|save|dataloader|ddp|trackio|tpu|do|include|restore)_.*|push_to_hub|report_to|"
    r"run_name|project|output_dir|overwrite_output_dir|disable_tqdm|local_rank|debug|skip_memory_metrics|"
    r"resume_from_checkpoint|no_cuda|use_cpu|device|n_gpu|distributed_state|deepspeed_plugin|seed"
)
"""Pattern of training arguments that are no settings: folders, logging, hardware, and a secret, `hub_token`."""
SIDE_FILES = {"config.json": "model.", "adapter_config.json": "adapter.", "1_Pooling/config.json": "pooling."}
"""File beside a checkpoint -> prefix of the settings in it."""
SIDE_NOISE = frozenset(("transformers_version", "dtype", "torch_dtype", "architectures", "id2label", "label2id"))
CARD = "README.md"
CARD_FACTS = re.compile(r"^(?:- (loss|dataset_size):|(base_model):) *(.+)$", re.MULTILINE)
"""Pattern of the facts at the top of a model card by sentence-transformers."""
FOLDER = "folder"
"""Setting that holds the name of the run's folder, without its seed."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """Returns a run for each output folder of a Trainer.

    Metrics are the evaluation at the best step if the Trainer picked one, else the last. Settings are the training
    arguments, files beside the newest checkpoint, whose log is complete, and the folder's name, which may contain the
    seed.
    """
    if study is not None:
        raise ConfigError([f"no studies: study={study}; name the folder of some runs in place of it"])
    path = Path(source).expanduser()
    files = [path] if path.is_file() else sorted(path.rglob(STATE_FILE))
    if not files:
        raise ConfigError([f"no runs: source={source} has no {STATE_FILE}; name the Trainer's output folder"])
    states: dict[Path, list[tuple[int, Path, Json]]] = {}
    for file in files:
        with reading("unreadable run", f"file={file}", "take it away, or name another folder"):
            state: Json = dict(json.loads(file.read_text(encoding="utf8")))
            steps = int(state["global_step"])
        place = file.resolve().parent
        folder = place.parent if place.name.startswith("checkpoint-") else place
        states.setdefault(folder, []).append((steps, place, state))
    remarks, runs, read_runs = list[str](), list[ForeignRun](), list[tuple[Path, Json, Json]]()
    for folder, of_folder in states.items():
        with reading("unreadable run", f"file={folder / STATE_FILE}", "take it away, or name another folder"):
            # the folder's own state has the last step again, and what was evaluated behind it
            _, place, state = max(of_folder, key=lambda each: (each[0], len(each[2]["log_history"])))
            arguments, beside, unread = _read_beside(place, folder)
            remarks += unread
            twin = next((other for other, *twins in read_runs if twins == [state, arguments]), None)
            if twin is not None:
                remarks.append(f"left out: {folder.name} is a copy of {twin.name}")
                continue
            read_runs.append((folder, state, arguments))
            logs = [each["log_history"] for _, _, each in of_folder]
            if any(log != state["log_history"][: len(log)] for log in logs):
                remarks.append(
                    f"two runs in one folder: the checkpoints of {folder} have logs of several; the newest counts"
                )
            name, seed, remark = _read_name(_relative(folder, path.resolve()), arguments.get("seed"))
            remarks += remark
            if seed is not None and "seed" not in arguments:
                remarks.append("seeds are read of the names of folders")
            settings = {**beside, **_read_arguments(arguments), **({SEED_KEY: seed} if seed is not None else {})}
            runs.append(_read_state(state, {**settings, **({FOLDER: name} if name else {})}, bool(arguments)))
    without_arguments = sum(not arguments for _, _, arguments in read_runs)
    if without_arguments:
        consequence = "their seeds and settings are known by names of folders and logged learning rates alone"
        remarks.append(f"no {ARGUMENTS_FILE} beside {number_of(without_arguments, 'run')}: {consequence}")
    early = [
        folder.name
        for folder, state, _ in read_runs
        if 0 < int(state["global_step"]) < int(state.get("max_steps") or 0)
    ]
    if early:
        remarks.append(
            f"ended before max_steps: {some(early, 4)}; stopped early or cut off, the last evaluation counts"
        )
    names = {run.settings.get(FOLDER) for run in runs}
    if len(runs) > 1 and len(names) == len(runs):
        examples = some(sorted(map(str, names)), 3)
        remarks.append(
            f"each folder is a configuration: {examples}; --seed {FOLDER} takes its number, --drop {FOLDER} pools them"
        )
    return [ForeignRun(**{**vars(run), "remarks": remarks}) for run in runs]


def _relative(folder: Path, root: Path) -> str:
    """Returns the run's folder relative to the source, which may be that folder or lie within it."""
    is_below = folder != root and folder.is_relative_to(root)
    return folder.relative_to(root).as_posix() if is_below else folder.name


def _read_name(name: str, seed: object) -> tuple[str, int | None, list[str]]:
    """Returns a folder's name without the seed, the seed, and a line if the training arguments have another seed."""
    rest, name_seed = split_seed(name)
    if not isinstance(seed, int):
        return rest, name_seed, []
    if name_seed is None:
        alone = re.compile(rf"[-_./ ]*(?<![A-Za-z0-9.]){seed}(?![A-Za-z0-9.])")
        return (alone.sub("", name) if len(alone.findall(name)) == 1 else name), seed, []
    if name_seed != seed:
        return (
            name,
            seed,
            [f"two seeds: {name} has seed={seed} in {ARGUMENTS_FILE}, which counts; its name tells it apart"],
        )
    return rest, seed, []


def _read_beside(place: Path, folder: Path) -> tuple[Json, dict[str, Scalar], list[str]]:
    """Returns the arguments, settings from files beside the checkpoint or in its folder, and a line for each unread
    file."""
    arguments: Json = {}
    settings: dict[str, Scalar] = {}
    unread = []

    def find(name: str) -> Path | None:
        return next((at / name for at in (place, folder) if (at / name).is_file()), None)

    for name in (ARGUMENTS_FILE, *SIDE_FILES, CARD):
        if (file := find(name)) is None:
            continue
        try:
            if name == ARGUMENTS_FILE:
                arguments = read_fields(file)
            elif name == CARD:
                top = file.read_text(encoding="utf8").partition("---\n")[2].partition("\n---")[0]
                settings |= {tag or key: value.strip() for tag, key, value in CARD_FACTS.findall(top)}
            else:
                settings |= _read_side(json.loads(file.read_text(encoding="utf8")), SIDE_FILES[name])
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            unread.append(f"unread: {file} ({first_line(error)})")
    return arguments, settings, unread


def _read_side(values: Json, before: str) -> dict[str, Scalar]:
    """Returns the settings in a side file; lists are sorted, since sets of names are written in any order."""
    values_by_name = {
        str(name).removeprefix("_"): sorted(value, key=str) if isinstance(value, list) else value
        for name, value in values.items()
        if name not in SIDE_NOISE
    }
    return flat(values_by_name, before)


def _read_arguments(arguments: Json) -> dict[str, Scalar]:
    settings = {
        name: value for name, value in arguments.items() if not NO_SETTINGS.fullmatch(name) and value is not None
    }
    plain = {
        name: value for name, value in settings.items() if isinstance(value, str | int | float | list | tuple | Mapping)
    }
    return flat(plain)


def _read_state(state: Json, beside: Mapping[str, Scalar], has_arguments: bool) -> ForeignRun:
    """Converts the state of a Trainer: `best_global_step`, or in older files the best folder's name, gives the best
    step."""
    logged = [entry for entry in state["log_history"] if any(str(key).startswith(EVALUATED) for key in entry)]
    checkpoint = str(state.get("best_model_checkpoint") or "").rpartition("checkpoint-")[2]
    best = state.get("best_global_step") or (int(checkpoint) if checkpoint.isdigit() else None)
    chosen = [entry for entry in logged if entry.get("step") == best] or logged[-1:]
    metrics = {key: value for entry in chosen for key, value in numbers(entry).items() if key.startswith(EVALUATED)}
    rates = [entry["learning_rate"] for entry in state["log_history"] if "learning_rate" in entry]
    rate = {} if has_arguments or not rates else {"logged_learning_rate": max(map(float, rates))}
    settings = flat({key: state[key] for key in KEPT_SETTINGS if state.get(key) is not None})
    return ForeignRun(
        id="",
        unfinished="" if logged else "without evaluation",
        settings={**beside, **rate, **settings},
        metrics=metrics,
    )
