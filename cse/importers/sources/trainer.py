"""Hugging Face's Trainer, and with it sentence-transformers': the runs behind files `trainer_state.json`."""

import json
from pathlib import Path

from cse.importers import ForeignRun
from cse.importers.values import flat, numbers
from cse_train.fields import ConfigError, Json
from cse_train.reading import reading

SCORE = None
STATE_FILE = "trainer_state.json"
KEPT_SETTINGS = ("train_batch_size", "num_train_epochs", "max_steps", "eval_steps", "trial_params")
"""What the file says of the run's settings; its seed and the rest lie in training_args.bin, which is not read."""
EVALUATED = "eval_"
"""How the names of evaluations begin."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """A run for each output folder; of its checkpoints the newest has the whole log. Its metrics are the evaluation at
    the best step where the Trainer picked one, else the last."""
    if study is not None:
        raise ConfigError([f"no studies: study={study}; name the folder of some runs in place of it"])
    path = Path(source).expanduser()
    files = [path] if path.is_file() else sorted(path.rglob(STATE_FILE))
    if not files:
        raise ConfigError([f"no runs: source={source} has no {STATE_FILE}; name the Trainer's output folder"])
    newest: dict[Path, Json] = {}
    for file in files:
        with reading("unreadable run", f"file={file}", "take it away, or name another folder"):
            state: Json = dict(json.loads(file.read_text(encoding="utf8")))
            steps = int(state["global_step"])
        folder = file.resolve().parent
        folder = folder.parent if folder.name.startswith("checkpoint-") else folder
        if folder not in newest or int(newest[folder]["global_step"]) < steps:
            newest[folder] = state
    runs: list[ForeignRun] = []
    for folder, state in newest.items():
        with reading("unreadable run", f"file={folder / STATE_FILE}", "take it away, or name another folder"):
            run = _read_state(state)
        if run not in runs:  # a copy: two runs never take the same time
            runs.append(run)
    return runs


def _read_state(state: Json) -> ForeignRun:
    """`best_global_step` says where the best model was saved, in older files the name of its folder."""
    logged = [entry for entry in state["log_history"] if any(str(key).startswith(EVALUATED) for key in entry)]
    checkpoint = str(state.get("best_model_checkpoint") or "").rpartition("checkpoint-")[2]
    best = state.get("best_global_step") or (int(checkpoint) if checkpoint.isdigit() else None)
    chosen = [entry for entry in logged if entry.get("step") == best] or logged[-1:]
    metrics = {key: value for entry in chosen for key, value in numbers(entry).items() if key.startswith(EVALUATED)}
    settings = {key: state[key] for key in KEPT_SETTINGS if state.get(key) is not None}
    unfinished = "" if logged else "without evaluation"
    return ForeignRun(id="", unfinished=unfinished, settings=flat(settings), metrics=metrics)
