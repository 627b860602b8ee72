"""Alignment and uniformity of the views in a training batch, without gradient."""

import torch
from torch import Tensor

from cse_train.losses.info_nce import normalise


@torch.no_grad()
def view_statistics(anchors_BD: Tensor, positives_BD: Tensor) -> dict[str, Tensor]:
    """Returns mean positive and negative cosine, alignment and uniformity of a batch (Wang and Isola, 2020).

    alignment = mean |a - p|^2, uniformity = log mean over i < j of exp(-2 |a_i - a_j|^2), both on unit vectors.
    """
    with torch.autocast(anchors_BD.device.type, enabled=False):
        anchors, positives = normalise(anchors_BD), normalise(positives_BD)
        similar, spread = anchors @ positives.T, anchors @ anchors.T
    rows = len(similar)
    positive = similar.diagonal().mean()
    negative = (similar.sum() - similar.diagonal().sum()) / max(1, rows * (rows - 1))
    among = (4 * (spread - 1)).exp()
    uniform = ((among.sum() - among.diagonal().sum()) / max(1, rows * (rows - 1))).log()
    return {
        "positive_cosine": positive.float(),
        "negative_cosine": negative.float(),
        "alignment": (2 - 2 * positive).float(),
        "uniformity": uniform.float(),
    }
