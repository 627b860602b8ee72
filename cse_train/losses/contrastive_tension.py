"""Loss of Contrastive Tension (Carlsson et al., ICLR 2021, section 3): do both vectors come from one sentence?

Shape suffixes: B pairs, D dimensions.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def contrastive_tension(first_BD: Tensor, second_BD: Tensor, same_B: Tensor) -> Tensor:
    """Returns the mean binary cross-entropy of sigmoid(f1 . f2) against `same_B`, True where both read one sentence.

    A negative pair costs -log(1 - sigmoid(f1 . f2)), as the section's text and the released ContrastiveTensionModel.py
    have it. The result is a scalar in fp32, inside autocast too.
    """
    assert first_BD.shape == second_BD.shape and same_B.shape == first_BD.shape[:1], (first_BD.shape, same_B.shape)
    with torch.autocast(first_BD.device.type, enabled=False):
        products_B = (first_BD.double() * second_BD.double()).sum(-1)
        return F.binary_cross_entropy_with_logits(products_B, same_B.double()).float()
