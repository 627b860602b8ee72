"""InfoNCE over in-batch, extra and hard negatives (SimCSE eq. 1 and 5, ESimCSE eq. 6).

Shape suffixes: B anchors, N extra negatives, D dimensions.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

EPSILON = 1e-8
"""Smallest norm that a vector is divided by, as in `nn.CosineSimilarity`."""


def normalise(rows_BD: Tensor) -> Tensor:
    """Scales rows to unit length in fp64."""
    return F.normalize(rows_BD.double(), dim=-1, eps=EPSILON)


def cosines(left_BD: Tensor, right_ND: Tensor) -> Tensor:
    """Returns cosine similarities [B, N] in fp64, inside autocast too.

    A temperature of 0.05 makes a rounding twenty times as large, and untrained sentences lie close together: in fp32,
    half of the step's distance from its exact gradient came from here.
    """
    with torch.autocast(left_BD.device.type, enabled=False):
        return normalise(left_BD) @ normalise(right_ND).T


def info_nce(
    anchors_BD: Tensor,
    positives_BD: Tensor,
    negatives_ND: Tensor | None = None,
    hard_negatives_BD: Tensor | None = None,
    hard_negative_weight: float = 1.0,
    temperature: float = 0.05,
) -> Tensor:
    """Returns the mean over anchors i of -log softmax_i, one direction (anchor to positive), a scalar in fp32.

    Columns of the softmax: all B positives, then all B hard negatives, then the N extra negatives. The weight `a`
    multiplies exp(cos / temperature) of an anchor's OWN hard negative only (SimCSE models.py:204-210 adds log a there).
    """
    assert anchors_BD.shape == positives_BD.shape, (anchors_BD.shape, positives_BD.shape)
    assert hard_negatives_BD is None or hard_negatives_BD.shape == anchors_BD.shape
    assert temperature > 0 and hard_negative_weight > 0
    logits = [cosines(anchors_BD, positives_BD) / temperature]
    if hard_negatives_BD is not None:
        hard = cosines(anchors_BD, hard_negatives_BD) / temperature
        weight = torch.full((len(hard),), math.log(hard_negative_weight), dtype=hard.dtype, device=hard.device)
        logits.append(hard + torch.diag(weight))
    if negatives_ND is not None and len(negatives_ND):
        logits.append(cosines(anchors_BD, negatives_ND) / temperature)
    target = torch.arange(len(anchors_BD), device=anchors_BD.device)
    return F.cross_entropy(torch.cat(logits, dim=1), target).float()
