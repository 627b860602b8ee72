"""Writes a trained run as a folder for sentence-transformers (versions 3, for prompts 3.1, to 6) or for transformers.

A checkpoint is divided into the parts that embed sentences. Shape suffixes: I inputs and O outputs of a linear layer.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from cse_train.checkpoint import LoadedRun
from cse_train.config import RunConfig
from cse_train.encoder import prompted_transformer
from cse_train.encoder.automodel import AutoModelEncoder
from cse_train.encoder.encoder import Encoder, PromptedEncoder
from cse_train.encoder.folders import Prompts, locate, read_prompts
from cse_train.encoder.frozen_encoder import Whitener
from cse_train.encoder.pooling import BatchNormProjector, JointBatchNorm, MlpProjector, SentencePooler, has_projector
from cse_train.encoder.prompted_transformer import PromptedTransformer
from cse_train.encoder.reading_order import reads_first
from cse_train.encoder.transformers_io import encoder_to_transformers
from cse_train.evaluate.exported_folders import ACTIVATIONS
from cse_train.fields import ConfigError


@dataclass(frozen=True)
class DenseLayer:
    """One linear layer after the pooling, and its activation."""

    weight_OI: Tensor
    bias_O: Tensor
    activation: Literal["Tanh", "ReLU", "Identity"]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Weight and bias under the names of `nn.Linear`."""
        return {"weight": self.weight_OI, "bias": self.bias_O}


@dataclass(frozen=True)
class Parts:
    """Parts of a checkpoint that are used at test time; `facts` is what its header stores of its selection."""

    run: RunConfig
    facts: Mapping[str, object]
    method: nn.Module
    encoder: Encoder | AutoModelEncoder
    prompted: PromptedEncoder | None
    pooler: SentencePooler
    tokenizer: PreTrainedTokenizerBase
    whitener: Whitener | None = None
    prompts: Prompts = field(default_factory=Prompts)
    """Prompts that come with the encoder's folder."""

    @property
    def prompt(self) -> str:
        """Text of the prompt in front of every sentence; empty for none."""
        return self.prompts.text(self.run.train.prompt, "train.prompt", self.run.train.encoder)

    @property
    def prompt_name(self) -> str | None:
        """Name of the prompt in use; None for none."""
        return (self.run.train.prompt or self.prompts.default) if self.prompt else None

    @property
    def config(self) -> PretrainedConfig:
        """Configuration of the encoder, as a transformers object."""
        return self.encoder.config

    @property
    def dense(self) -> tuple[DenseLayer, ...]:
        """Projector at test time, or the whitening, as linear layers; empty where there is neither."""
        if self.whitener is not None:  # (x - mu) W as W^T x - W^T mu, worked out in fp64
            mean_I, map_IO = self.whitener.transform()
            return (DenseLayer(map_IO.T.float(), -(mean_I @ map_IO).float(), "Identity"),)
        projector = self.pooler.projector if has_projector(self.pooler.pooler, training=False) else None
        return () if projector is None else _layers(projector)

    @property
    def max_length(self) -> int:
        """Tokens kept of a text, special tokens included: the dev evaluation's, as far as the positions go."""
        limit, room = self.run.train.dev_max_length, self.encoder.positions
        shifted = self.prompted is not None and self.prompted.prompts.shift
        prompt_positions = self.prompted.prompts.length if self.prompted is not None and shifted else 0
        return limit if room is None else min(limit, room - prompt_positions)


def parts_of(loaded: LoadedRun, facts: Mapping[str, object]) -> Parts:
    """Divides a loaded run into its parts.

    Raises ConfigError for a method that embeds with more than an encoder, a pooler and a linear map.
    """
    run, method, tokenizer = loaded
    parts = method.embedding_parts()
    prompted, pooler, after = parts.prompted, parts.pooler, parts.after
    encoder = parts.encoder if prompted is None else getattr(prompted, "encoder", None)
    if isinstance(encoder, Encoder | AutoModelEncoder) and isinstance(pooler, SentencePooler):
        assert prompted is None or isinstance(prompted, PromptedEncoder), type(prompted)
        if after is None or isinstance(after, Whitener):
            prompts = read_prompts(locate(run.train.encoder))
            return Parts(run, facts, method, encoder, prompted, pooler, tokenizer, after, prompts)
    line = f"not exportable: method={run.method} is more than an encoder, a pooler and a linear map"
    raise ConfigError([f"{line}; use cse eval or cse embed"])


def require_saved(parts: Parts) -> None:
    """Raises ConfigError for an encoder whose saved folder would embed otherwise, or would not load: one inside a
    larger model, which has no class of its own in transformers, and one to whose texts a batch's padding reaches
    there."""
    encoder, kind = parts.encoder, parts.config.model_type
    stem = f"not exportable: train.encoder={parts.run.train.encoder}"
    if isinstance(encoder, AutoModelEncoder) and encoder.mixes_padding:
        line = f"{stem}, a {kind}: in transformers the padding of a batch reaches its texts"
        raise ConfigError([f"{line}; use cse eval or cse embed"])
    if isinstance(encoder, AutoModelEncoder) and not encoder.loads_by:
        line = f"{stem}, the encoder inside a {kind}, has no class of its own in transformers"
        raise ConfigError([f"{line}; use cse eval or cse embed"])


