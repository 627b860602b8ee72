"""A run's best checkpoint as a folder that transformers or sentence-transformers load, with the same embeddings."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn
from transformers import AutoModel, PretrainedConfig, PreTrainedTokenizerBase

from cse_train.checkpoint import load_model
from cse_train.config import RunConfig
from cse_train.fields import ConfigError, nearest
from cse_train.modules.automodel import AutoModelEncoder
from cse_train.modules.encoder import Encoder
from cse_train.modules.pooling import SentencePooler
from cse_train.modules.projector import MlpProjector
from cse_train.modules.transformers_io import encoder_to_transformers

FORMATS = ("sentence-transformers", "hf")
ARCHITECTURES = {"bert": "BertModel", "roberta": "RobertaModel"}
LAYERS_READ = {"first_last": 0, "first_last_layer1": 1}
"""Poolers that average one of `hidden_states` with the last one: which."""


@dataclass(frozen=True)
class Exported:
    """The parts of a trained method that another library can run."""

    run: RunConfig
    encoder: Encoder | AutoModelEncoder
    pooler: SentencePooler
    tokenizer: PreTrainedTokenizerBase

    @property
    def test_mlp(self) -> MlpProjector | None:
        """The MLP, if the pooler uses it at test time."""
        projector = self.pooler.projector if self.pooler.pooler == "cls" else None
        return projector if isinstance(projector, MlpProjector) else None

    @property
    def max_length(self) -> int:
        """Tokens that the positions allow, special tokens included."""
        offset = getattr(self.encoder, "position_offset", 0)
        room = getattr(self.encoder.config, "max_position_embeddings", self.run.train.dev_max_length) - offset
        return min(room, self.run.train.dev_max_length)


def export(best_folder: Path, to: Path, format: str = "sentence-transformers") -> Path:
    """Write the checkpoint to the new folder `to` and return it.

    `hf`: encoder and tokenizer for `AutoModel`; the [CLS] MLP becomes BERT's pooler (as simcse_to_huggingface.py).
    `sentence-transformers`: the same plus pooling and MLP, so that its `encode` gives our embeddings.
    The encoder is read back and compared before the folder appears. Raises ConfigError, one line.
    """
    if format not in FORMATS:
        raise ConfigError([f"unknown format: format={format}; {nearest(format, FORMATS)}"])
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ConfigError([f"folder not empty: to={to}; give a new one"])
    model = _parts(*load_model(best_folder))
    aside = to.with_name(f".{to.name}.{os.getpid()}")
    aside.mkdir(parents=True)
    try:
        write_encoder(model, aside, with_pooler=format == "hf")
        if format == "sentence-transformers":
            write_modules(model, aside)
        _compare(model, aside)
        os.replace(aside, to)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return to


def write_encoder(model: Exported, folder: Path, *, with_pooler: bool) -> None:
    """config.json, model.safetensors in fp32 and the tokenizer, in transformers' layout."""
    encoder = model.encoder
    if isinstance(encoder, AutoModelEncoder):
        encoder.model.save_pretrained(folder)
    else:
        tensors = encoder_to_transformers(encoder)
        if with_pooler and model.test_mlp is not None:
            tensors |= {f"pooler.{name}": tensor for name, tensor in model.test_mlp.state_dict().items()}
        _write_tensors(folder / "model.safetensors", tensors)
        _write_json(folder / "config.json", _described(encoder.config))
    model.tokenizer.save_pretrained(folder)


def write_modules(model: Exported, folder: Path) -> None:
    """sentence-transformers' module list: encoder, layer average where the pooler has one, pooling, MLP."""
    name, width = model.pooler.pooler, model.encoder.width
    modules = [("", "Transformer")]
    if name in LAYERS_READ:
        modules.append(("1_WeightedLayerPooling", "WeightedLayerPooling"))
        _write_layer_average(folder, modules[-1][0], model.encoder.config, LAYERS_READ[name])
    modules.append((f"{len(modules)}_Pooling", "Pooling"))
    cls = name.startswith("cls")
    pooling = {"word_embedding_dimension": width, "pooling_mode_cls_token": cls, "pooling_mode_mean_tokens": not cls}
    _write_json(folder / modules[-1][0] / "config.json", pooling)
    if model.test_mlp is not None:
        modules.append((f"{len(modules)}_Dense", "Dense"))
        _write_dense(folder / modules[-1][0], model.test_mlp.dense)
    _write_json(folder / "modules.json", _module_list(modules))
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": model.max_length, "do_lower_case": False})
    _write_json(folder / "config_sentence_transformers.json", {"prompts": {}, "similarity_fn_name": "cosine"})


def _parts(run: RunConfig, method: nn.Module, tokenizer: PreTrainedTokenizerBase) -> Exported:
    encoder, pooler = getattr(method, "encoder", None), getattr(method, "pooler", None)
    if not isinstance(encoder, Encoder | AutoModelEncoder) or not isinstance(pooler, SentencePooler):
        raise ConfigError([f"not exportable: method={run.method} is more than an encoder and a pooler; use cse eval"])
    return Exported(run, encoder, pooler, tokenizer)


def _write_layer_average(folder: Path, path: str, config: PretrainedConfig, first: int) -> None:
    """A weighted average over all layers with two weights of one, and an encoder that hands all layers out."""
    layers: int = config.num_hidden_layers
    weights = torch.zeros(layers + 1)
    weights[first] += 1
    weights[layers] += 1
    described = {"word_embedding_dimension": config.hidden_size, "num_hidden_layers": layers, "layer_start": 0}
    _write_json(folder / path / "config.json", described)
    _write_tensors(folder / path / "model.safetensors", {"layer_weights": weights})
    known = json.loads((folder / "config.json").read_text(encoding="utf8"))
    _write_json(folder / "config.json", known | {"output_hidden_states": True})


def _write_dense(folder: Path, dense: nn.Linear) -> None:
    sizes = {"in_features": dense.in_features, "out_features": dense.out_features, "bias": True}
    _write_json(folder / "config.json", sizes | {"activation_function": "torch.nn.modules.activation.Tanh"})
    _write_tensors(folder / "model.safetensors", {f"linear.{name}": t for name, t in dense.state_dict().items()})


def _module_list(modules: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Type names that sentence-transformers has read since version 2."""
    return [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(modules)
    ]


def _described(config: PretrainedConfig) -> dict[str, Any]:
    known = {name: value for name, value in config.to_dict().items() if name != "_name_or_path"}
    return known | {"architectures": [ARCHITECTURES[config.model_type]], "dtype": "float32"}


def _compare(model: Exported, folder: Path) -> None:
    """The folder's encoder, as transformers loads it, computes what ours does."""
    reloaded = AutoModel.from_pretrained(folder).eval().state_dict()
    ours = model.encoder
    expected = ours.model.state_dict() if isinstance(ours, AutoModelEncoder) else encoder_to_transformers(ours)
    different = [name for name, tensor in expected.items() if not torch.equal(tensor.cpu(), reloaded[name])]
    assert not different, f"export changed {different[:3]}"


def _write_json(path: Path, content: Mapping[str, Any] | list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, {"format": "pt"}))
