"""Reads folders in the layout of sentence-transformers that `cse export` wrote, by transformers alone.

It computes what sentence-transformers does where that library is not installed: the encoder, a layer average, the
pooling, linear layers. Shape suffixes: N texts, L tokens, H hidden size, K layers, D embedding size.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from cse_train.encoder.reading_order import reads_first
from cse_train.fields import Json

ACTIVATIONS = {
    "Tanh": "torch.nn.modules.activation.Tanh",
    "ReLU": "torch.nn.modules.activation.ReLU",
    "Identity": "torch.nn.modules.linear.Identity",
}
"""Name of an activation -> its class as sentence-transformers writes it."""
POOLING_MODES = {"pooling_mode_cls_token": "cls_no_mlp", "pooling_mode_lasttoken": "last"}
"""Setting in a folder's pooling config -> name of the pooler here; any other folder averages."""
BATCH_ROWS = 64
EXPORTED_KINDS = {"Transformer", "PromptedTransformer", "WeightedLayerPooling", "Pooling", "Dense"}
"""Classes of the modules that `cse export` writes."""

Embed = Callable[[Sequence[str]], np.ndarray]
"""Function from texts to float64 [N, D] in their order."""
Features = dict[str, Any]
"""Tokenised batch: name -> tensor."""


def read_exported(folder: Path) -> list[str] | None:
    """Returns the classes of an exported folder's modules, in order; None for a folder of another origin, or one whose
    pooling leaves out the prompt's tokens, which `load_modules` does not.

    sentence-transformers stamps the folders that it saves itself with its version.
    """
    try:
        listed, settings = (
            json.loads((folder / name).read_text(encoding="utf8"))
            for name in ("modules.json", "config_sentence_transformers.json")
        )
        kinds = [str(module["type"]).rpartition(".")[2] for module in listed]
        pooling = json.loads((_pooling_of(folder, listed) / "config.json").read_text(encoding="utf8"))
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None
    is_ours = "__version__" not in settings and {*kinds} <= EXPORTED_KINDS
    return kinds if is_ours and pooling.get("include_prompt", True) else None


def pooler_of(folder: Path) -> str:
    """Returns the name of the pooler that an exported folder's pooling module is."""
    listed = json.loads((folder / "modules.json").read_text(encoding="utf8"))
    modes = json.loads((_pooling_of(folder, listed) / "config.json").read_text(encoding="utf8"))
    return next((name for mode, name in POOLING_MODES.items() if modes.get(mode)), "mean")


def load_modules(folder: Path, max_length: int | None = None) -> Callable[[Sequence[str]], Tensor]:
    """Returns a function from texts to [N, D] as sentence-transformers would embed them, on a computer without it.

    `max_length`: tokens kept of a text; None for the folder's own number. A folder with trained prompts runs the module
    that it holds: see before that it is the exported one.
    """
    listed = json.loads((folder / "modules.json").read_text(encoding="utf8"))
    tokenize, run = _first_module(folder, listed[0], max_length)
    layers = [_dense(folder / module["path"]) for module in listed if str(module["type"]).endswith(".Dense")]
    pooler = pooler_of(folder)
    averages = [folder / module["path"] for module in listed if "WeightedLayer" in module["type"]]
    weights = [load_file(path / "model.safetensors")["layer_weights"] for path in averages]

    def embed(texts: Sequence[str]) -> Tensor:
        batch = tokenize(list(texts))
        hidden = run(batch)
        token_NLH = hidden[-1]
        for each in weights:
            token_NLH = torch.einsum("k,knlh->nlh", each, torch.stack(list(hidden))) / each.sum()
        embeddings_ND: Tensor = nn.Sequential(*layers)(pool_tokens(token_NLH, batch["attention_mask"], pooler))
        return embeddings_ND

    return embed


def embed_in_batches(embed: Callable[[Sequence[str]], Tensor], prompt: str) -> Embed:
    """Returns a function that embeds in batches of similar length, in the order given, each text behind the prompt."""

    def all_of(texts: Sequence[str]) -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        with torch.inference_mode():
            chunks = [order[at : at + BATCH_ROWS] for at in range(0, len(order), BATCH_ROWS)]
            vectors = np.concatenate([embed([prompt + texts[at] for at in some]).double().numpy() for some in chunks])
        return vectors[np.argsort(order)]

    return all_of


def pool_tokens(token_NLH: Tensor, mask_NL: Tensor, pooler: str) -> Tensor:
    """Pools token vectors [N, L, H] of batches that are padded on the right to [N, H]."""
    if reads_first(pooler):
        return token_NLH[:, 0]
    if pooler == "last":
        return token_NLH[torch.arange(len(mask_NL)), mask_NL.sum(1) - 1]
    mask_NL1 = mask_NL[:, :, None].to(token_NLH.dtype)
    return (token_NLH * mask_NL1).sum(1) / mask_NL1.sum(1)


def _pooling_of(folder: Path, listed: list[Json]) -> Path:
    return next(folder / str(module["path"]) for module in listed if str(module["type"]).endswith(".Pooling"))


def _first_module(
    folder: Path, listed: Json, max_length: int | None
) -> tuple[Callable[..., Features], Callable[..., Any]]:
    """Returns the functions texts -> batch, and batch -> token vectors of the layers, the last one last."""
    if listed["path"]:
        kind: Any = get_class_from_dynamic_module(listed["type"], str(folder))
        module = kind.load(folder / str(listed["path"]))
        module.max_seq_length = max_length or module.max_seq_length
        last = "all_layer_embeddings" if module.all_layers else "token_embeddings"
        return module.tokenize, lambda batch: module(batch)[last] if module.all_layers else [module(batch)[last]]
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)

    def tokenize(texts: list[str]) -> Features:
        batch: Features = tokenizer(texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt")
        return batch

    return tokenize, lambda batch: model(**batch, output_hidden_states=True).hidden_states


def _dense(folder: Path) -> nn.Module:
    described = json.loads((folder / "config.json").read_text(encoding="utf8"))
    linear = nn.Linear(described["in_features"], described["out_features"])
    linear.load_state_dict({n.removeprefix("linear."): t for n, t in load_file(folder / "model.safetensors").items()})
    name = next(short for short, long in ACTIVATIONS.items() if long == described["activation_function"])
    activation: nn.Module = getattr(nn, name)()
    return nn.Sequential(linear, activation)
