"""Reads runs of Hugging Face's Trainer, also sentence-transformers', from their files `trainer_state.json`."""

import io
import json
import pickle
import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.tables.labels import number_of, some
from cse.importers import ForeignRun
from cse.importers.seeds import SEED_KEY, split_seed
from cse.importers.values import flat, numbers
from cse_train.fields import ConfigError, Scalar
from cse_train.reading import first_line, reading

SCORE = None
State = dict[str, Any]
"""State or arguments of a Trainer, as its file holds them."""
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
PICKLE_IN_ZIP = "/data.pkl"
"""End of the name of the pickle within a file of torch.save."""
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
    states: dict[Path, list[tuple[int, Path, State]]] = {}
    for file in files:
        with reading("unreadable run", f"file={file}", "take it away, or name another folder"):
            state: State = dict(json.loads(file.read_text(encoding="utf8")))
            steps = int(state["global_step"])
        place = file.resolve().parent
        folder = place.parent if place.name.startswith("checkpoint-") else place
        states.setdefault(folder, []).append((steps, place, state))
    remarks, runs, read_runs = list[str](), list[ForeignRun](), list[tuple[Path, State, State]]()
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
            root = path.resolve()  # which may be the run's folder or lie within it
            is_below = folder != root and folder.is_relative_to(root)
            place_name = folder.relative_to(root).as_posix() if is_below else folder.name
            name, seed, remark = _read_name(place_name, arguments.get("seed"))
            remarks += remark
            if seed is not None and "seed" not in arguments:
                remarks.append("seeds are read of the names of folders")
            settings = {**beside, **({SEED_KEY: seed} if seed is not None else {}), **({FOLDER: name} if name else {})}
            runs.append(_read_state(state, settings, bool(arguments)))
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
    return [replace(run, remarks=remarks) for run in runs]


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


def _read_beside(place: Path, folder: Path) -> tuple[State, dict[str, Scalar], list[str]]:
    """Returns the training arguments, the settings in files beside the checkpoint or in its folder, and a line for each
    unread file."""
    arguments: State = {}
    settings: dict[str, Scalar] = {}
    unread = []
    for name in (ARGUMENTS_FILE, *SIDE_FILES, CARD):
        file = next((at / name for at in (place, folder) if (at / name).is_file()), None)
        if file is None:
            continue
        try:
            if name == ARGUMENTS_FILE:
                arguments = read_fields(file)
            elif name == CARD:
                top = file.read_text(encoding="utf8").partition("---\n")[2].partition("\n---")[0]
                settings |= {tag or key: value.strip() for tag, key, value in CARD_FACTS.findall(top)}
            else:
                values = json.loads(file.read_text(encoding="utf8"))
                # Lists are sorted, since sets of names are written in any order.
                plain = {
                    str(key).removeprefix("_"): sorted(value, key=str) if isinstance(value, list) else value
                    for key, value in values.items()
                    if key not in SIDE_NOISE
                }
                settings |= flat(plain, SIDE_FILES[name])
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            unread.append(f"unread: {file} ({first_line(error)})")
    plain_arguments = {
        name: value
        for name, value in arguments.items()
        if not NO_SETTINGS.fullmatch(name) and isinstance(value, str | int | float | list | tuple | Mapping)
    }
    return arguments, {**settings, **flat(plain_arguments)}, unread


def _read_state(state: State, beside: Mapping[str, Scalar], has_arguments: bool) -> ForeignRun:
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


def read_fields(file: Path) -> dict[str, object]:
    """Returns the fields of the object in a file of torch.save; enumeration members become their values.

    Nothing that the file names is imported or run. Raises ValueError for other files.
    """
    data = file.read_bytes()
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                data = archive.read(next(name for name in archive.namelist() if name.endswith(PICKLE_IN_ZIP)))
        root = _Reader(io.BytesIO(data)).load()
    except Exception as error:  # a damaged file fails in any way
        raise ValueError(f"it is no pickle: {error}") from error
    if not isinstance(root, _Inert):
        raise ValueError("it holds no object with fields")
    fields = {str(name): value for name, value in root.fields.items()}
    return {
        name: value.values[0] if isinstance(value, _Inert) and len(value.values) == 1 else value
        for name, value in fields.items()
    }


class _Inert:
    """Placeholder for every class and function that a pickle names: keeps its arguments, and does nothing."""

    values: tuple[object, ...] = ()
    fields: Mapping[object, object] = {}

    def __new__(cls, *values: object, **_: object) -> "_Inert":
        placeholder = super().__new__(cls)
        placeholder.values = values
        return placeholder

    def __setstate__(self, state: object) -> None:
        self.fields = state if isinstance(state, dict) else {}

    def append(self, _: object) -> None:
        """Ignores an item: pickle appends to lists of a foreign class with this method."""

    def __setitem__(self, _: object, __: object) -> None:
        """Ignores an item: pickle fills mappings of a foreign class with this method."""


class _Reader(pickle.Unpickler):
    """Unpickler that imports nothing, since a file from elsewhere may name any function."""

    def find_class(self, module_name: str, global_name: str) -> type[_Inert]:
        return _Inert

    def persistent_load(self, pid: object) -> None:
        """Returns None for each tensor, which stays unread."""
