"""What a finished pretraining leaves: a folder in transformers' layout with a card."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import BertConfig, PreTrainedTokenizerBase

from cse_train.modules.encoder import Encoder
from cse_train.modules.masked_lm_head import MaskedLMHead
from cse_train.modules.transformers_io import masked_lm_to_transformers


def write_weights(
    model_state: Mapping[str, Tensor],
    config: BertConfig,
    folder: Path,
    card: Mapping[str, Any] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Path:
    """Write config.json, model.safetensors (fp16, `BertForMaskedLM` names), card.json and README.md; returns `folder`.

    `model_state` is the state dict of `pretrain.MaskedLM`. Shipped folders share one tokenizer; any other folder
    should get its own. `AutoModel` and `AutoModelForMaskedLM` load the folder, in fp32.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = {name: t.to(torch.float16) for name, t in _transformers_tensors(model_state, config).items()}
    save_file(written, folder / "model.safetensors", metadata={"format": "pt"})
    described = config.to_dict() | {"architectures": ["BertForMaskedLM"], "dtype": "float32"}
    _write_json(folder / "config.json", {k: v for k, v in described.items() if k != "_name_or_path"})
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    if card is not None:
        _write_json(folder / "card.json", card)
        (folder / "README.md").write_text(readme(folder.name, card), encoding="utf8")
    return folder


def readme(name: str, card: Mapping[str, Any]) -> str:
    """The card in words, as a model page."""
    recipe, held_out = card["recipe"], card["held_out"]
    bands = "\n".join(
        f"| {b['from']}-{b['to'] - 1} | {b['loss']:.3f} | {b['accuracy']:.3f} |" for b in held_out["bands"]
    )
    return f"""# {name}
A miniature BERT: {recipe["layers"]} layers, hidden size {recipe["width"]}, 8k WordPiece, lower-cased, positions
0-{recipe["max_positions"] - 1}. Pretrained by masked LM on {card["tokens"] / 1e6:.0f} M tokens of English Wikipedia
({card["seconds"]} s). It exists so that everything runs without a model hub; it is no substitute for BERT-base.

Held-out masked-LM loss {held_out["loss"]:.3f} and accuracy {held_out["accuracy"]:.3f} (sentences never trained on,
packed to {recipe["max_positions"]} tokens), by position:

| positions | loss | accuracy |
|---|---|---|
{bands}

`card.json` holds the whole recipe, the data's hash, and the STS-B dev score against tokens seen.
Repeat it with `cse pretrain`.
"""


def _transformers_tensors(model_state: Mapping[str, Tensor], config: BertConfig) -> dict[str, Tensor]:
    encoder, head = Encoder(config), MaskedLMHead(config)
    encoder.load_state_dict(_part(model_state, "encoder."))
    head.load_state_dict(_part(model_state, "head."))
    return masked_lm_to_transformers(encoder, head)


def _part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in state.items() if name.startswith(prefix)}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")
