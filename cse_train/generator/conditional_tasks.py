"""DiffCSE's tasks on an edited sentence, given the embedding of the original (section 3, tables 3 and 4).

Each task owns a second encoder: a copy of the first that shares no weight with it. The embedding takes the place of its
embedding layer's output at position 0, after LayerNorm and dropout and without a position of its own (DiffCSE
modeling_bert.py:960-961). A task returns its loss, right under DDP's mean, and metrics to log. Shape suffixes: N
sequences, T packed slots, M some of them, H width.
"""

import copy

from torch import Tensor, nn

from cse_train.distributed import mean_over_ranks
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.masked_lm_head import MaskedLMHead
from cse_train.encoder.packing import Packed
from cse_train.generator.edited import Edited
from cse_train.losses import corrective_lm, masked_lm, replaced_token

Result = tuple[Tensor, dict[str, Tensor]]
"""Loss of a task, and its metrics by name."""


class ConditionalTask(nn.Module):
    """Base of DiffCSE's tasks: owns a copy of the encoder, which reads an edited sentence with a condition."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)

    def hidden(self, packed: Packed, condition_NH: Tensor) -> Tensor:
        """Returns the last layer [T, H], with the conditions, in batch order, in place of the [CLS] embeddings."""
        last_TH = self.encoder(packed, tokens=True, cls_output_NH=condition_NH).last_TH
        assert isinstance(last_TH, Tensor)
        return last_TH


class ReplacedToken(ConditionalTask):
    """Conditional replaced-token detection (DiffCSE eq. 3): a discriminator with a new head, Linear(H, 2)."""

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
    """Conditional masked LM: predicts the masked tokens; the loss is the mean over the chosen positions.

    The head is a copy of the encoder's, and its decoder the copied encoder's word embedding; the released code has no
    such task that would say otherwise. CMLM (Yang et al. 2020) projects its vector to several positions; here it takes
    one, as in the rest of DiffCSE.
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
    """Corrective LM: predicts the original token at every position, by copying or by a copy of the encoder's head.

    The loss is the mean over all real tokens.
    """

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
