"""Refuses folders of models that are no encoder of texts, before any weights are read, and says what to do.

The folder's files are read as they are; nothing in them is run. An adapter's base is a folder of its own, which must
stay the one that it was trained on.
"""

import contextlib
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from cse_train.fields import ConfigError
from cse_train.files import PROGRAM_MARK, replace_file
from cse_train.text.files import file_hash, join_hash

if TYPE_CHECKING:
    from transformers import PretrainedConfig

ADAPTER_FILE = "adapter_config.json"
BASES = "bases"
"""Key in a program's mark of the mapping from a base model's folder to the hash of its files."""
BASE_KEY = "base_model_name_or_path"
BASE_PATTERNS = ("*.json", "*.safetensors", "pytorch_model*.bin")
"""Patterns of the files of a base model whose content is hashed."""
OTHER_PARTS = ("vision_config", "audio_config")
"""Keys in the configuration of a model that reads more than texts."""
STATIC_TENSORS = frozenset(("embedding.weight", "embeddings", "weights", "mapping"))
"""Names of all tensors that sentence-transformers' `StaticEmbedding` and model2vec save."""
STATIC_PLACES = (".", "0_StaticEmbedding")


def require_encoder(folder: Path) -> None:
    """Raises ConfigError, one line, for a folder that is no trainable encoder.

    Refused are adapters, static vectors, quantised weights, code of the folder's own, and positions that transformers
    no longer computes.
    """
    if (folder / ADAPTER_FILE).is_file():
        base = _read(folder / ADAPTER_FILE).get("base_model_name_or_path") or "its base model"
        line = f"an adapter: train.encoder={folder} changes {base} and is no encoder by itself"
        raise ConfigError([f"{line}; merge the two (merge_and_unload of peft) and give that folder"])
    if find_static_vectors(folder):
        line = f"static vectors: train.encoder={folder} has no layers to train; cse eval scores it"
        raise ConfigError([f"{line}; choose a transformer, or train it by a `trainer:` of yours"])
    config = _read(folder / "config.json")
    if quantisation := config.get("quantization_config"):
        method = quantisation.get("quant_method", "some method") if isinstance(quantisation, dict) else quantisation
        line = f"quantised weights: train.encoder={folder} by {method}"
        raise ConfigError([f"{line}; give the model as it was before, or save it by its dequantize()"])
    if str(positions := config.get("position_embedding_type")).startswith("relative_key"):
        line = f"relative positions: train.encoder={folder} has position_embedding_type={positions}"
        raise ConfigError([f"{line}, which transformers reads as absolute since version 5; choose another model"])
    if config.get("auto_map") and not _is_known(config.get("model_type")):
        line = f"code of its own: train.encoder={folder} is a {config.get('model_type')}, which transformers lacks"
        raise ConfigError([f"{line}, and its folder's code is never run; choose an architecture of transformers"])


def find_static_vectors(folder: Path) -> Path | None:
    """Returns the subfolder with a vector for each token, as model2vec and sentence-transformers save; else None."""
    for place in STATIC_PLACES:
        with (
            contextlib.suppress(SafetensorError, OSError),
            safe_open(folder / place / "model.safetensors", "np") as file,
        ):
            if STATIC_TENSORS.issuperset(file.keys()):
                return folder / place
    return None


def require_texts_read(config: "PretrainedConfig", folder: Path) -> None:
    """Raises ConfigError, one line, for a model of images or sound, also if it reads texts as well."""
    from transformers import MODEL_MAPPING

    kind = MODEL_MAPPING.get(type(config), None)
    reads = str(getattr(kind, "main_input_name", "input_ids"))
    other = next((part for part in OTHER_PARTS if getattr(config, part, None) is not None), None)
    if reads == "input_ids" and other is None:
        return
    content = f"has a {other} beside its texts" if reads == "input_ids" else f"reads {reads}"
    line = f"no encoder of texts: train.encoder={folder}, a {config.model_type}, {content}"
    raise ConfigError([f"{line}; choose a text model, or save this one's text part alone"])


def _is_known(kind: object) -> bool:
    from transformers import CONFIG_MAPPING

    return kind in CONFIG_MAPPING


def _read(file: Path) -> dict[str, Any]:
    """Returns the object in a JSON file; empty for a file without one, about which its later reader says more."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        content = json.loads(file.read_text(encoding="utf8"))
        return content if isinstance(content, dict) else {}
    return {}


def place_bases(folder: Path) -> dict[str, str]:
    """Makes the adapters in a folder name their local base models by absolute paths; returns base folder -> hash.

    The adapter is opened from elsewhere. A base of the hub keeps its name and gets no hash.
    """
    bases = {}
    for config in folder.rglob(ADAPTER_FILE):
        settings = json.loads(config.read_text(encoding="utf8"))
        base = Path(settings.get(BASE_KEY) or "").resolve()
        if settings.get(BASE_KEY) and base.is_dir():
            text = json.dumps({**settings, BASE_KEY: str(base)}, indent=2)
            replace_file(config, functools.partial(Path.write_text, data=text, encoding="utf8"))
            bases[str(base)] = _hash_base(base)
    return bases


def require_bases(folder: Path) -> None:
    """Raises ConfigError if a base model of the adapter in this folder is gone, or has changed since the training."""
    mark = folder / PROGRAM_MARK
    bases = json.loads(mark.read_text(encoding="utf8")).get(BASES, {}) if mark.is_file() else {}
    for base, digest in bases.items():
        if not Path(base).is_dir():
            raise ConfigError([f"no such base: model={folder} is an adapter of {base}; put that folder back"])
        if _hash_base(Path(base)) != digest:
            line = (
                f"another base: model={folder} is an adapter of {base}, whose files have changed since it was trained"
            )
            raise ConfigError([f"{line}; put those back"])


def _hash_base(base: Path) -> str:
    return join_hash(*(file_hash(file) for pattern in BASE_PATTERNS for file in sorted(base.rglob(pattern))))[:16]
