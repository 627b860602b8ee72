"""NT-Xent loss in both directions (DeCLUTR eq. 1; pytorch-metric-learning's NTXentLoss as its model uses it).

Shape suffixes: N pairs, D dimensions.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_train.losses.info_nce import cosines


def nt_xent(anchors_ND: Tensor, positives_ND: Tensor, temperature: float = 0.05) -> Tensor:
    """Returns the mean over the 2N vectors of -log softmax of the partner's cosine among the other 2N - 1 vectors.

    A scalar in fp32. Log-sum-exp keeps it finite at any temperature; pytorch-metric-learning adds the dtype's smallest
    number inside the log and so caps a pair at 87 in fp32.
    """
    assert anchors_ND.shape == positives_ND.shape, (anchors_ND.shape, positives_ND.shape)
    assert temperature > 0
    both = torch.cat([anchors_ND, positives_ND])
    logits = cosines(both, both) / temperature
    # A vector is no candidate for itself.
    itself = torch.eye(len(both), dtype=torch.bool, device=both.device)
    partner = torch.arange(len(both), device=both.device).roll(len(anchors_ND))
    return F.cross_entropy(logits.masked_fill(itself, float("-inf")), partner).float()
