"""The masked-LM head of BERT and RoBERTa: transform, then the tied word embedding as decoder."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PretrainedConfig


class MaskedLMHead(nn.Module):
    """hidden [M, H] -> vocabulary logits [M, vocab_size]; the decoder weight is passed in because it is tied."""

    def __init__(self, config: "PretrainedConfig") -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_MH: Tensor, word_embedding: Tensor) -> Tensor:
        return F.linear(self.transformed(hidden_MH), word_embedding, self.bias)

    def transformed(self, hidden_MH: Tensor) -> Tensor:
        """What the decoder reads [M, H]."""
        transformed: Tensor = self.norm(F.gelu(self.transform(hidden_MH)))
        return transformed
