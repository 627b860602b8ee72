"""Reads and writes a run's two checkpoints: `last/state.pt` to resume from, `best/model.safetensors` to use.

Files are written under another name, then renamed. Where ranks differ, each adds `last/rankN-STEP.pt`. Both files carry
the run's signature. A state is valid only with the best model that its last point names, so a new best model waits in
`best/next.safetensors` until the state that names it is written. Files of earlier versions have no signature and are
accepted as the run's own.
"""

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from cse_train import methods
from cse_train.config import RunConfig, complete, parse_run
from cse_train.distributed import barrier, is_agreed, rank, size
from cse_train.encoder import gone
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.folders import find_weights
from cse_train.encoder.transformers_io import take_packed
from cse_train.fields import ConfigError, Json
from cse_train.files import BEST_FOLDER, LAST_FOLDER, replace_file
from cse_train.methods.base import Method, load_method
from cse_train.results import Point
from cse_train.soundness import (
    CorruptCheckpoint,
    NoCheckpoint,
    check_archive,
    reading,
    require_fit,
    require_names,
    sum_of,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)

LAST = Path(LAST_FOLDER, "state.pt")
BEST = Path(BEST_FOLDER, "model.safetensors")
WAITING = BEST.with_name("next.safetensors")
"""File of a new best model until the state that names it is written."""

State = dict[str, Any]
"""Content of a checkpoint file by name: tensors, numbers, texts and lists of them."""


def _save(value: object, path: Path) -> None:
    """Writes a value by `torch.save` into an open file: given a path, torch hides the operating system's error."""
    with path.open("wb") as file:
        torch.save(value, file)


def save_last(folder: Path, state: Json) -> None:
    """Writes `last/state.pt`: everything that a run needs to resume, except what `save_rank` writes."""
    replace_file(folder / LAST, lambda path: _save(dict(state), path))


def load_last(folder: Path) -> State | None:
    """Reads the state that `save_last` wrote; None when the folder has none. Raises CorruptCheckpoint."""
    path = folder / LAST
    if not path.exists():
        return None
    return _load(path)


def _load(path: Path) -> State:
    with reading(path):
        check_archive(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict):
        raise CorruptCheckpoint(path, "holds no state")
    return state


def save_rank(folder: Path, step: int, state: Json) -> None:
    """Writes the state that only this rank has, `last/rankN-STEP.pt`.

    Call it before `save_last` of the same step, so that a kill in between leaves the older pair.
    """
    replace_file(_rank_path(folder, step), lambda path: _save(dict(state), path))


def has_ranks(folder: Path, step: int) -> bool:
    """Returns True if every rank has written its own state of a step."""
    return all(_rank_path(folder, step, number).exists() for number in range(size()))


def forget_rank(folder: Path, step: int) -> None:
    """Deletes this rank's state files of all steps but one."""
    current = _rank_path(folder, step)
    for path in current.parent.glob(f"rank{rank()}-*.pt"):
        if path != current:
            path.unlink(missing_ok=True)


def forget_earlier(folder: Path, step: int) -> None:
    """Deletes every rank's state files of earlier steps; a faster rank's file of a later step stays."""
    for path in (folder / LAST.parent).glob("rank*-*.pt"):
        if int(path.stem.rpartition("-")[2]) < step:
            path.unlink(missing_ok=True)


def load_newest(
    folders: Iterable[Path],
    split: bool = False,
    signature: str | None = None,
    fits: Callable[[Path, State], None] = lambda path, state: None,
) -> tuple[State, Path] | None:
    """Returns the first state that every rank can read, and its folder; None when there is none.

    A state that some rank cannot read is logged and skipped, as is a state or best model with another signature, and a
    state without the best model that its last point names. `split`: each rank adds what `save_rank` wrote at the same
    step. `fits(path, state)` raises CorruptCheckpoint for a state that does not fit the run. Every rank of a process
    group calls this.
    """
    for folder in folders:
        if rank() == 0:  # renames or deletes files: the others wait, and read them afterwards
            _settle(folder)
        barrier()
        state = _readable(folder, split, signature, fits)
        if is_agreed(-1 if state is None else state.get("step", -1)) and state is not None:
            return state, folder
    return None


def _readable(folder: Path, split: bool, signature: str | None, fits: Callable[[Path, State], None]) -> State | None:
    try:
        state = load_last(folder)
        if state is None:
            return None
        _require_own(folder / LAST, state.get("signature"), signature)
        best = _best(folder, signature)
        with reading(folder / LAST):
            is_named = _names(state, best.facts)
        if not is_named:
            raise CorruptCheckpoint(folder / BEST, f"it is not the one that {LAST} names")
        if split:
            with reading(folder / LAST):
                state["model"] = state["model"] | _load(_rank_path(folder, state["step"]))
        fits(folder / LAST, state)
        return state
    except (CorruptCheckpoint, NoCheckpoint) as error:
        log.warning("%s; going on from an older one, or from the start", error)
        return None