def require_transformers(parts: Parts) -> None:
    """Raises ConfigError unless a model class of transformers computes all of the model but the pooling."""
    stem, kind = f"not exportable: format=hf, method={parts.run.method}", parts.config.model_type
    other = isinstance(parts.encoder, AutoModelEncoder)
    reasons = {
        ": no model of transformers reads its prompts": parts.prompted is not None,
        f": AutoModel reads a {kind} as an encoder-decoder": other and parts.encoder.loads_by != "AutoModel",
        ": no model of transformers has a linear map behind its pooling": parts.whitener is not None,
        ", method.pooler=cls: no model of transformers has its BatchNorm": len(parts.dense) > 1,
        f", method.pooler=cls: a {kind} has no layer above [CLS]": parts.dense and other,
    }
    if reason := next((reason for reason, holds in reasons.items() if holds), ""):
        raise ConfigError([f"{stem}{reason}; use --format sentence-transformers"])


def _layers(projector: nn.Module) -> tuple[DenseLayer, ...]:
    if isinstance(projector, MlpProjector):
        return (DenseLayer(projector.dense.weight, projector.dense.bias, "Tanh"),)
    assert isinstance(projector, BatchNormProjector), type(projector)
    inner = _fold(projector.inner, projector.inner_norm, "ReLU")
    return inner, _fold(projector.outer, projector.outer_norm, "Identity")


def _fold(linear: nn.Linear, norm: JointBatchNorm, activation: Literal["ReLU", "Identity"]) -> DenseLayer:
    """Joins a linear layer and a BatchNorm with running statistics into one linear layer, computed in fp64."""
    scale_O = torch.rsqrt(norm.running_var.double() + norm.eps)
    shift_O = -norm.running_mean.double() * scale_O
    if norm.weight is not None and norm.bias is not None:
        scale_O, shift_O = scale_O * norm.weight.double(), shift_O * norm.weight.double() + norm.bias.double()
    weight_OI = linear.weight.double() * scale_O[:, None]
    return DenseLayer(weight_OI.float().detach(), shift_O.float().detach(), activation)


LAYERS_READ = {"first_last": 0, "first_last_layer1": 1}
"""Pooler that averages a hidden state with the last one -> index of that state in `hidden_states`."""


def write_modules(parts: Parts, folder: Path) -> None:
    """Writes encoder, layer average where the pooler has one, pooling, linear layers, and the list of these modules."""
    pooler = parts.pooler.pooler
    modules: list[tuple[str, str]] = []
    """Folder and type of each module, in order."""

    def next_module(kind: str) -> Path:
        modules.append((f"{len(modules)}_{kind}", f"sentence_transformers.models.{kind}"))
        return folder / modules[-1][0]

    if parts.prompted is not None:
        modules.append(_write_prompted(parts, folder))
    else:
        modules.append(("", "sentence_transformers.models.Transformer"))
        write_encoder(parts, folder, with_pooler=False)
        if pooler in LAYERS_READ:
            config = json.loads((folder / "config.json").read_text(encoding="utf8"))
            _write_json(folder / "config.json", config | {"output_hidden_states": True})
        _write_json(folder / "sentence_bert_config.json", {"max_seq_length": parts.max_length, "do_lower_case": False})
    if pooler in LAYERS_READ:
        _write_layer_average(parts, next_module("WeightedLayerPooling"), LAYERS_READ[pooler])
    # In the keys of version 2; the library's mean is on unless it is set off.
    first, last = reads_first(pooler), pooler == "last"
    modes = {"pooling_mode_cls_token": first, "pooling_mode_mean_tokens": not first and not last}
    modes |= {"pooling_mode_lasttoken": True} if last else {}
    include = {} if parts.prompts.averaged else {"include_prompt": False}
    described = {"word_embedding_dimension": parts.encoder.width, **modes, **include}
    _write_json(next_module("Pooling") / "config.json", described)
    for layer in parts.dense:
        place, (outputs, inputs) = next_module("Dense"), layer.weight_OI.shape
        sizes = {"in_features": inputs, "out_features": outputs, "bias": True}
        _write_json(place / "config.json", sizes | {"activation_function": ACTIVATIONS[layer.activation]})
        _write_tensors(place / "model.safetensors", {f"linear.{name}": t for name, t in layer.tensors.items()})
    listed = [{"idx": at, "name": str(at), "path": path, "type": kind} for at, (path, kind) in enumerate(modules)]
    _write_json(folder / "modules.json", listed)
    named = {} if parts.prompt_name is None else {"default_prompt_name": parts.prompt_name}
    settings = {"prompts": dict(parts.prompts.texts), **named, "similarity_fn_name": "cosine"}
    _write_json(folder / "config_sentence_transformers.json", settings)


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
    _write_json(folder / path / prompted_transformer.PROMPTS_SETTINGS, settings)
    tensors = {"prompts": prompts.weight} | ({} if cls_word is None else {"cls_word": cls_word})
    _write_tensors(folder / path / prompted_transformer.TENSORS, tensors)
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
    _write_json(folder / "config.json", described)
    _write_tensors(folder / "model.safetensors", {"layer_weights": weights})


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
        _write_tensors(folder / "model.safetensors", tensors)
        config = {name: value for name, value in parts.config.to_dict().items() if name != "_name_or_path"}
        kind = type(parts.config).__name__.removesuffix("Config")
        config |= {"architectures": [f"{kind}Model"], "dtype": "float32"}
        _write_json(folder / "config.json", config)
    parts.tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf8")) | {"model_max_length": parts.max_length}
    if config.get("padding_side") == "left":  # padding in front moves the absolute positions of such as GPT-2
        config["padding_side"] = "right"
    if config.get("tokenizer_class") == NEW_CLASS:
        config["tokenizer_class"] = KNOWN_CLASS
    if isinstance(config.get("extra_special_tokens"), list):  # a mapping in version 4
        config["additional_special_tokens"] = config.pop("extra_special_tokens")
    _write_json(path, config)


def _write_json(path: Path, content: Mapping[str, object] | list[dict[str, object]]) -> None:
    """Writes one JSON file, and makes its folder."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes one safetensors file, and makes its folder."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, {"format": "pt"}))
