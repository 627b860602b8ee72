"""Where an encoder's files lie: shipped with the package, in a folder, or in the hub's cache; and what they hash to."""

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
from cse_train.text.corpora.files import file_hash, join_hash
from cse_train.text.corpora.hub import hub_is_away
from cse_train.user_files import is_path

SMALL_FILES = ["config.json", "tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json"]
SMALL_FILES += ["config_sentence_transformers.json", "*Pooling*/config.json"]

MODEL_FILES = ["*.json", "*.txt", "*.model", "*.safetensors", "*/pytorch_model.bin"]
"""Of a model of any library: configurations, vocabularies, the weights of all of its modules."""
OTHER_RUNTIMES = ["onnx/*", "openvino/*"]
"""Copies of the same weights."""

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt")

FIRST_KINDS = ("bert", "roberta")
"""Those of `PACKED_KINDS` that our encoder has always computed."""
PACKED = "packed"
DEFAULTS = {"model_type": "", "hidden_act": "gelu"}
"""What a config.json may leave out."""
MIXES_PADDING = ("convbert", "fnet", "mobilebert", "yoso")
"""Architectures in which the padding of a batch reaches the states of its texts: each length is a batch of its own."""


@functools.cache
def find_weights() -> Path:
    """The folder of the weights that come with the package."""
    return Path(str(files("cse_train") / "weights"))


def list_encoders() -> list[str]:
    """Names of the shipped encoders."""
    return sorted(file.parent.name for file in find_weights().glob("*/config.json"))


def locate(name: str) -> Path:
    """The folder that holds `name`'s files: a shipped name, a path, or a hub model (fetched unless HF_HUB_OFFLINE).

    Paths are absolute since they were read (`absolute_place`): a worker's folder is another. Raises ConfigError with
    one line that says what was tried.
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
    """The tensors' files of a folder in transformers' layout: safetensors before pickles."""
    for pattern in ("model*.safetensors", "pytorch_model*.bin"):
        if files := sorted(folder.glob(pattern)):
            return files
    return []


def tokenizer_folder(folder: Path) -> Path:
    """The folder itself where it has a tokenizer, else the one that all shipped encoders share."""
    if any((folder / name).exists() for name in TOKENIZER_FILES):
        return folder
    if (folder.parent / "tokenizer" / "tokenizer.json").exists():
        return folder.parent / "tokenizer"
    raise ConfigError([f"missing tokenizer: train.encoder={folder}; put its tokenizer.json into the folder"])


def content_hash(folder: Path) -> str:
    """SHA-256 over the configuration and the weights as they lie on disk.

    Another one for what earlier versions read otherwise: they let a BERT or RoBERTa with `is_decoder` see both ways,
    embedded by the decoder of an encoder-decoder, let padding reach the texts of `MIXES_PADDING`, and drew the dropout
    of other kinds than `FIRST_KINDS` as transformers does.
    """
    digest, way = _files_digest(folder), _find_way(folder)
    return join_hash(way, digest) if way else digest


def earlier_hash(folder: Path) -> str | None:
    """What `content_hash` was before our encoder computed this kind: models that were trained then give the same
    vectors in it. None where nothing changed, or the vectors did."""
    return _files_digest(folder) if _find_way(folder) == PACKED else None


def _files_digest(folder: Path) -> str:
    return files_hash([folder / "config.json", *weight_files(folder)])


def _find_way(folder: Path) -> str:
    """How the architecture is read where that is another way than once; empty where it is not."""
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
            return next((way for way, taken in ways.items() if taken), "")
    return ""


def files_hash(paths: Iterable[Path]) -> str:
    """SHA-256 over the SHA-256 of each file, in order; read once while size and time of change stay."""
    return hashlib.sha256(b"".join(bytes.fromhex(file_hash(path)) for path in paths)).hexdigest()


def _check_files(folder: Path, name: str) -> Path:
    if (folder / ADAPTER_FILE).is_file() or find_static_vectors(folder):
        require_encoder(folder)
    if not (folder / "config.json").exists() or not weight_files(folder):
        inside = next((file.parent for file in sorted(folder.glob("*/config.json")) if weight_files(file.parent)), None)
        wanted = "needs config.json and model.safetensors in transformers' layout"
        give = f", as its {inside.name} has: give that one" if inside else ""
        raise ConfigError([f"not an encoder: train.encoder={name}; the folder {wanted}{give}"])
    return folder


def _fetch(name: str) -> Path:
    away = hub_is_away()
    try:
        folder = _snapshot(name, [*SMALL_FILES, "model*.safetensors*"], away)
        if not weight_files(folder):
            folder = _snapshot(name, [*SMALL_FILES, "pytorch_model*.bin*"], away)
    except Exception as error:  # as in find_hub_model
        gave = "cannot be reached" if away else f"gave {type(error).__name__}"
        reason = f"no such shipped encoder or folder, not in the hub's cache, and the hub {gave}"
        raise ConfigError(
            [f"missing encoder: train.encoder={name}; {reason}; {nearest(name, list_encoders())}"]
        ) from error
    return _check_files(folder, name)


def find_hub_model(name: str) -> Path | None:
    """The folder of a model of the hub that any library saved: of the hub's cache, and a name with its owner is fetched
    unless HF_HUB_OFFLINE. None for what is no such name, or not to be had."""
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
