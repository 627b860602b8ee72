"""Loss of SG-OPT: NT-Xent with guides, its redesigns (Kim, Yoo and Lee, ACL 2021, section 3.2).

Shape suffixes: B sentences, K guides of a sentence, D dimensions.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_train.losses.info_nce import cosines, info_nce
from cse_train.losses.nt_xent import nt_xent

Objective = Literal["base", "opt1", "opt2", "opt3"]
"""Variant of the loss, as section 3.2 of the paper names it."""


def self_guided(
    sentences_BD: Tensor, guides_BKD: Tensor, temperature: float, objective: Objective, every_negative: bool = True
) -> Tensor:
    """Returns the mean loss of sentence vectors c against their guides h, one direction but for `base`; fp32 scalar.

    base: NT-Xent over all c and h in both directions (section 3.1). opt1: c towards its own h, away from the other c
    and h. opt2: away from the other h alone; without `every_negative` the first other h is none (released loss.py:125,
    whose slice begins one too late). opt3: as opt2, with K guides of each sentence, each of which is a positive of its
    own against all guides of the other sentences. K is 1 for all but opt3.
    """
    if objective == "opt3":
        return _many_guides(sentences_BD, guides_BKD, temperature)
    guides_BD = guides_BKD.squeeze(1)
    if objective == "base":
        return nt_xent(sentences_BD, guides_BD, temperature)
    if objective == "opt2" and every_negative:
        return info_nce(sentences_BD, guides_BD, temperature=temperature)
    if objective == "opt2":
        return _without_first(cosines(sentences_BD, guides_BD) / temperature)
    itself = torch.eye(len(sentences_BD), dtype=torch.bool, device=sentences_BD.device)
    others = cosines(sentences_BD, sentences_BD).masked_fill(itself, float("-inf"))
    logits = torch.cat([cosines(sentences_BD, guides_BD), others], dim=1) / temperature
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device)).float()


def _without_first(logits_BB: Tensor) -> Tensor:
    """Returns the cross-entropy of each row's own column, without the first of the row's other columns."""
    rows = torch.arange(len(logits_BB), device=logits_BB.device)
    first_other_B = (rows == 0).long()
    assert len(rows) > 1, len(rows)
    return F.cross_entropy(logits_BB.scatter(1, first_other_B[:, None], float("-inf")), rows).float()


def _many_guides(sentences_BD: Tensor, guides_BKD: Tensor, temperature: float) -> Tensor:
    rows = len(sentences_BD)
    logits_BBK = cosines(sentences_BD, guides_BKD.flatten(0, 1)).view(rows, rows, -1) / temperature
    itself_B = torch.arange(rows, device=logits_BBK.device)
    own_BK = logits_BBK[itself_B, itself_B]
    others_BB = itself_B[:-1] + (itself_B[:-1] >= itself_B[:, None])  # a mask's size is not known without waiting
    others_B1 = logits_BBK[itself_B[:, None], others_BB].flatten(1).logsumexp(1, keepdim=True)
    return (torch.logaddexp(own_BK, others_B1) - own_BK).mean().float()
