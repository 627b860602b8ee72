"""What DiffCSE asks about an edited sentence, given the embedding of the original (section 3, tables 3 and 4).

Each task owns a second encoder: a copy of the first that shares no weight with it. The embedding takes the place of its
embedding layer's output at position 0, after LayerNorm and dropout and without a position of its own (DiffCSE
modeling_bert.py:960-961). A task gives its loss, right under DDP's mean, and what to log.
Shape suffixes: N sequences, T packed slots, M some of them, H width.
"""

import copy

from torch import Tensor, nn

from cse_train.distributed import mean_over_ranks
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.masked_lm_head import MaskedLMHead
from cse_train.encoder.packing import Packed
from cse_train.generator.edited import Edited
from cse_train.losses.corrective_lm import corrective_lm
from cse_train.losses.masked_lm import masked_lm
from cse_train.losses.replaced_token import replaced_token

Result = tuple[Tensor, dict[str, Tensor]]


class ConditionalTask(nn.Module):
    """The copied encoder."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)

    def hidden(self, packed: Packed, condition_NH: Tensor) -> Tensor:
        """Last layer [T, H] with the conditions, in batch order, in the [CLS] slots."""
        last_TH = self.encoder(packed, tokens=True, cls_output_NH=condition_NH).last_TH
        assert isinstance(last_TH, Tensor)
        return last_TH


class ReplacedToken(ConditionalTask):
    """Conditional replaced-token detection (eq. 3): the discriminator, whose head Linear(H, 2) is new."""

    def __init__(self, encoder: Encoder, reduction: str) -> None:
        super().__init__(encoder)
        self.head = nn.Linear(encoder.width, 2)
        self.reduction = reduction

    def forward(self, edited: Edited, condition_NH: Tensor) -> Result:
        logits_T2 = self.head(self.hidden(edited.packed, condition_NH))
        attended_T = edited.packed.attended_T()
        loss = mean_over_ranks(*replaced_token(logits_T2, edited.replaced_T, attended_T, self.reduction))
        right = (logits_T2.argmax(1) == edited.replaced_T) & attended_T
        return loss, {"loss_rtd": loss.detach(), "rtd_accuracy": right.sum() / attended_T.sum()}


class ConditionalMaskedLM(ConditionalTask):
    """Which token was masked here? The mean over the chosen positions; the head is a copy of the encoder's.

    Its decoder is the copied encoder's word embedding; the released code has no such task that would say otherwise.
    CMLM (Yang et al. 2020) projects its vector to several positions; here it takes one, as in the rest of DiffCSE.
    """

    def __init__(self, encoder: Encoder, head: MaskedLMHead) -> None:
        super().__init__(encoder)
        self.head = copy.deepcopy(head)

    def forward(self, edited: Edited, condition_NH: Tensor) -> Result:
        at_M = edited.chosen_M
        logits_MV = self.head(self.hidden(edited.packed, condition_NH)[at_M], self.encoder.word.weight)
        loss = mean_over_ranks(*masked_lm(logits_MV, edited.source_T[at_M]))
        return loss, {"loss_mlm": loss.detach()}


class CorrectiveLM(ConditionalTask):
    """Which token stood here, copying included? The mean over all real tokens; the head is a copy of the encoder's."""

    def __init__(self, encoder: Encoder, head: MaskedLMHead) -> None:
        super().__init__(encoder)
        self.head = copy.deepcopy(head)
        self.copy = nn.Linear(encoder.width, 1)

    def forward(self, edited: Edited, condition_NH: Tensor) -> Result:
        at_M = edited.packed.attended_M()
        hidden_MH = self.hidden(edited.packed, condition_NH)[at_M]
        logits_MV, copy_M = self.head(hidden_MH, self.encoder.word.weight), self.copy(hidden_MH).squeeze(1)
        ids_M, source_M = edited.packed.ids_T[at_M], edited.source_T[at_M]
        loss = mean_over_ranks(*corrective_lm(logits_MV, copy_M, ids_M, source_M))
        copied = (copy_M.detach() > 0).eq(ids_M == source_M).float().mean()
        return loss, {"loss_corrective": loss.detach(), "copy_accuracy": copied}
