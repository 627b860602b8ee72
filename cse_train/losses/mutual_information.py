"""Loss of IS-BERT: mutual information between a sentence and its tokens (Zhang et al., EMNLP 2020, section 3.2).

Shape suffixes: T tokens, G sentences, D dimensions.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def jensen_shannon(tokens_TD: Tensor, sentences_GD: Tensor, own_T: Tensor) -> tuple[Tensor, Tensor]:
    """Returns minus the Jensen-Shannon estimate of the information, a sum over tokens (fp32 scalar), and T as a tensor.

    `own_T` is each token's sentence, int64 below G; the other G - 1 sentences are its negatives. A token costs
    sp(-T(own)) + mean sp(T(other)) - 2 log 2, with the dot product as the discriminator T and sp the softplus: the
    released MutualInformationLoss.py adds and takes away log 2 as Deep InfoMax does, which moves no gradient.
    """
    assert len(tokens_TD) == len(own_T) and len(sentences_GD) > 1, (len(tokens_TD), len(own_T), len(sentences_GD))
    with torch.autocast(tokens_TD.device.type, enabled=False):
        scores_TG = tokens_TD.float() @ sentences_GD.float().T
        own_T1 = own_T[:, None]
        positive = F.softplus(-scores_TG.gather(1, own_T1)).sum()
        negative = F.softplus(scores_TG).scatter(1, own_T1, 0.0).sum() / (len(sentences_GD) - 1)
        total = positive + negative - 2 * len(own_T) * F.softplus(scores_TG.new_zeros(()))
        return total, own_T.new_full((), len(own_T))