def _names(state: State, facts: Json) -> bool:
    """Returns True if a state's last point names the best model with these facts.

    Earlier versions wrote the best model before the state, so that an unsigned model may be newer than its state.
    """
    point = state["points"][-1]
    # Before signatures the model was written first, so that a kill in between left a model newer than the state.
    if "signature" not in state and facts["examples"] > point["examples"]:
        return True
    return bool((facts["examples"], facts["best"]) == (point["best_examples"], point["best"]))


def _settle(folder: Path) -> None:
    """Publishes a waiting best model that the folder's state names, and deletes any other.

    A kill between the writes of state and best model leaves one.
    """
    if not (folder / WAITING).exists():
        return
    try:
        state, waiting = load_last(folder) or {}, _read_model(folder / WAITING)
        with reading(folder / LAST):
            is_named = waiting.signature == state.get("signature") and _names(state, waiting.facts)
    except CorruptCheckpoint:
        is_named = False
    if is_named:
        publish_best(folder)
    else:
        (folder / WAITING).unlink(missing_ok=True)


def is_of_another(folder: Path, signature: str) -> bool:
    """Returns True if a folder's state or best model carries the signature of another run."""
    signatures: list[str | None] = []
    with contextlib.suppress(CorruptCheckpoint):
        signatures.append((load_last(folder) or {}).get("signature"))
    with contextlib.suppress(CorruptCheckpoint):
        signatures.append(_header(folder / BEST).get("signature"))
    return any(stored is not None and stored != signature for stored in signatures)


def _require_own(path: Path, stored: str | None, signature: str | None) -> None:
    if None not in (stored, signature) and stored != signature:
        raise CorruptCheckpoint(path, f"it is of another run, {str(stored)[:12]} and not {str(signature)[:12]}")


def require_own(folder: Path, signature: str) -> None:
    """Raises CorruptCheckpoint if the best model in a run's folder carries the signature of another run."""
    path = best_path(folder)
    if path.exists():
        _require_own(path, _header(path).get("signature"), signature)


def save_best(folder: Path, run: RunConfig, model: Method[Any], facts: Json, signature: str | None = None) -> None:
    """Writes a run's best model: the tensors that `encode` needs.

    The file's header holds the run's configuration, `facts`, the signature and a checksum of all of it.
    """
    write_model(folder / BEST, run, select_kept(model), facts, signature)


def select_kept(model: Method[Any]) -> dict[str, Tensor]:
    """Returns the tensors of a model that `encode` needs: all whose names do not begin with its `TRAINING_ONLY`."""
    skipped = model.TRAINING_ONLY
    state = model.kept_state().items()
    return {name: value for name, value in state if isinstance(value, Tensor) and not name.startswith(skipped)}


def write_model(path: Path, run: RunConfig, tensors: Mapping[str, Tensor], facts: Json, signature: str | None) -> None:
    """Writes a best model to `BEST`, or to `WAITING` until `publish_best`; `tensors` come from `select_kept`."""
    dense = {name: value.contiguous() for name, value in tensors.items()}
    header = {"run": json.dumps(run.flat()), "facts": json.dumps(dict(facts))}
    header |= {} if signature is None else {"signature": signature}
    header["crc32"] = sum_of(_select_summed(header), dense)
    replace_file(path, lambda aside: save_file(dense, aside, metadata=header))


def publish_best(folder: Path) -> None:
    """Renames the waiting best model to `best/model.safetensors`, in place of the earlier best."""
    os.replace(folder / WAITING, folder / BEST)


def best_path(folder: Path) -> Path:
    """Returns the file of a run's best model; `folder` is the run's folder or its `best` folder."""
    return folder / BEST.name if folder.name == BEST.parent.name else folder / BEST


def read_best(folder: Path, signature: str | None = None) -> tuple[RunConfig, State, dict[str, Tensor]]:
    """Reads configuration, facts and tensors of a run's best model; `folder` is the run's or its `best` folder.

    Raises NoCheckpoint if there is none, CorruptCheckpoint if it is damaged or carries the signature of another run,
    and ConfigError if the run's method is not installed.
    """
    best = _best(folder, signature)
    return _run_of(best_path(folder), best.flat), best.facts, best.tensors


