"""T29: a loss is fp32 and its cosines fp64 whatever the encoder computes in; bf16 cosines would move it by percents."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cse_train.encoder.pooling import BatchNormProjector, JointBatchNorm
from cse_train.losses import (
    corrective_lm,
    cosines,
    energy_hinge,
    info_nce,
    masked_lm,
    nt_xent,
    replaced_token,
    view_statistics,
)

IDS = torch.arange(24) % 7
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosines": cosines,
    "info_nce": info_nce,
    "info_nce with negatives": lambda a, b: info_nce(a, b, a.flip(0), b.flip(0), 2.0),
    "nt_xent": nt_xent,
    "energy_hinge": lambda a, b: energy_hinge(a, b, b.flip(0)),
    "replaced_token": lambda a, b: replaced_token(a[:, :2], IDS > 3, IDS >= 0, "mean_all")[0],
    "masked_lm": lambda a, b: masked_lm(a, IDS)[0],
    "corrective_lm": lambda a, b: corrective_lm(a, b[:, 0], IDS, IDS.flip(0))[0],
    "view_statistics": lambda a, b: torch.stack(list(view_statistics(a, b).values())),
    "batch norm": lambda a, b: JointBatchNorm(8, affine=True)(a),
}


@pytest.mark.parametrize("name", LOSSES)
def test_T29_the_same_number_inside_autocast(name: str) -> None:
    generator = torch.Generator().manual_seed(4)
    views = [torch.randn(24, 8, generator=generator) for _ in range(2)]
    outside = LOSSES[name](*views)
    with torch.autocast("cpu", torch.bfloat16):
        inside = LOSSES[name](*views)
    precision = torch.float64 if name == "cosines" else torch.float32
    assert inside.dtype == precision and torch.equal(inside, outside)


def test_T29_bf16_embeddings_lose_nothing_more() -> None:
    """What the encoder rounded stays rounded; the loss on it is that of the rounded numbers in fp32."""
    views = [torch.randn(24, 8, generator=torch.Generator().manual_seed(5)).bfloat16() for _ in range(2)]
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(info_nce(*views), info_nce(*(view.float() for view in views)))


def test_T29_running_statistics_stay_fp32_under_autocast() -> None:
    projector = BatchNormProjector(8)
    with torch.autocast("cpu", torch.bfloat16):
        projector(torch.randn(2, 12, 8, generator=torch.Generator().manual_seed(6)))
    assert all(value.dtype == torch.float32 for value in projector.state_dict().values())
