"""Replaced-token detection loss (DiffCSE eq. 3, D2CSE eq. 2): which tokens of a sentence did the generator change?

Shape suffixes: T token slots of the batch, padding included.
"""

import torch.nn.functional as F
from torch import Tensor

REDUCTIONS = ("mean_all", "mean_attended", "sum")
"""Reductions of the replaced-token loss. mean_all: over every slot, padding (label 0) included, as released (DiffCSE
models.py:272), so the width of the batch matters and must be that of the global batch; mean_attended: over the real
tokens; sum: over the real tokens of the batch, the papers' formula, whose weight is 1 / (tokens) times a mean's."""


def replaced_token(logits_T2: Tensor, replaced_T: Tensor, attended_T: Tensor, reduction: str) -> tuple[Tensor, Tensor]:
    """Returns the cross-entropy of (original, replaced) as an fp32 sum, and its divisor, for `mean_over_ranks`.

    replaced_T: bool, ignored where attended_T (bool) is False. The divisor of `sum` is 0: the sum stays undivided.
    """
    assert reduction in REDUCTIONS, reduction
    assert logits_T2.shape == (len(replaced_T), 2) and replaced_T.shape == attended_T.shape
    entropy_T = F.cross_entropy(logits_T2.float(), (replaced_T & attended_T).long(), reduction="none")
    if reduction == "mean_all":
        return entropy_T.sum(), attended_T.new_ones(()).long() * len(entropy_T)
    total = (entropy_T * attended_T).sum()
    return total, attended_T.sum() * (reduction == "mean_attended")
