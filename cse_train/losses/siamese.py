"""Losses of SBERT over pairs and triplets (Reimers and Gurevych 2019, section 3; its equations have no numbers), and
the features of InferSent, from which the loss over pairs comes (Conneau et al. 2017, section 3.1).

An example's loss needs no other example, so a rank's own mean is right under DDP's average. Shape suffixes: B examples,
D dimensions, K classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def pair_features(left_BD: Tensor, right_BD: Tensor) -> Tensor:
    """Returns (u, v, |u - v|) of each pair, [B, 3D]: the input of SBERT's softmax classifier."""
    assert left_BD.shape == right_BD.shape, (left_BD.shape, right_BD.shape)
    return torch.cat([left_BD, right_BD, (left_BD - right_BD).abs()], dim=1)


def product_features(left_BD: Tensor, right_BD: Tensor) -> Tensor:
    """Returns (u, v, |u - v|, u * v) of each pair, [B, 4D]: the input of InferSent's classifier."""
    return torch.cat([pair_features(left_BD, right_BD), left_BD * right_BD], dim=1)


def classification(logits_BK: Tensor, label_B: Tensor) -> Tensor:
    """Returns the mean cross-entropy of the softmax of `logits_BK`, for SBERT W_t (u, v, |u - v|): a scalar in fp32."""
    return F.cross_entropy(logits_BK.float(), label_B)


def triplet(anchors_BD: Tensor, positives_BD: Tensor, negatives_BD: Tensor, margin: float = 1.0) -> Tensor:
    """Returns the mean of max(|a - p| - |a - n| + margin, 0) with Euclidean distances: a scalar in fp32."""
    assert anchors_BD.shape == positives_BD.shape == negatives_BD.shape
    near_B, far_B = ((anchors_BD - others).float().norm(dim=1) for others in (positives_BD, negatives_BD))
    return (near_B - far_B + margin).clamp(min=0).mean()
