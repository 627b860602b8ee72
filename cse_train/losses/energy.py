"""Energy-based hinge loss for supervised triplets (PromCSE v2, section 3.3).

Shape suffixes: B examples, D dimensions.
"""

import torch
from torch import Tensor

from cse_train.losses.info_nce import cosines


def energy_hinge(
    anchors_BD: Tensor, positives_BD: Tensor, hard_negatives_BD: Tensor | None = None, margin: float = 0.2
) -> Tensor:
    """Returns the mean over anchors of max(0, margin - cos(own positive) + the largest cosine with a negative), fp32.

    Negatives are the other examples' positives and every example's hard negative, the anchor's own included (PromCSE
    models.py:247-259). A lone anchor without hard negatives has none and costs 0.
    """
    assert anchors_BD.shape == positives_BD.shape, (anchors_BD.shape, positives_BD.shape)
    assert hard_negatives_BD is None or hard_negatives_BD.shape == anchors_BD.shape
    similar = cosines(anchors_BD, positives_BD)
    diagonal = torch.eye(len(similar), dtype=torch.bool, device=similar.device)
    others = [similar.masked_fill(diagonal, float("-inf"))]
    if hard_negatives_BD is not None:
        others.append(cosines(anchors_BD, hard_negatives_BD))
    hardest = torch.cat(others, dim=1).amax(1)
    return (margin - similar.diagonal() + hardest).clamp(min=0).mean().float()
