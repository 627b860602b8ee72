"""BERT or RoBERTa steered by continuous prompts, as the first module of a sentence-transformers model.

This file travels with the model and needs nothing but torch, transformers and what comes with them. In every layer the
tokens also attend to P trained keys and values in front of their own (DCPCSE: Jiang and Wang 2022, section 3.2; D2CSE:
Lee 2023, section 3). It is for inference: there is no dropout.
Shape suffixes: N sentences, L tokens, P prompts, H hidden size, K = P + L.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

PROMPTS_SETTINGS = "prompts.json"
TENSORS = "prompts.safetensors"


class PromptedTransformer(nn.Module):
    """Token vectors of the last layer, and with `all_layers` of every layer, for sentence-transformers' poolings.

    `position_shift` lets the first token stand at position P; `cls_prompt` replaces the word embedding at position 0.
    """

    def __init__(
        self,
        auto_model: Any,
        tokenizer: Any,
        *,
        prompt_length: int,
        position_shift: bool,
        cls_prompt: bool,
        all_layers: bool,
        max_seq_length: int,
    ) -> None:
        super().__init__()
        config = auto_model.config
        self.auto_model = auto_model
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.all_layers = all_layers
        self.position_shift = position_shift
        self.heads: int = config.num_attention_heads
        padding = auto_model.embeddings.position_embeddings.padding_idx  # RoBERTa's positions count from behind it
        offset = 0 if padding is None else padding + 1
        self.first_position: int = offset + (prompt_length if position_shift else 0)
        self.prompts = nn.Parameter(torch.zeros(config.num_hidden_layers, 2, prompt_length, config.hidden_size))
        self.cls_word = nn.Parameter(torch.zeros(config.hidden_size)) if cls_prompt else None

    @classmethod
    def load(cls, input_path: str) -> "PromptedTransformer":
        """The module of a folder that `save` wrote."""
        folder = Path(input_path)
        settings = json.loads((folder / PROMPTS_SETTINGS).read_text(encoding="utf8"))
        encoder = AutoModel.from_pretrained(folder, add_pooling_layer=False)
        module = cls(encoder, AutoTokenizer.from_pretrained(folder), **settings)
        own = load_file(folder / TENSORS)
        with torch.no_grad():
            module.prompts.copy_(own["prompts"])
            if module.cls_word is not None:
                module.cls_word.copy_(own["cls_word"])
        return module.eval()

    def save(self, output_path: str, **_: Any) -> None:
        """Write the module, and this file beside its folder, where sentence-transformers looks for it."""
        folder = Path(output_path)
        self.auto_model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        settings = {
            "prompt_length": self.prompts.shape[2],
            "position_shift": self.position_shift,
            "cls_prompt": self.cls_word is not None,
            "all_layers": self.all_layers,
            "max_seq_length": self.max_seq_length,
        }
        (folder / PROMPTS_SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf8")
        own = {"prompts": self.prompts, "cls_word": self.cls_word}
        save_file({name: t.detach().cpu() for name, t in own.items() if t is not None}, folder / TENSORS)
        shutil.copyfile(__file__, folder.parent / Path(__file__).name)

    def tokenize(self, texts: Sequence[str], **_: Any) -> dict[str, Tensor]:
        """Ids and attention mask [N, L], padded on the right."""
        limit = {"truncation": True, "max_length": self.max_seq_length}
        self.tokenizer.padding_side = "right"
        found = self.tokenizer(list(texts), padding=True, return_tensors="pt", **limit)
        return {"input_ids": found["input_ids"], "attention_mask": found["attention_mask"]}

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **_: Any) -> dict[str, Tensor]:
        """`tokenize` under the name that newer versions call; a text `prompt` goes in front of every input."""
        return self.tokenize([(prompt or "") + text for text in inputs])

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add `token_embeddings` [N, L, H] and, with `all_layers`, the list `all_layer_embeddings`."""
        x_NLH = self._embedded(features["input_ids"])
        real_NL = features["attention_mask"].bool()
        seen_NK = torch.cat([real_NL.new_ones(len(real_NL), self.prompts.shape[2]), real_NL], 1)
        layers = [x_NLH]
        for layer, prompts_2PH in zip(self.auto_model.encoder.layer, self.prompts, strict=True):
            layers.append(self._through(layer, layers[-1], prompts_2PH, seen_NK[:, None, None]))
        features["token_embeddings"] = layers[-1]
        if self.all_layers:
            features["all_layer_embeddings"] = layers
        return features

    def get_word_embedding_dimension(self) -> int:
        """Hidden size H."""
        return int(self.auto_model.config.hidden_size)

    def _embedded(self, ids_NL: Tensor) -> Tensor:
        table = self.auto_model.embeddings
        words_NLH = table.word_embeddings(ids_NL)
        if self.cls_word is not None:
            words_NLH[:, 0] = self.cls_word
        places_L = torch.arange(ids_NL.shape[1], device=ids_NL.device) + self.first_position
        first_type_H = table.token_type_embeddings.weight[0]
        embedded: Tensor = table.LayerNorm(words_NLH + table.position_embeddings(places_L) + first_type_H)
        return embedded

    def _through(self, layer: Any, x_NLH: Tensor, prompts_2PH: Tensor, seen_N11K: Tensor) -> Tensor:
        attention = layer.attention
        query, key, value = (getattr(attention.self, name)(x_NLH) for name in ("query", "key", "value"))
        key_P, value_P = prompts_2PH[:, None].expand(-1, len(x_NLH), -1, -1)
        keys, values = self._heads(torch.cat([key_P, key], 1)), self._heads(torch.cat([value_P, value], 1))
        scores = self._heads(query) * keys.shape[-1] ** -0.5 @ keys.transpose(-1, -2)
        mixed = scores.masked_fill(~seen_N11K, torch.finfo(scores.dtype).min).softmax(-1) @ values
        mixed_NLH = mixed.transpose(1, 2).reshape(x_NLH.shape)
        x_NLH = attention.output.LayerNorm(attention.output.dense(mixed_NLH) + x_NLH)
        inner = F.gelu(layer.intermediate.dense(x_NLH))
        through: Tensor = layer.output.LayerNorm(layer.output.dense(inner) + x_NLH)
        return through

    def _heads(self, x: Tensor) -> Tensor:
        """[N, K, H] -> [N, heads, K, H / heads]."""
        return x.view(len(x), x.shape[1], self.heads, -1).transpose(1, 2)
