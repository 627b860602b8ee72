"""Loss of BERT-flow: negative log-likelihood under a standard normal prior (Li et al., EMNLP 2020, eq. 4).

Shape suffixes: B rows, D dimensions.
"""

import math

from torch import Tensor


def bits_per_dimension(z_BD: Tensor, log_det: Tensor) -> Tensor:
    """Returns the mean over rows of -(log N(z; 0, 1) + log |dz/dx|) / (D log 2); `log_det` is a scalar or [B].

    Bits and the division by D follow the released code (flow/glow_1x1.py).
    """
    size = z_BD.shape[1]
    log_prior_B = -0.5 * (z_BD.square().sum(1) + size * math.log(2 * math.pi))
    return -(log_prior_B + log_det).mean() / (size * math.log(2))
