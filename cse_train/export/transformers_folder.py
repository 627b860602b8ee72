"""Writes encoder and tokenizer in transformers' layout, readable by its versions 4 and 5."""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from cse_train.backbone.automodel import AutoModelEncoder
from cse_train.backbone.transformers_io import encoder_to_transformers
from cse_train.export.parts import Parts

NEW_CLASS, KNOWN_CLASS = "TokenizersBackend", "PreTrainedTokenizerFast"
"""Name in version 5 of a tokenizer that is only its tokenizer.json, and the name that version 4 reads as well."""


def write_encoder(parts: Parts, folder: Path, *, with_pooler: bool) -> None:
    """Writes config.json, model.safetensors (fp32) and the tokenizer; `with_pooler`: the [CLS] MLP as BERT's pooler."""
    folder.mkdir(exist_ok=True)
    if isinstance(parts.encoder, AutoModelEncoder):
        parts.encoder.save(folder)
    else:
        tensors = encoder_to_transformers(parts.encoder)
        if with_pooler and parts.dense:
            tensors |= {f"pooler.dense.{name}": tensor for name, tensor in parts.dense[0].tensors.items()}
        write_tensors(folder / "model.safetensors", tensors)
        config = {name: value for name, value in parts.config.to_dict().items() if name != "_name_or_path"}
        kind = type(parts.config).__name__.removesuffix("Config")
        config |= {"architectures": [f"{kind}Model"], "dtype": "float32"}
        write_json(folder / "config.json", config)
    parts.tokenizer.save_pretrained(folder)
    _settle_tokenizer(folder / "tokenizer_config.json", parts.max_length)


def write_json(path: Path, content: Mapping[str, object] | list[dict[str, object]]) -> None:
    """Writes one JSON file, and makes its folder."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes one safetensors file, and makes its folder."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, {"format": "pt"}))


def _settle_tokenizer(path: Path, max_length: int) -> None:
    """Sets the tokenizer's truncation length and right padding, and renames settings so that version 4 reads them.

    Padding in front would move the absolute positions of some architectures, such as GPT-2's. In version 4,
    `extra_special_tokens` is a mapping.
    """
    config = json.loads(path.read_text(encoding="utf8")) | {"model_max_length": max_length}
    if config.get("padding_side") == "left":
        config["padding_side"] = "right"
    if config.get("tokenizer_class") == NEW_CLASS:
        config["tokenizer_class"] = KNOWN_CLASS
    if isinstance(config.get("extra_special_tokens"), list):
        config["additional_special_tokens"] = config.pop("extra_special_tokens")
    write_json(path, config)
