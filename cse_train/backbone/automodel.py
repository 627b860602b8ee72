"""Any other architecture through transformers' `AutoModel`, behind the interface of `Encoder`.

Each length group goes through the model as one padded batch, so `Hidden` has the same layout as ours.
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.encoder.encoder import Hidden
from cse_train.encoder.packing import Packed

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


class AutoModelEncoder(nn.Module):
    """A transformers encoder that returns `last_hidden_state` and `hidden_states`; position 0 is read as [CLS]."""

    def __init__(self, model: "PreTrainedModel") -> None:
        super().__init__()
        self.model = model
        self.config: PretrainedConfig = model.config
        self.skipped = 0
        """As `Encoder.skipped`."""
        self.position_offset = _position_offset(model)
        """Positions in front of the first token's, as RoBERTa's relatives count them."""

    @property
    def width(self) -> int:
        """Hidden size H."""
        return int(self.config.hidden_size)

    def forward(self, packed: Packed, *, views: int = 1, tokens: bool = False, layers: bool = False) -> Hidden:
        """As `Encoder.forward`; every view is a full pass."""
        groups: list[tuple[Tensor, ...]] = []
        first = 0
        for group, ids in packed.split(packed.ids_T[:, None]):
            lengths = packed.lengths_N[first : first + group.rows]
            first += group.rows
            states = self._group(ids.squeeze(2)[:, : group.needed], lengths, views, tokens or layers)
            behind = (0, 0, 0, group.rounded)
            groups.append(tuple(F.pad(state, behind) for state in states) if group.rounded else states)
        by_layer = list(zip(*groups, strict=True))
        cls_VNH = packed.unsort([block[:, 0] for block in by_layer[-1]], views)
        if not (tokens or layers):
            return Hidden(packed, views, cls_VNH)
        wanted = by_layer if layers else (by_layer[0], by_layer[1], by_layer[-1])
        every = tuple(torch.cat([block.reshape(-1, block.shape[-1]) for block in blocks]) for blocks in wanted)
        return Hidden(packed, views, cls_VNH, every[-1], every[0], every[1], every if layers else (), self.skipped)

    def _group(self, ids: Tensor, lengths: Tensor, views: int, tokens: bool) -> tuple[Tensor, ...]:
        """The embedding output and every layer's, or the last layer's alone."""
        real = torch.arange(ids.shape[1], device=ids.device)[None] < lengths[:, None]
        ids = torch.where(real, ids, self.config.pad_token_id or 0).repeat(views, 1)
        out = self.model(
            input_ids=ids, attention_mask=real.long().repeat(views, 1), output_hidden_states=tokens, return_dict=True
        )
        return (*out.hidden_states[:-1], out.last_hidden_state) if tokens else (out.last_hidden_state,)


def _position_offset(model: nn.Module) -> int:
    """A learned position embedding with a padding row starts to count behind that row."""
    tables = (module for name, module in model.named_modules() if name.endswith("position_embeddings"))
    rows = [table.padding_idx for table in tables if isinstance(table, nn.Embedding) and table.padding_idx is not None]
    return 1 + rows[0] if rows else 0
