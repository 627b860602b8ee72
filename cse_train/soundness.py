"""Checks that a checkpoint's file is what was written and fits its run; CorruptCheckpoint means damage alone."""

import contextlib
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from cse_train.reading import is_of_content

EXTRA = "_extra_state"
"""Ending of the name of a module's extra state, which may have another shape at each step."""
RUN_REMEDY = "train the run again, one that a ledger has as done after cse doctor --repair"
"""Advice for a run with a damaged checkpoint, which can neither be resumed nor used."""


class CorruptCheckpoint(ValueError):
    """A checkpoint cannot be read, or is not what was written."""

    def __init__(self, path: Path, reason: object) -> None:
        line = str(reason).strip().splitlines()[0][:120] if str(reason).strip() else type(reason).__name__
        super().__init__(f"corrupt checkpoint: {path}: {line}; {RUN_REMEDY}")


class NoCheckpoint(ValueError):
    """A folder has no checkpoint where one is needed."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns whatever the content of a checkpoint's file raises inside the block into CorruptCheckpoint.

    The block must only read the file: an error of the caller's own code would pass for damage, and a run would start
    again without a word. Errors of the operating system about disk, rights and memory pass through.
    """
    try:
        yield
    except CorruptCheckpoint:
        raise
    except Exception as error:
        if not is_of_content(error) and not isinstance(error, FileNotFoundError):
            raise
        raise CorruptCheckpoint(path, error) from error


def check_archive(path: Path) -> None:
    """Raises an error if a file of `torch.save` has changed: torch writes checksums into it, but reads without them.

    Raises zipfile.BadZipFile for no archive, for a part of it whose bytes have changed, and for one that is packed:
    torch packs none, and a small file that would fill the memory must be.
    """
    with zipfile.ZipFile(path) as archive:
        if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
            raise zipfile.BadZipFile("it is packed")
        bad = archive.testzip()
    if bad is not None:
        raise zipfile.BadZipFile(f"{bad} has changed since it was written")


def sum_of(texts: Iterable[str], tensors: Mapping[str, Tensor]) -> str:
    """Returns a CRC-32, eight hexadecimal digits, of texts and of named tensors of any shape, dtype and device."""
    total = 0
    for text in texts:
        total = zlib.crc32(text.encode(), total)
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), total)
        total = zlib.crc32(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"


def require_fit(path: Path, model: nn.Module, tensors: Mapping[str, Tensor], spared: tuple[str, ...] = ()) -> None:
    """Raises CorruptCheckpoint if a file's tensors are not those of a model, by name and shape; loads nothing.

    Two kinds of tensors are not checked: names that begin with one of `spared`, and tensors that a module loads by a
    hook or a method of its own, whose errors are that code's.
    """
    spared = (*spared, *(prefix for prefix, module in model.named_modules() if _loads_itself(module)))
    expected = {name: value for name, value in model.state_dict().items() if not name.startswith(spared)}
    stored = {name: value for name, value in tensors.items() if not name.startswith(spared)}
    require_names(path, expected.keys() - stored.keys(), stored.keys() - expected.keys())
    shapes = {name: value.shape for name, value in expected.items() if not name.endswith(EXTRA)}
    if wrong := [name for name, shape in shapes.items() if getattr(stored[name], "shape", None) != shape]:
        raise CorruptCheckpoint(path, f"its tensors do not fit its encoder and method: {wrong[0]} has another shape")


def require_names(path: Path, absent: Collection[str], unknown: Collection[str]) -> None:
    """Raises CorruptCheckpoint if a file lacks tensors of a model, or has others."""
    if absent or unknown:
        raise CorruptCheckpoint(path, f"{len(absent)} tensors absent, {len(unknown)} unknown")


def _loads_itself(module: nn.Module) -> bool:
    loaders = ("load_state_dict", "_load_from_state_dict")
    overridden = any(getattr(type(module), name) is not getattr(nn.Module, name) for name in loaders)
    return overridden or bool(module._load_state_dict_pre_hooks)
