"""Finds the largest of a vocabulary's logits for many slots at once, in little more than the product's time.

torch's linear copies the bias into the whole result first, and its argmax looks at single numbers: together as dear as
the product. Here the bias is added behind, and the place is looked for in the best run of numbers alone; the ids are
those of `logits.argmax(-1)`, the first of equal ones. Shape suffixes: S slots, V vocabulary, H width, R runs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

GENERATOR_RUN = 128
"""Length of the runs of logits whose largest number is found first."""
GENERATOR_ROWS = 128
"""Multiple to which the number of slots is padded: oneDNN compiles each shape that it has not seen."""


def most_probable(hidden_SH: Tensor, weight_VH: Tensor, bias_V: Tensor) -> Tensor:
    """Returns the ids [S] with the largest logits. Raises IndexError for an empty vocabulary."""
    padding = -len(hidden_SH) % GENERATOR_ROWS
    logits_SV = F.linear(F.pad(hidden_SH, (0, 0, 0, padding)), weight_VH).add_(bias_V)
    return largest(logits_SV[: len(hidden_SH)])


def largest(x_SV: Tensor) -> Tensor:
    """Returns `x_SV.argmax(-1)`, computed faster for long rows."""
    numbers = x_SV.shape[1]
    if numbers < 2 * GENERATOR_RUN:
        return x_SV.argmax(-1)
    # `unfold` drops a rest that fills no run: the last run is counted from the end, and may overlap the one before.
    ends = x_SV[:, -GENERATOR_RUN:].amax(-1, keepdim=True)
    highest_SR = torch.cat([x_SV.unfold(1, GENERATOR_RUN, GENERATOR_RUN).amax(-1), ends], 1)
    first_S = (highest_SR.argmax(-1) * GENERATOR_RUN).clamp(max=numbers - GENERATOR_RUN)
    within_SR = x_SV.gather(1, first_S[:, None] + torch.arange(GENERATOR_RUN, device=x_SV.device))
    return first_S + within_SR.argmax(-1)