def check_best(folder: Path, signature: str) -> None:
    """Raises CorruptCheckpoint or NoCheckpoint unless a run's best model is intact and carries this signature, or none.

    The run's method is not loaded: a plug-in that is not installed may have it.
    """
    _best(folder, signature)


class _Model(NamedTuple):
    """Content of a best model's file: dotted configuration, facts, signature and tensors."""

    flat: State
    facts: State
    signature: str | None
    tensors: dict[str, Tensor]


def _best(folder: Path, signature: str | None) -> _Model:
    path = best_path(folder)
    if not path.exists():
        raise NoCheckpoint(f"no checkpoint: {path} does not exist; give a run's folder (cse best shows it)")
    best = _read_model(path)
    _require_own(path, best.signature, signature)
    return best


def _read_model(path: Path) -> _Model:
    with reading(path):
        with safe_open(path, "pt") as opened:
            header = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        if sum_of(_select_summed(header), tensors) != header.get("crc32"):
            raise CorruptCheckpoint(path, "it is not what was written, by its checksum")
        flat, facts = dict(json.loads(header["run"])), dict(json.loads(header["facts"]))
        return _Model(flat, facts, header.get("signature"), tensors)


def _run_of(path: Path, flat: State) -> RunConfig:
    if methods.unknown(method := flat.get("method")) is not None:
        raise ConfigError([f"unknown method: method={method}; {path} was made by it, give its code by --plugins"])
    methods.config_class(str(method))  # what is wrong with a plug-in is not the file's damage
    try:
        return parse_run(complete(flat))
    except ConfigError as error:
        raise CorruptCheckpoint(path, error) from error


def _header(path: Path) -> dict[str, str]:
    with reading(path), safe_open(path, "pt") as opened:
        return opened.metadata() or {}


def _select_summed(header: Mapping[str, str]) -> list[str]:
    """Returns the texts of a best model's header that its checksum covers."""
    return [header["run"], header["facts"], *([header["signature"]] if "signature" in header else [])]


class LoadedRun(NamedTuple):
    """Best model of a run in eval mode, ready to `encode`, with the run's configuration and tokenizer."""

    run: RunConfig
    method: Method[Any]
    tokenizer: "PreTrainedTokenizerBase"


def load_model(folder: Path, signature: str | None = None, encoder: str | None = None) -> LoadedRun:
    """Builds a run's method and loads the run's best model into it.

    Tokenizer, configuration and prompts come from the encoder that the run names, or from `encoder` where that has
    moved. Raises ConfigError for an encoder folder that is gone, CorruptCheckpoint for tensors that do not fit, and
    what `read_best` raises.
    """
    run, _, tensors = read_best(folder, signature)
    if encoder is not None:
        run = replace(run, train=replace(run.train, encoder=encoder))
    elif os.path.isabs(run.train.encoder) and not os.path.exists(run.train.encoder):
        line = f"missing folder: train.encoder={run.train.encoder}, of which the run {folder} needs the tokenizer"
        raise ConfigError([f"{line}; give --encoder FOLDER, where it is now"])
    elif run.train.encoder in gone.SHAPES:
        empty = gone.write_empty(run.train.encoder, find_weights() / "tokenizer")
        run = replace(run, train=replace(run.train, encoder=str(empty)))
    backbone = load_backbone(run.train.encoder, run.train.dropout, run.train.prompt)
    method = load_method(run.method)
    model, spared = method.build(run.options, backbone, training=False), method.TRAINING_ONLY
    tensors = take_packed(model, tensors)
    require_fit(best_path(folder), model, tensors, spared)
    names = model.load_state_dict(tensors, strict=False)
    require_names(best_path(folder), *([name for name in group if not name.startswith(spared)] for group in names))
    return LoadedRun(run, model.eval(), backbone.tokenizer)


def _rank_path(folder: Path, step: int, number: int | None = None) -> Path:
    """Returns the file of the state at a step that one rank alone has; by default this process's rank."""
    return folder / LAST.parent / f"rank{rank() if number is None else number}-{step}.pt"


def read_finished(folder: Path, signature: str, examples: int) -> list[Point]:
    """Returns the points of the run of this signature if it has trained `examples` examples, else none.

    Damaged checkpoints count as none and are logged.
    """
    newest = load_newest([folder], signature=signature, fits=_require_points)
    if newest is None or newest[0].get("signature") != signature:
        return []
    points = [Point(**point) for point in newest[0]["points"]]
    return points if points and points[-1].examples >= examples else []


def _require_points(path: Path, state: State) -> None:
    """Raises CorruptCheckpoint if the points of a state cannot be read."""
    with reading(path):
        [Point(**point) for point in state["points"]]
