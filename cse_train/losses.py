"""Loss functions of all methods, and the statistics of their views: functions of torch tensors alone.

Shape suffixes: B examples, anchors or pairs, N extra negatives or pairs, D dimensions, T tokens or token slots of the
batch, G sentences, K classes or guides, V vocabulary, M masked positions.
"""

import math
from typing import Literal

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
    """InfoNCE (SimCSE eq. 1 and 5, ESimCSE eq. 6): mean over anchors i of -log softmax_i, a scalar in fp32.

    One direction alone, from anchor to positive. Columns of the softmax: all B positives, then all B hard negatives,
    then the N extra negatives. The weight `a` multiplies exp(cos / temperature) of an anchor's OWN hard negative only
    (SimCSE models.py:204-210 adds log a there).
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


def nt_xent(anchors_ND: Tensor, positives_ND: Tensor, temperature: float = 0.05) -> Tensor:
    """NT-Xent in both directions (DeCLUTR eq. 1): mean -log softmax of the partner's cosine among the other vectors.

    The mean is over all 2N vectors, each of which has 2N - 1 others. A scalar in fp32. Log-sum-exp keeps it finite at
    any temperature; pytorch-metric-learning adds the dtype's smallest number inside the log and so caps a pair at 87 in
    fp32.
    """
    assert anchors_ND.shape == positives_ND.shape, (anchors_ND.shape, positives_ND.shape)
    assert temperature > 0
    both = torch.cat([anchors_ND, positives_ND])
    logits = cosines(both, both) / temperature
    # A vector is no candidate for itself.
    itself = torch.eye(len(both), dtype=torch.bool, device=both.device)
    partner = torch.arange(len(both), device=both.device).roll(len(anchors_ND))
    return F.cross_entropy(logits.masked_fill(itself, float("-inf")), partner).float()


Objective = Literal["base", "opt1", "opt2", "opt3"]
"""Variant of the loss, as section 3.2 of the paper names it."""


def self_guided(
    sentences_BD: Tensor, guides_BKD: Tensor, temperature: float, objective: Objective, every_negative: bool = True
) -> Tensor:
    """Loss of SG-OPT (Kim, Yoo and Lee, ACL 2021, 3.2): mean loss of sentence vectors c against guides h; fp32 scalar.

    One direction but for `base`. base: NT-Xent over all c and h in both directions (section 3.1). opt1: c towards its
    own h, away from the other c and h. opt2: away from the other h alone; without `every_negative` the first other h is
    none (released loss.py:125, whose slice begins one too late). opt3: as opt2, with K guides of each sentence, each of
    which is a positive of its own against all guides of the other sentences. K is 1 for all but opt3.
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


def energy_hinge(
    anchors_BD: Tensor, positives_BD: Tensor, hard_negatives_BD: Tensor | None = None, margin: float = 0.2
) -> Tensor:
    """Returns the mean over anchors of max(0, margin - cos(own positive) + the largest cosine with a negative), fp32.

    Source: PromCSE v2, section 3.3. Negatives are the other examples' positives and every example's hard negative, the
    anchor's own included (its models.py:247-259). A lone anchor without hard negatives has none and costs 0.
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


def contrastive_tension(first_BD: Tensor, second_BD: Tensor, same_B: Tensor) -> Tensor:
    """Returns the mean binary cross-entropy of sigmoid(f1 . f2) against `same_B`, True where both read one sentence.

    Source: Contrastive Tension (Carlsson et al., ICLR 2021, section 3). A negative pair costs -log(1 - sigmoid(f1 .
    f2)), as the section's text and the released ContrastiveTensionModel.py have it. The result is a scalar in fp32,
    inside autocast too.
    """
    assert first_BD.shape == second_BD.shape and same_B.shape == first_BD.shape[:1], (first_BD.shape, same_B.shape)
    with torch.autocast(first_BD.device.type, enabled=False):
        products_B = (first_BD.double() * second_BD.double()).sum(-1)
        return F.binary_cross_entropy_with_logits(products_B, same_B.double()).float()


def jensen_shannon(tokens_TD: Tensor, sentences_GD: Tensor, own_T: Tensor) -> tuple[Tensor, Tensor]:
    """Returns minus the Jensen-Shannon estimate of the information, a sum over tokens (fp32 scalar), and T as a tensor.

    Source: IS-BERT (Zhang et al., EMNLP 2020, section 3.2), between a sentence and its tokens. `own_T` is each token's
    sentence, int64 below G; the other G - 1 sentences are its negatives. A token costs sp(-T(own)) + mean sp(T(other))
    - 2 log 2, with the dot product as the discriminator T and sp the softplus: the released MutualInformationLoss.py
    adds and takes away log 2 as Deep InfoMax does, which moves no gradient.
    """
    assert len(tokens_TD) == len(own_T) and len(sentences_GD) > 1, (len(tokens_TD), len(own_T), len(sentences_GD))
    with torch.autocast(tokens_TD.device.type, enabled=False):
        scores_TG = tokens_TD.float() @ sentences_GD.float().T
        own_T1 = own_T[:, None]
        positive = F.softplus(-scores_TG.gather(1, own_T1)).sum()
        negative = F.softplus(scores_TG).scatter(1, own_T1, 0.0).sum() / (len(sentences_GD) - 1)
        total = positive + negative - 2 * len(own_T) * F.softplus(scores_TG.new_zeros(()))
        return total, own_T.new_full((), len(own_T))


def pair_features(left_BD: Tensor, right_BD: Tensor) -> Tensor:
    """Returns (u, v, |u - v|) of each pair, [B, 3D]: the input of SBERT's softmax classifier (its section 3)."""
    assert left_BD.shape == right_BD.shape, (left_BD.shape, right_BD.shape)
    return torch.cat([left_BD, right_BD, (left_BD - right_BD).abs()], dim=1)


