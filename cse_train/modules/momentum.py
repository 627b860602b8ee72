"""An exponential moving average of an encoder (MoCo; ESimCSE eq. 5)."""

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from cse_train.encoder.encoder import Hidden
from cse_train.encoder.packing import Packed


class MomentumEncoder(nn.Module):
    """Average of an encoder, theta_m <- m * theta_m + (1 - m) * theta_e, in fp32; never trained, without dropout.

    `initial="random"` keeps the released code's behaviour: there the copy is taken before the checkpoint is loaded, so
    theta_m starts from new weights; "pretrained" is what the paper means.
    """

    def __init__(self, online: nn.Module, momentum: float, initial: Literal["pretrained", "random"]) -> None:
        super().__init__()
        self.momentum = momentum
        self.average = copy.deepcopy(online).requires_grad_(False)
        if initial == "random":
            redraw(self.average)

    @torch.no_grad()
    def update(self, online: nn.Module) -> None:
        """Moves the average one step towards the online encoder as it is now, before the optimiser's step."""
        averages: list[Tensor] = [p for p in self.average.parameters() if p.is_floating_point()]
        weights: list[Tensor] = [p for p in online.parameters() if p.is_floating_point()]
        torch._foreach_lerp_(averages, weights, 1.0 - self.momentum)

    @torch.no_grad()
    def forward(self, packed: Packed, tokens: bool) -> Hidden:
        self.average.eval()
        return self.average(packed, views=1, tokens=tokens)


def redraw(encoder: nn.Module) -> None:
    """Replaces every weight by BERT's initialisation, from torch's global generator."""
    for name, parameter in encoder.named_parameters():
        with torch.no_grad():
            if name.endswith("bias"):
                parameter.zero_()
            elif parameter.ndim == 1:
                parameter.fill_(1.0)
            else:
                parameter.normal_(0.0, 0.02)
