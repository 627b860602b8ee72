"""Deep continuous prompts on a frozen encoder (DCPCSE; PromCSE models.py:21-47, 385-398; D2CSE section 3).

Shape suffixes: P prompts, H hidden size, D head size, N sequences.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from cse_train.encoder.dropout import dropout
from cse_train.encoder.encoder import Encoder, Hidden
from cse_train.encoder.packing import Packed
from cse_train.fields import ConfigError

if TYPE_CHECKING:
    from transformers import PretrainedConfig


class ContinuousPrompts(nn.Module):
    """P trainable keys and values in every layer, N(0, 0.02) and fp32: 2 * layers * P * H parameters.

    In training each sequence of each view gets them under a dropout mask of its own, at the encoder's hidden rate, so
    that prompts carry augmentation noise too.
    """

    def __init__(self, config: "PretrainedConfig", length: int, *, shift: bool = True, dropout: bool = True) -> None:
        super().__init__()
        self.length = length
        self.shift = shift
        self.heads = config.num_attention_heads
        self.rate = config.hidden_dropout_prob if dropout else 0.0
        shape = (config.num_hidden_layers, 2, length, config.hidden_size)
        self.weight = nn.Parameter(torch.empty(shape).normal_(0.0, 0.02))

    def keys_values(self, layer: int, rows: int) -> tuple[Tensor, Tensor]:
        """Returns the prompts' keys and values of one layer, each [rows, heads, P, D]."""
        size = self.weight.shape[-1] // self.heads
        heads = self.weight[layer].view(2, 1, self.length, self.heads, size).transpose(2, 3)
        key, value = dropout(heads.expand(-1, rows, -1, -1, -1), self.rate, self.training)
        return key, value


class PromptedEncoder(nn.Module):
    """A frozen encoder that is steered by trained prompts alone; its own dropout stays on in training.

    `cls_id` asks for the [CLS] prompt: a trainable word embedding at position 0 that starts as that token's (D2CSE).
    """

    def __init__(self, encoder: Encoder, prompts: ContinuousPrompts, cls_id: int | None = None) -> None:
        super().__init__()
        require_positions(encoder, prompts.length, prompts.shift, tokens=1)
        self.encoder = encoder.requires_grad_(False)
        self.prompts = prompts
        self.cls_word = None if cls_id is None else nn.Parameter(encoder.word.weight[cls_id].detach().clone())

    @property
    def width(self) -> int:
        """Hidden size H of the encoder."""
        return self.encoder.width

    def forward(
        self, packed: Packed, *, views: int = 1, tokens: bool = False, cls_output_NH: Tensor | None = None
    ) -> Hidden:
        """Encodes a pack as `Encoder.forward` does, with the prompts in every layer."""
        return self.encoder(
            packed,
            views=views,
            tokens=tokens,
            prompts=self.prompts,
            cls_word_H=self.cls_word,
            cls_output_NH=cls_output_NH,
        )


def require_positions(encoder: Encoder, length: int, shift: bool, tokens: int) -> None:
    """Raises ConfigError when sequences of `tokens` do not fit behind prompts that shift their positions."""
    room = encoder.config.max_position_embeddings - encoder.position_offset
    if shift and length + tokens > room:
        line = f"prompts overflow positions: method.prompt_length={length} and {tokens} tokens, of {room}"
        raise ConfigError([f"{line}; shorten either, or set method.position_shift=false"])
