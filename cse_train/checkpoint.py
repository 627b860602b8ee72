"""Two files per run: `last/state.pt` to go on from, `best/model.safetensors` to use. Written aside, then renamed.

Where ranks differ, each adds `last/rankN-STEP.pt`.
"""

import json
import logging
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from cse_train import methods
from cse_train.backbone.backbone import load_backbone
from cse_train.config import RunConfig, completed, parse_run
from cse_train.distributed import agreed, rank
from cse_train.files import replace_file

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LAST = Path("last", "state.pt")
BEST = Path("best", "model.safetensors")

log = logging.getLogger(__name__)


class CorruptCheckpoint(ValueError):
    """A checkpoint that cannot be read."""

    def __init__(self, path: Path, reason: object) -> None:
        first = str(reason).strip().splitlines()[0][:120] if str(reason).strip() else type(reason).__name__
        super().__init__(f"corrupt checkpoint: {path}: {first}; delete {path.parent.parent} to train the run again")


def _save(value: object, path: Path) -> None:
    """`torch.save` through Python's own file: given a path it hides the system's error."""
    with path.open("wb") as file:
        torch.save(value, file)


def save_last(folder: Path, state: Mapping[str, Any]) -> None:
    """Write everything a run needs to go on but what `rank_path` holds."""
    replace_file(folder / LAST, lambda path: _save(dict(state), path))


def load_last(folder: Path) -> dict[str, Any] | None:
    """The state that `save_last` wrote; None when there is none."""
    path = folder / LAST
    if not path.exists():
        return None
    return _load(path)


def _load(path: Path) -> dict[str, Any]:
    try:
        check_archive(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise CorruptCheckpoint(path, error) from error
    if not isinstance(state, dict):
        raise CorruptCheckpoint(path, "holds no state")
    return state


def save_rank(folder: Path, step: int, state: Mapping[str, Any]) -> None:
    """Write what only this rank has, before `save_last` of the same step: a kill between leaves the older pair."""
    replace_file(rank_path(folder, step), lambda path: _save(dict(state), path))


def forget_rank(folder: Path, step: int) -> None:
    """Remove this rank's state of any other step."""
    kept = rank_path(folder, step)
    for path in kept.parent.glob(f"rank{rank()}-*.pt"):
        if path != kept:
            path.unlink(missing_ok=True)


def load_newest(folders: Iterable[Path], split: bool = False) -> tuple[dict[str, Any], Path] | None:
    """The first state that every rank can read, and its folder; one that cannot is told in the log and passed over.

    `split`: each rank adds what `save_rank` wrote at the same step.
    """
    for folder in folders:
        state = _readable(folder, split)
        if agreed(-1 if state is None else state.get("step", -1)) and state is not None:
            return state, folder
    return None


def _readable(folder: Path, split: bool) -> dict[str, Any] | None:
    try:
        state = load_last(folder)
        if state is not None and split:
            state["model"] = state["model"] | _load(rank_path(folder, state["step"]))
        return state
    except (CorruptCheckpoint, KeyError) as error:
        log.warning("%s; going on from an older one, or from the start", error)
        return None


def save_best(folder: Path, run: RunConfig, model: nn.Module, facts: Mapping[str, Any]) -> None:
    """Write what `encode` needs, with the run's configuration, `facts` and the checksum of all in the header."""
    skipped = training_only(run.method)
    tensors = {
        name: value.contiguous()
        for name, value in model.state_dict().items()
        if isinstance(value, Tensor) and not name.startswith(skipped)
    }
    header = {"run": json.dumps(run.flat()), "facts": json.dumps(dict(facts))}
    header["crc32"] = sum_of((header["run"], header["facts"]), tensors)
    replace_file(folder / BEST, lambda path: save_file(tensors, path, metadata=header))


def read_best(folder: Path) -> tuple[RunConfig, dict[str, Any], dict[str, Tensor]]:
    """Configuration, facts and tensors of a run's best checkpoint; `folder` is the run's or its `best` folder."""
    path = folder / BEST.name if folder.name == BEST.parent.name else folder / BEST
    if not path.exists():
        raise ValueError(f"no checkpoint: {path} does not exist; give a run's folder (cse best shows it)")
    try:
        with safe_open(path, "pt") as opened:
            header = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        if sum_of((header["run"], header["facts"]), tensors) != header.get("crc32"):
            raise CorruptCheckpoint(path, "it is not what was written, by its checksum")
        return parse_run(completed(json.loads(header["run"]))), json.loads(header["facts"]), tensors
    except (SafetensorError, KeyError, OSError) as error:
        raise CorruptCheckpoint(path, error) from error


def load_model(folder: Path) -> tuple[RunConfig, nn.Module, "PreTrainedTokenizerBase"]:
    """The best checkpoint as a method module in eval mode, ready to `encode`, and its tokenizer."""
    run, _, tensors = read_best(folder)
    backbone = load_backbone(run.train.encoder, run.train.dropout)
    model = methods.load(run.method).build(run.options, backbone, training=False)
    absent, unknown = model.load_state_dict(tensors, strict=False)
    spared = training_only(run.method)
    absent, unknown = ([name for name in names if not name.startswith(spared)] for names in (absent, unknown))
    if absent or unknown:
        raise CorruptCheckpoint(folder / BEST, f"{len(absent)} tensors absent, {len(unknown)} unknown")
    return run, model.eval(), backbone.tokenizer


def adopt_best(source: Path, folder: Path) -> None:
    """Bring an earlier attempt's best checkpoint into the folder of the attempt that goes on."""
    if (source / BEST).exists() and not (folder / BEST).exists():
        replace_file(folder / BEST, lambda path: shutil.copyfile(source / BEST, path))


def training_only(method: str) -> tuple[str, ...]:
    """Prefixes of the state that `encode` does not need."""
    return methods.optional(method, "TRAINING_ONLY", ())


def rank_path(folder: Path, step: int) -> Path:
    """Where this rank keeps state that differs between ranks, as of a step."""
    return folder / LAST.parent / f"rank{rank()}-{step}.pt"


def check_archive(path: Path) -> None:
    """Raise where a file of `torch.save` no longer is what was written: torch writes checksums, but reads without them.

    Raises:
        zipfile.BadZipFile: no archive, or a part of it whose bytes have changed.
    """
    with zipfile.ZipFile(path) as archive:
        bad = archive.testzip()
    if bad is not None:
        raise zipfile.BadZipFile(f"{bad} has changed since it was written")


def sum_of(texts: Iterable[str], tensors: Mapping[str, Tensor]) -> str:
    """CRC-32, as eight hexadecimal digits, of texts and of named tensors of any shape, type and device."""
    total = 0
    for text in texts:
        total = zlib.crc32(text.encode(), total)
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), total)
        total = zlib.crc32(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"
