"""Reads the tensors of an encoder's files without running any code in them."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import safe_open

from cse_train.encoder.folders import REMEDY, weight_files
from cse_train.fields import ConfigError
from cse_train.reading import reading
from cse_train.text.files import Stamp, stamp

if TYPE_CHECKING:
    from torch import Tensor

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib")
"""Endings of files that Python or torch would unpickle."""
ENDS_OF_WEIGHTS = (".weight", ".bias", ".gamma", ".beta")
"""Endings of the names of weights; other tensors, such as masks, may hold infinities."""
BROKEN_WEIGHTS, INTEGER_WEIGHTS = "not finite: NaN or infinite weights", "quantised weights: whole numbers"
FAULTS = {
    BROKEN_WEIGHTS: f"{REMEDY}, or give one whose training did not diverge",
    INTEGER_WEIGHTS: "give the model as it was before",
}
"""Fault of an encoder's weights -> advice that ends the message about it."""


def read_tensors(folder: Path) -> dict[str, "Tensor"]:
    """Reads every tensor of a folder to the CPU, floating ones as fp32."""
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        read = _read_safely(path)
        tensors |= {name: t.float() if t.is_floating_point() else t for name, t in read.items()}
    return tensors


def _read_safely(path: Path) -> dict[str, "Tensor"]:
    """Reads the tensors of a safetensors file, or of a pickle that holds nothing else; no code in it is ever run.

    Raises ConfigError for a damaged file, or one with anything but tensors.
    """
    import torch
    from safetensors.torch import load_file

    try:
        read = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except Exception as error:  # the readers raise a dozen unrelated types; all mean that this is no file of tensors
        kind = "damaged weights" if path.suffix == ".safetensors" else "not tensors alone"
        line = f"{kind}: file={path}; nothing in it was run, save the model as model.safetensors"
        raise ConfigError([line]) from error
    if not isinstance(read, dict) or not all(isinstance(value, torch.Tensor) for value in read.values()):
        raise ConfigError([f"not tensors alone: file={path}; save the model as model.safetensors"])
    return read


def require_numbers(folder: Path, setting: str) -> None:
    """Raises ConfigError for an encoder with a weight that is NaN, infinite or quantised to whole numbers.

    `setting` (name=value) names the encoder in the message.
    """
    faults = [fault for path in weight_files(folder) for fault in _find_faults(path, stamp(path))]
    for kind, remedy in FAULTS.items():
        if bad := [name for fault, name in faults if fault == kind]:
            rule, _, rest = kind.partition(": ")
            line = f"{rule}: {setting} has {rest} in {len(bad)} tensors, such as {bad[0]}"
            raise ConfigError([f"{line}; {remedy}"])


@lru_cache(maxsize=64)
def _find_faults(path: Path, _stamp: Stamp) -> tuple[tuple[str, str], ...]:
    """Returns (fault, name of the tensor) for a file, cached as long as the file stays unchanged."""
    with reading("damaged weights", path, REMEDY):
        faults = ((_find_fault(name, tensor), name) for name, tensor in _tensors(path))
        return tuple((fault, name) for fault, name in faults if fault)


def _find_fault(name: str, tensor: "Tensor") -> str:
    is_weight = name.endswith(ENDS_OF_WEIGHTS)
    if not tensor.is_floating_point():
        return INTEGER_WEIGHTS if is_weight and tensor.ndim > 1 else ""
    if tensor.float().sum().isfinite():  # one pass over a sound tensor: NaN and infinity never leave a sum
        return ""
    is_broken = tensor.isnan().any() or (is_weight and not tensor.isfinite().all())
    return BROKEN_WEIGHTS if is_broken else ""


def _tensors(path: Path) -> Iterator[tuple[str, "Tensor"]]:
    """Yields a file's tensors one at a time, because files may be larger than the memory."""
    if path.suffix == ".safetensors":
        with safe_open(path, "pt") as opened:
            yield from ((name, opened.get_tensor(name)) for name in opened.keys())  # noqa: SIM118
    else:
        yield from _read_safely(path).items()


def require_safe(folder: Path) -> None:
    """Raises ConfigError for a pickle in a folder that a library may load and that is not tensors alone.

    A pickle with a safetensors file beside it is not what libraries load, and is skipped.
    """
    for path in sorted(folder.rglob("*")):
        if path.suffix in PICKLES and not any(path.parent.glob("*.safetensors")):
            _read_safely(path)
