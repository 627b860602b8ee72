"""Converts weights from and to transformers' BERT, RoBERTa and models with the same layers, tensor for tensor.

Only the query, key and value projections change shape (three matrices become one), so the conversion is exact both ways
in any dtype. Names on the transformers side are those of `BertForMaskedLM` and `RobertaForMaskedLM`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from cse_train.encoder.encoder import Encoder
from cse_train.encoder.masked_lm import MaskedLMHead

if TYPE_CHECKING:
    from transformers import PretrainedConfig

EMBEDDINGS = {
    "word.weight": "word_embeddings.weight",
    "position.weight": "position_embeddings.weight",
    "token_type.weight": "token_type_embeddings.weight",
    "embedding_norm.weight": "LayerNorm.weight",
    "embedding_norm.bias": "LayerNorm.bias",
}
LAYER = {
    "attention_out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "output_norm": "output.LayerNorm",
}
QKV = ("attention.self.query", "attention.self.key", "attention.self.value")
BERT_HEAD = {
    "transform": "cls.predictions.transform.dense",
    "norm": "cls.predictions.transform.LayerNorm",
    "": "cls.predictions",
}
ROBERTA_HEAD = {"transform": "lm_head.dense", "norm": "lm_head.layer_norm", "": "lm_head"}
PREFIXES = {"xlm-roberta": "roberta", "camembert": "roberta", "data2vec-text": "data2vec_text"}
"""Model type -> prefix of the body's names in a model with a head, where it is not the model type itself."""


def encoder_from_transformers(state_dict: Mapping[str, Tensor], config: "PretrainedConfig") -> Encoder:
    """Builds an `Encoder` in fp32 from a state dict of one of its kinds, with or without the prefix (`bert.`).

    Raises ValueError for an architecture that `Encoder` does not compute, KeyError for a missing tensor.
    """
    encoder = Encoder(config)
    encoder.load_state_dict(_encoder_tensors(_modern(state_dict, config), len(encoder.layers)))
    return encoder


def take_packed(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Renames a model's tensors to `Encoder`'s names if they were saved when it ran through `AutoModel`."""
    result = dict(tensors)
    encoders = ((f"{name}." if name else "", part) for name, part in model.named_modules() if isinstance(part, Encoder))
    for place, encoder in encoders:
        prefix = f"{place}model."
        if stored := {name: result.pop(name) for name in tensors if name.startswith(prefix)}:
            bare = {name.removeprefix(prefix): tensor for name, tensor in stored.items()}
            result |= {f"{place}{name}": tensor for name, tensor in _encoder_tensors(bare, len(encoder.layers)).items()}
    return result


def encoder_to_transformers(encoder: Encoder) -> dict[str, Tensor]:
    """Returns the state dict that `BertModel`, `RobertaModel` and so on (without pooler) load; no prefix."""
    tensors = encoder.state_dict()
    exported = {f"embeddings.{hf_name}": tensors[own_name] for own_name, hf_name in EMBEDDINGS.items()}
    for index in range(len(encoder.layers)):
        for kind in ("weight", "bias"):
            fused = tensors[f"layers.{index}.qkv.{kind}"].chunk(3)
            exported |= {f"encoder.layer.{index}.{name}.{kind}": t for name, t in zip(QKV, fused, strict=True)}
            for own_name, hf_name in LAYER.items():
                exported[f"encoder.layer.{index}.{hf_name}.{kind}"] = tensors[f"layers.{index}.{own_name}.{kind}"]
    return {name: tensor.contiguous() for name, tensor in exported.items()}


def head_from_transformers(state_dict: Mapping[str, Tensor], config: "PretrainedConfig") -> MaskedLMHead | None:
    """Builds the masked-LM head of a state dict; None if it has none, or a decoder that is not the word embedding."""
    names = {own_name: hf_name for own_name, hf_name in _head_names(config).items() if own_name}
    tensors = _modern(state_dict, config)
    if not all(hf_name in tensors for hf_name in names.values()):
        return None
    decoder = tensors.get(_head_names(config)["bias"].removesuffix("bias") + "decoder.weight")
    if decoder is not None and not torch.equal(decoder, tensors["embeddings.word_embeddings.weight"]):
        return None
    head = MaskedLMHead(config)
    head.load_state_dict({own_name: tensors[hf_name] for own_name, hf_name in names.items()})
    return head


def export_masked_lm(encoder: Encoder, head: MaskedLMHead) -> dict[str, Tensor]:
    """Returns the state dict of `BertForMaskedLM` or `RobertaForMaskedLM` without the tied decoder."""
    body = {f"{_prefix(encoder.config)}{name}": t for name, t in encoder_to_transformers(encoder).items()}
    return body | head_to_transformers(head, encoder.config)


def head_to_transformers(head: MaskedLMHead, config: "PretrainedConfig") -> dict[str, Tensor]:
    """Returns the head's own tensors under transformers' names."""
    tensors = head.state_dict()
    return {hf_name: tensors[own_name] for own_name, hf_name in _head_names(config).items()}


def _head_names(config: "PretrainedConfig") -> dict[str, str]:
    table = BERT_HEAD if config.model_type == "bert" else ROBERTA_HEAD
    names = {f"{part}.{kind}": f"{table[part]}.{kind}" for part in ("transform", "norm") for kind in ("weight", "bias")}
    return names | {"bias": f"{table['']}.bias"}


def _prefix(config: "PretrainedConfig") -> str:
    return f"{PREFIXES.get(config.model_type, config.model_type)}."


def _modern(state_dict: Mapping[str, Tensor], config: "PretrainedConfig") -> dict[str, Tensor]:
    """Returns a state dict without the model's prefix, and with LayerNorm's present names.

    The first BERTs call LayerNorm's weight and bias gamma and beta.
    """
    modern = {}
    for name, tensor in state_dict.items():
        name = name.removeprefix(_prefix(config))
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        modern[name] = tensor
    return modern


def _encoder_tensors(stored: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    tensors = {own_name: stored[f"embeddings.{hf_name}"] for own_name, hf_name in EMBEDDINGS.items()}
    for index in range(layers):
        for kind in ("weight", "bias"):
            parts = [stored[f"encoder.layer.{index}.{name}.{kind}"] for name in QKV]
            tensors[f"layers.{index}.qkv.{kind}"] = torch.cat(parts)
            for own_name, hf_name in LAYER.items():
                tensors[f"layers.{index}.{own_name}.{kind}"] = stored[f"encoder.layer.{index}.{hf_name}.{kind}"]
    return tensors
