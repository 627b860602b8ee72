"""Finds the folder of an encoder (shipped, the user's, or in the hub's cache) and hashes its content."""

import contextlib
import functools
import hashlib
import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub

from cse_train.backbone.refusals import ADAPTER_FILE, find_static_vectors, require_encoder
from cse_train.encoder.kinds import find_unsupported
from cse_train.fields import ConfigError, nearest
from cse_train.text.files import file_hash, join_hash
from cse_train.text.tables import hub_is_away
from cse_train.user_files import is_path

SMALL_FILES = ["config.json", "tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json"]
SMALL_FILES += ["config_sentence_transformers.json", "*Pooling*/config.json"]

MODEL_FILES = ["*.json", "*.txt", "*.model", "*.safetensors", "*/pytorch_model.bin"]
"""Patterns of a hub model's files, of any library: configurations, vocabularies, and all of its modules' weights."""
OTHER_RUNTIMES = ["onnx/*", "openvino/*"]
"""Patterns of files that copy a model's weights for other runtimes; they are not fetched."""

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt")

FIRST_KINDS = ("bert", "roberta")
"""Model types in `PACKED_KINDS` that `Encoder` has computed since the first release."""
PACKED = "packed"
DEFAULTS = {"model_type": "", "hidden_act": "gelu"}
"""Values of settings that a config.json may leave out."""
MIXES_PADDING = ("convbert", "fnet", "mobilebert", "yoso")
"""Model types in which the padding of a batch reaches the states of its texts: texts of each length go alone."""


@functools.cache
def find_weights() -> Path:
    """Returns the folder of the encoders that come with the package."""
    return Path(str(files("cse_train") / "weights"))


def list_encoders() -> list[str]:
    """Returns the names of the shipped encoders, sorted."""
    return sorted(file.parent.name for file in find_weights().glob("*/config.json"))


def locate(name: str) -> Path:
    """Returns the folder with an encoder's files, for a shipped name, a path, or a hub model.

    A hub model is fetched unless HF_HUB_OFFLINE is set. Paths must be absolute (`absolute_place`), because workers run
    in other folders. Raises ConfigError, one line that says what was tried.
    """
    if "/" not in name and (find_weights() / name / "config.json").is_file():
        return find_weights() / name
    folder = Path(name).expanduser()
    if folder.is_absolute() and folder.is_dir():
        return _check_files(folder, name)
    if folder.is_file():
        raise ConfigError([f"not a folder: train.encoder={name} is a file; give the folder with its config.json"])
    if folder.is_absolute() or is_path(name):
        raise ConfigError([f"missing folder: train.encoder={name}; {nearest(name, list_encoders())}"])
    return _fetch(name)


def weight_files(folder: Path) -> list[Path]:
    """Returns a folder's weight files in transformers' layout, safetensors before pickles; empty if it has none."""
    for pattern in ("model*.safetensors", "pytorch_model*.bin"):
        if files := sorted(folder.glob(pattern)):
            return files
    return []


def tokenizer_folder(folder: Path) -> Path:
    """Returns the folder itself if it has a tokenizer, else the folder that all shipped encoders share.

    Raises ConfigError if neither has a tokenizer.
    """
    if any((folder / name).exists() for name in TOKENIZER_FILES):
        return folder
    if (folder.parent / "tokenizer" / "tokenizer.json").exists():
        return folder.parent / "tokenizer"
    raise ConfigError([f"missing tokenizer: train.encoder={folder}; put its tokenizer.json into the folder"])


def content_hash(folder: Path) -> str:
    """Returns a SHA-256 over an encoder's configuration and its weights as they lie on disk.

    Encoders that earlier versions computed otherwise get another hash than the plain one: those versions let a BERT or
    RoBERTa with `is_decoder` see both ways, embedded by the decoder of an encoder-decoder, let padding reach the texts
    of `MIXES_PADDING`, and drew the dropout of other kinds than `FIRST_KINDS` as transformers does.
    """
    digest, way = _files_digest(folder), _find_way(folder)
    return join_hash(way, digest) if way else digest


def earlier_hash(folder: Path) -> str | None:
    """Returns the content hash that earlier versions gave an encoder whose vectors are still the same; else None.

    The kinds with such a hash ran through `AutoModel` then and run in `Encoder` now.
    """
    return _files_digest(folder) if _find_way(folder) == PACKED else None


def _files_digest(folder: Path) -> str:
    return files_hash([folder / "config.json", *weight_files(folder)])


def _find_way(folder: Path) -> str:
    """Returns how an encoder is computed today if earlier versions computed it otherwise, else an empty text."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        config = json.loads((folder / "config.json").read_text(encoding="utf8"))
        if isinstance(config, dict):
            kind = config.get("model_type")
            ways = {
                "causal": config.get("is_decoder") and kind in FIRST_KINDS,
                "encoder alone": config.get("is_encoder_decoder"),
                "by length": kind in MIXES_PADDING,
                PACKED: kind not in FIRST_KINDS and find_unsupported(SimpleNamespace(**DEFAULTS | config)) is None,
            }
            return next((way for way, applies in ways.items() if applies), "")
    return ""


def files_hash(paths: Iterable[Path]) -> str:
    """Returns a SHA-256 over the SHA-256 of each file, in order; a file is read again when its size or time changes."""
    return hashlib.sha256(b"".join(bytes.fromhex(file_hash(path)) for path in paths)).hexdigest()


def _check_files(folder: Path, name: str) -> Path:
    if (folder / ADAPTER_FILE).is_file() or find_static_vectors(folder):
        require_encoder(folder)
    if not (folder / "config.json").exists() or not weight_files(folder):
        nested = next((file.parent for file in sorted(folder.glob("*/config.json")) if weight_files(file.parent)), None)
        rule = "needs config.json and model.safetensors in transformers' layout"
        advice = f", as its {nested.name} has: give that one" if nested else ""
        raise ConfigError([f"not an encoder: train.encoder={name}; the folder {rule}{advice}"])
    return folder


def _fetch(name: str) -> Path:
    away = hub_is_away()
    try:
        folder = _snapshot(name, [*SMALL_FILES, "model*.safetensors*"], away)
        if not weight_files(folder):
            folder = _snapshot(name, [*SMALL_FILES, "pytorch_model*.bin*"], away)
    except Exception as error:  # as in find_hub_model
        failure = "cannot be reached" if away else f"gave {type(error).__name__}"
        reason = f"no such shipped encoder or folder, not in the hub's cache, and the hub {failure}"
        raise ConfigError(
            [f"missing encoder: train.encoder={name}; {reason}; {nearest(name, list_encoders())}"]
        ) from error
    return _check_files(folder, name)


def find_hub_model(name: str) -> Path | None:
    """Returns the folder of a hub model that any library saved; None if it cannot be had.

    The hub's cache is searched; a name with its owner is fetched too, unless HF_HUB_OFFLINE is set.
    """
    if is_path(name) or name.count("/") > 1:
        return None
    away = "/" not in name or hub_is_away()
    with contextlib.suppress(Exception):  # the hub client raises a dozen unrelated types; all mean "not to be had"
        folder = _snapshot(name, MODEL_FILES, away)
        return folder if weight_files(folder) else _snapshot(name, [*MODEL_FILES, "pytorch_model*.bin"], away)
    return None


def _snapshot(name: str, files: list[str], cached: bool) -> Path:
    return Path(
        huggingface_hub.snapshot_download(
            name, allow_patterns=files, ignore_patterns=OTHER_RUNTIMES, local_files_only=cached
        )
    )