def product_features(left_BD: Tensor, right_BD: Tensor) -> Tensor:
    """Returns (u, v, |u - v|, u * v) of each pair, [B, 4D]: the input of InferSent's classifier (section 3.1)."""
    return torch.cat([pair_features(left_BD, right_BD), left_BD * right_BD], dim=1)


def classification(logits_BK: Tensor, label_B: Tensor) -> Tensor:
    """Returns the mean cross-entropy of the softmax of `logits_BK`, for SBERT W_t (u, v, |u - v|): a scalar in fp32.

    Here and in `triplet` an example's loss needs no other example, so a rank's own mean is right under DDP's average.
    """
    return F.cross_entropy(logits_BK.float(), label_B)


def triplet(anchors_BD: Tensor, positives_BD: Tensor, negatives_BD: Tensor, margin: float = 1.0) -> Tensor:
    """Returns the mean of max(|a - p| - |a - n| + margin, 0) with Euclidean distances: a scalar in fp32."""
    assert anchors_BD.shape == positives_BD.shape == negatives_BD.shape
    near_B, far_B = ((anchors_BD - others).float().norm(dim=1) for others in (positives_BD, negatives_BD))
    return (near_B - far_B + margin).clamp(min=0).mean()


def masked_lm(logits_MV: Tensor, target_M: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the sum of the cross-entropies over M masked positions (fp32 scalar) and M as a tensor.

    They are two results so that ranks with different counts can be joined exactly (`mean_over_ranks`).
    """
    assert logits_MV.shape[:1] == target_M.shape, (logits_MV.shape, target_M.shape)
    total = F.cross_entropy(logits_MV.float(), target_M, reduction="sum")
    return total, target_M.new_full((), len(target_M))


REDUCTIONS = ("mean_all", "mean_attended", "sum")
"""Reductions of the replaced-token loss. mean_all: over every slot, padding (label 0) included, as released (DiffCSE
models.py:272), so the width of the batch matters and must be that of the global batch; mean_attended: over the real
tokens; sum: over the real tokens of the batch, the papers' formula, whose weight is 1 / (tokens) times a mean's."""


def replaced_token(logits_T2: Tensor, replaced_T: Tensor, attended_T: Tensor, reduction: str) -> tuple[Tensor, Tensor]:
    """Returns the cross-entropy of (original, replaced) as an fp32 sum, and its divisor, for `mean_over_ranks`.

    Source: DiffCSE eq. 3, D2CSE eq. 2. replaced_T: bool, ignored where attended_T (bool) is False. The divisor of `sum`
    is 0: the sum stays undivided.
    """
    assert reduction in REDUCTIONS, reduction
    assert logits_T2.shape == (len(replaced_T), 2) and replaced_T.shape == attended_T.shape
    entropy_T = F.cross_entropy(logits_T2.float(), (replaced_T & attended_T).long(), reduction="none")
    if reduction == "mean_all":
        return entropy_T.sum(), attended_T.new_ones(()).long() * len(entropy_T)
    total = (entropy_T * attended_T).sum()
    return total, attended_T.sum() * (reduction == "mean_attended")


def corrective_lm(logits_TV: Tensor, copy_T: Tensor, edited_T: Tensor, source_T: Tensor) -> tuple[Tensor, Tensor]:
    """Corrective language modelling (DiffCSE footnote 5): sum over tokens of -log p(source), and T.

    p = [edited == source] c + (1 - c) softmax(logits)[source] with c = sigmoid(copy): COCO-LM's copy mechanism (eq. 3
    there), as one likelihood with the gradient through c. DiffCSE's code for this row is not released; COCO-LM itself
    adds a second loss on c and stops the gradient here.
    """
    assert logits_TV.shape[:1] == copy_T.shape == edited_T.shape == source_T.shape
    predicted_T = -F.cross_entropy(logits_TV.float(), source_T, reduction="none") + F.logsigmoid(-copy_T.float())
    copied_T = torch.logaddexp(predicted_T, F.logsigmoid(copy_T.float()))
    total = -torch.where(edited_T == source_T, copied_T, predicted_T).sum()
    return total, source_T.new_full((), len(source_T))


def bits_per_dimension(z_BD: Tensor, log_det: Tensor) -> Tensor:
    """Returns the mean over rows of -(log N(z; 0, 1) + log |dz/dx|) / (D log 2); `log_det` is a scalar or [B].

    Source: BERT-flow, the negative log-likelihood (Li et al., EMNLP 2020, eq. 4). Bits and the division by D follow the
    released code (flow/glow_1x1.py).
    """
    size = z_BD.shape[1]
    log_prior_B = -0.5 * (z_BD.square().sum(1) + size * math.log(2 * math.pi))
    return -(log_prior_B + log_det).mean() / (size * math.log(2))


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
