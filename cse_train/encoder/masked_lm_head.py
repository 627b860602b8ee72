"""Masked-LM head of BERT and RoBERTa: a transform, then the word embedding, or a copy of it, as decoder."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PretrainedConfig


class MaskedLMHead(nn.Module):
    """Maps hidden states [M, H] to vocabulary logits [M, vocab_size]; a tied decoder weight is passed to `forward`."""

    decoder: nn.Parameter | None

    def __init__(self, config: "PretrainedConfig") -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.register_parameter("decoder", None)

    def untied(self, word_embedding: Tensor) -> "MaskedLMHead":
        """Gives the head a trainable decoder [vocab_size, H] that starts as the word embedding; returns the head."""
        self.decoder = nn.Parameter(word_embedding.detach().clone())
        return self

    def forward(self, hidden_MH: Tensor, word_embedding: Tensor) -> Tensor:
        decoder = word_embedding if self.decoder is None else self.decoder
        return F.linear(self.transformed(hidden_MH), decoder, self.bias)

    def transformed(self, hidden_MH: Tensor) -> Tensor:
        """Returns the states [M, H] that the decoder multiplies."""
        transformed: Tensor = self.norm(F.gelu(self.transform(hidden_MH)))
        return transformed
