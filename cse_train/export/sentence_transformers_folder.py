"""Writes a checkpoint as sentence-transformers modules, readable by its versions 3 (prompts: 3.1) to 6.

Names of types and of settings are the ones that the library has read since version 2. A module with code of this
project must be a file at the folder's root that modules.json names `file.Class`; its data lie in a folder of their own,
because all versions then load it by the one-argument `load`, and because no library takes the bare encoder there for
the model.
"""

import json
import shutil
from pathlib import Path

import torch

from cse_train.backbone.reading_order import reads_first
from cse_train.export.parts import DenseLayer, Parts
from cse_train.export.transformers_folder import write_encoder, write_json, write_tensors
from cse_train.modules import prompted_transformer
from cse_train.modules.prompted_transformer import PromptedTransformer

LAYERS_READ = {"first_last": 0, "first_last_layer1": 1}
"""Pooler that averages a hidden state with the last one -> index of that state in `hidden_states`."""
ACTIVATIONS = {
    "Tanh": "torch.nn.modules.activation.Tanh",
    "ReLU": "torch.nn.modules.activation.ReLU",
    "Identity": "torch.nn.modules.linear.Identity",
}
"""Name of an activation -> its class as sentence-transformers writes it."""
Listed = list[tuple[str, str]]
"""Folder and type of each module, in order."""


def write_modules(parts: Parts, folder: Path) -> None:
    """Writes encoder, layer average where the pooler has one, pooling, linear layers, and the list of these modules."""
    name = parts.pooler.pooler
    modules: Listed = [_write_prompted(parts, folder) if parts.prompted else _write_plain(parts, folder)]
    if name in LAYERS_READ:
        modules.append((f"{len(modules)}_WeightedLayerPooling", _library("WeightedLayerPooling")))
        _write_layer_average(parts, folder / modules[-1][0], LAYERS_READ[name])
    modules.append((f"{len(modules)}_Pooling", _library("Pooling")))
    _write_pooling(folder / modules[-1][0], parts.encoder.width, name, parts.prompts.averaged)
    for layer in parts.dense:
        modules.append((f"{len(modules)}_Dense", _library("Dense")))
        _write_dense(folder / modules[-1][0], layer)
    listed = [{"idx": at, "name": str(at), "path": path, "type": kind} for at, (path, kind) in enumerate(modules)]
    write_json(folder / "modules.json", listed)
    named = {} if parts.prompt_name is None else {"default_prompt_name": parts.prompt_name}
    settings = {"prompts": dict(parts.prompts.texts), **named, "similarity_fn_name": "cosine"}
    write_json(folder / "config_sentence_transformers.json", settings)


def _write_plain(parts: Parts, folder: Path) -> tuple[str, str]:
    write_encoder(parts, folder, with_pooler=False)
    if parts.pooler.pooler in LAYERS_READ:
        config = json.loads((folder / "config.json").read_text(encoding="utf8"))
        write_json(folder / "config.json", config | {"output_hidden_states": True})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": parts.max_length, "do_lower_case": False})
    return "", _library("Transformer")


def _write_prompted(parts: Parts, folder: Path) -> tuple[str, str]:
    """Writes the bare encoder, the trained prompts, and the Python file that applies them; returns (folder, type)."""
    assert parts.prompted is not None
    prompts, cls_word = parts.prompted.prompts, parts.prompted.cls_word
    path = f"0_{PromptedTransformer.__name__}"
    write_encoder(parts, folder / path, with_pooler=False)
    settings = {
        "prompt_length": prompts.length,
        "position_shift": prompts.shift,
        "cls_prompt": cls_word is not None,
        "all_layers": parts.pooler.pooler in LAYERS_READ,
        "max_seq_length": parts.max_length,
    }
    write_json(folder / path / prompted_transformer.PROMPTS_SETTINGS, settings)
    tensors = {"prompts": prompts.weight} | ({} if cls_word is None else {"cls_word": cls_word})
    write_tensors(folder / path / prompted_transformer.TENSORS, tensors)
    source = Path(prompted_transformer.__file__)
    shutil.copyfile(source, folder / source.name)
    return path, f"{source.stem}.{PromptedTransformer.__name__}"


def _write_layer_average(parts: Parts, folder: Path, first: int) -> None:
    """Writes a weighted average over all layers in which two weights are one and the others zero."""
    layers: int = parts.config.num_hidden_layers
    weights = torch.zeros(layers + 1)
    weights[first] += 1
    weights[layers] += 1
    described = {"word_embedding_dimension": parts.encoder.width, "num_hidden_layers": layers, "layer_start": 0}
    write_json(folder / "config.json", described)
    write_tensors(folder / "model.safetensors", {"layer_weights": weights})


def _write_pooling(folder: Path, width: int, pooler: str, averaged: bool) -> None:
    """Writes the pooling module's config, in the keys of version 2; the library's mean is on unless it is set off."""
    modes = {"pooling_mode_cls_token": reads_first(pooler), "pooling_mode_mean_tokens": False}
    if pooler == "last":
        modes["pooling_mode_lasttoken"] = True
    elif not reads_first(pooler):
        modes["pooling_mode_mean_tokens"] = True
    include = {} if averaged else {"include_prompt": False}
    write_json(folder / "config.json", {"word_embedding_dimension": width, **modes, **include})


def _write_dense(folder: Path, layer: DenseLayer) -> None:
    outputs, inputs = layer.weight_OI.shape
    sizes = {"in_features": inputs, "out_features": outputs, "bias": True}
    write_json(folder / "config.json", sizes | {"activation_function": ACTIVATIONS[layer.activation]})
    write_tensors(folder / "model.safetensors", {f"linear.{name}": t for name, t in layer.tensors.items()})


def _library(kind: str) -> str:
    return f"sentence_transformers.models.{kind}"
