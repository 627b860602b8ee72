"""T14: the BatchNorm projector against torch's BatchNorm1d on the joined rows."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cse_train.encoder.pooling import BatchNormProjector, JointBatchNorm, MlpProjector


@pytest.fixture
def views_VNH() -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.stack([torch.randn(5, 8, generator=generator), 3 + 2 * torch.randn(5, 8, generator=generator)])


@pytest.fixture
def projector() -> BatchNormProjector:
    return BatchNormProjector(8, torch.Generator().manual_seed(1)).train()


def test_T14_output_has_mean_0_and_variance_1_over_both_views(projector, views_VNH) -> None:
    rows = projector(views_VNH).flatten(0, 1)
    torch.testing.assert_close(rows.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(rows.var(0, unbiased=False), torch.ones(8), atol=5e-2, rtol=0)  # eps


def test_T14_joint_statistics_are_not_the_views_own(projector, views_VNH) -> None:
    joint = projector(views_VNH)
    apart = torch.stack([projector(view) for view in views_VNH])
    assert (joint - apart).abs().max() > 0.1


def test_T14_equals_torch_on_the_joined_rows_with_gradient_and_running_statistics(projector, views_VNH) -> None:
    inner, outer = nn.BatchNorm1d(16), nn.BatchNorm1d(8, affine=False)
    mine, theirs = views_VNH.clone().requires_grad_(), views_VNH.clone().requires_grad_()
    for _ in range(3):
        expected = outer(projector.outer(F.relu(inner(projector.inner(theirs.flatten(0, 1)))))).view(2, 5, 8)
        actual = projector(mine)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    weights = torch.linspace(-1, 1, 80).view(2, 5, 8)
    gradients = [torch.autograd.grad((y * weights).sum(), x)[0] for y, x in ((actual, mine), (expected, theirs))]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)
    for own, reference in ((projector.inner_norm, inner), (projector.outer_norm, outer)):
        torch.testing.assert_close(own.running_mean, reference.running_mean)
        torch.testing.assert_close(own.running_var, reference.running_var)


def test_T8_evaluation_uses_the_running_statistics_and_leaves_them(projector, views_VNH) -> None:
    projector(views_VNH)
    before = {name: value.clone() for name, value in projector.named_buffers()}
    projector.eval()
    together, alone = projector(views_VNH), projector(views_VNH[:, :1])
    torch.testing.assert_close(together[:, :1], alone)
    assert all(torch.equal(value, before[name]) for name, value in projector.named_buffers())


def test_T14_one_row_cannot_be_normalised(projector) -> None:
    with pytest.raises(ValueError, match="rows=1; training needs at least 2 rows"):
        projector(torch.zeros(1, 1, 8))


def test_half_precision_rows_are_normalised_in_fp32(views_VNH) -> None:
    norm = JointBatchNorm(8, affine=True).train()
    assert norm(1000 + views_VNH.bfloat16()).dtype == torch.bfloat16
    assert norm.running_var.dtype == torch.float32


@pytest.mark.parametrize(("kind", "count"), [(MlpProjector, 590_592), (BatchNormProjector, 2_362_368)])
def test_parameter_counts_at_base_width(kind: type[nn.Module], count: int) -> None:
    with torch.device("meta"):
        assert sum(p.numel() for p in kind(768).parameters()) == count


def test_new_weights_are_small_normal_draws() -> None:
    projector = BatchNormProjector(64)
    for linear in (projector.inner, projector.outer):
        assert linear.bias is None
        assert abs(linear.weight.std() - 0.02) < 1e-3
