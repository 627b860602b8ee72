"""Whether a checkpoint still holds the bytes that were written: torch and safetensors read others without a word."""

import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor


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
