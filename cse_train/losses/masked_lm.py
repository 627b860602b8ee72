"""Masked-LM cross-entropy as a sum and a count, so that ranks with different counts can be joined exactly."""

import torch.nn.functional as F
from torch import Tensor


def masked_lm(logits_MV: Tensor, target_M: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the sum of the cross-entropies over M masked positions (fp32 scalar) and M as a tensor."""
    assert logits_MV.shape[:1] == target_M.shape, (logits_MV.shape, target_M.shape)
    total = F.cross_entropy(logits_MV.float(), target_M, reduction="sum")
    return total, target_M.new_full((), len(target_M))
