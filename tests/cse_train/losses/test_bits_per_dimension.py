"""Likelihood of a flow: by hand, by a loop over torch's own normal distribution, frozen."""

import math

import pytest
import torch

from cse_train.losses import bits_per_dimension


def test_by_hand() -> None:
    """At z = 0 a dimension costs half of log2(2 pi); a squared length of 2 costs log2(e) more, a log_det of log 4 two
    bits less, both over two dimensions."""
    base = 0.5 * math.log2(2 * math.pi)
    nothing = torch.tensor(0.0)
    assert bits_per_dimension(torch.zeros(1, 2), nothing).item() == pytest.approx(1.3257480647)
    assert bits_per_dimension(torch.ones(1, 2), nothing).item() == pytest.approx(base + math.log2(math.e) / 2)
    assert bits_per_dimension(torch.zeros(3, 2), torch.tensor(math.log(4.0))).item() == pytest.approx(base - 1)


@pytest.mark.parametrize("each", [False, True], ids=["one log_det", "a log_det for each row"])
def test_equals_a_loop(each: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    z_BD = torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    log_det = torch.randn(5 if each else (), generator=generator, dtype=torch.float64)
    normal = torch.distributions.Normal(0.0, 1.0)
    total = torch.zeros((), dtype=torch.float64)
    for row in range(5):
        likelihood = log_det[row] if each else log_det
        for value in z_BD[row]:
            likelihood = likelihood + normal.log_prob(value)
        total = total - likelihood / (3 * math.log(2))
    loss = bits_per_dimension(z_BD, log_det)
    torch.testing.assert_close(loss, total / 5)
    torch.testing.assert_close(torch.autograd.grad(loss, z_BD), torch.autograd.grad(total / 5, z_BD))


def test_frozen_value() -> None:
    z_BD = torch.arange(12.0).reshape(3, 4) / 7 - 0.5
    assert bits_per_dimension(z_BD, torch.tensor(0.25)).item() == pytest.approx(1.469895, abs=1e-6)
