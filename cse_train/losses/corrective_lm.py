"""Loss of corrective language modelling: recover the original token, or copy the token there (DiffCSE footnote 5).

Shape suffixes: T tokens, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def corrective_lm(logits_TV: Tensor, copy_T: Tensor, edited_T: Tensor, source_T: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the sum over tokens of -log p(source), and T, for `mean_over_ranks`.

    p = [edited == source] c + (1 - c) softmax(logits)[source] with c = sigmoid(copy): COCO-LM's copy mechanism (eq. 3
    there), as one likelihood with the gradient through c. DiffCSE's code for this row is not released; COCO-LM itself
    adds a second loss on c and stops the gradient here.
    """
    assert logits_TV.shape[:1] == copy_T.shape == edited_T.shape == source_T.shape
    predicted_T = -F.cross_entropy(logits_TV.float(), source_T, reduction="none") + F.logsigmoid(-copy_T.float())
    copied_T = torch.logaddexp(predicted_T, F.logsigmoid(copy_T.float()))
    total = -torch.where(edited_T == source_T, copied_T, predicted_T).sum()
    return total, source_T.new_full((), len(source_T))
