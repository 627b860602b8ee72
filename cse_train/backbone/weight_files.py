"""The tensors of an encoder's files, read without running anything in them."""

from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from cse_train.backbone.folders import weight_files
from cse_train.fields import ConfigError

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib")
"""Endings of files that Python or torch would unpickle."""


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a folder on the CPU, floating ones in fp32."""
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        read = read_safely(path)
        tensors |= {name: t.float() if t.is_floating_point() else t for name, t in read.items()}
    return tensors


def read_precisions(folder: Path) -> list[str]:
    """The types of a folder's floating tensors as they lie on disk, such as F16, sorted."""
    types: set[str] = set()
    for path in weight_files(folder):
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as opened:
                types |= {str(opened.get_slice(name).get_dtype()) for name in opened.keys()}  # noqa: SIM118
        else:
            types |= {
                str(t.dtype).replace("torch.float", "F").replace("torch.bfloat", "BF")
                for t in read_safely(path).values()
                if t.is_floating_point()
            }
    return sorted(types)


def read_safely(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a pickle that holds nothing else: no code in it is ever run."""
    try:
        read = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except Exception as error:  # the readers raise a dozen unrelated types; all mean that this is no file of tensors
        kind = "damaged weights" if path.suffix == ".safetensors" else "not tensors alone"
        line = f"{kind}: file={path}; nothing in it was run, save the model as model.safetensors"
        raise ConfigError([line]) from error
    if not isinstance(read, dict) or not all(isinstance(value, Tensor) for value in read.values()):
        raise ConfigError([f"not tensors alone: file={path}; save the model as model.safetensors"])
    return read


def require_safe(folder: Path) -> None:
    """ConfigError for a pickle that a library may load from the folder, or a part of it, and that is not tensors alone.

    Where safetensors lie beside it, the pickle is not what is loaded.
    """
    for path in sorted(folder.rglob("*")):
        if path.suffix in PICKLES and not any(path.parent.glob("*.safetensors")):
            read_safely(path)
