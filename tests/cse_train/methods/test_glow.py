"""The flow: its determinant by autograd's whole Jacobian, its first batch, and a loop without modules."""

import math

import numpy as np
import pytest
import torch

from cse_train.fields import ConfigError
from cse_train.losses import bits_per_dimension
from cse_train.methods.flow import ActNorm, FlowStep, Glow


@pytest.fixture
def glow() -> Glow:
    """Two levels of two steps on eight dimensions in fp64, every parameter moved."""
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    made = Glow(8, levels=2, depth=2, width=5).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3)
    return made


def rows(count: int, size: int = 8) -> torch.Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def test_log_determinant_is_that_of_the_whole_jacobian(glow: Glow) -> None:
    for x_D in rows(4):
        jacobian_DD = torch.autograd.functional.jacobian(lambda x: glow(x[None])[0], x_D)
        torch.testing.assert_close(glow.log_det, torch.linalg.slogdet(jacobian_DD).logabsdet)
        assert (jacobian_DD != torch.diag(jacobian_DD.diag())).any(), "a flow that mixes nothing proves nothing"
    assert glow.log_det.abs() > 0.1


def test_likelihood_is_the_density_under_the_change_of_variables(glow: Glow) -> None:
    """Li et al., eq. 4: log p(x) = log N(f(x); 0, 1) + log |det df/dx|, with the Jacobian from autograd."""
    x_ND = rows(3)
    prior = torch.distributions.MultivariateNormal(torch.zeros(8).double(), torch.eye(8).double())
    wanted = 0.0
    for x_D in x_ND:
        jacobian_DD = torch.autograd.functional.jacobian(lambda x: glow(x[None])[0], x_D)
        likelihood = prior.log_prob(glow(x_D[None])[0]) + torch.linalg.slogdet(jacobian_DD).logabsdet
        wanted -= likelihood.item() / (8 * math.log(2)) / 3
    assert bits_per_dimension(glow(x_ND), glow.log_det).item() == pytest.approx(wanted)


def test_equals_a_loop_over_numbers(glow: Glow) -> None:
    """Written out for each row: actnorm, reversal, one half moved by a network of the other; then a level less."""
    with torch.no_grad():
        x_ND = rows(3)
        np.testing.assert_allclose(glow(x_ND).numpy(), [by_loop(glow, x.tolist()) for x in x_ND], atol=1e-12)


def by_loop(glow: Glow, x: list[float]) -> list[float]:
    final: list[float] = []
    for at, level in enumerate(glow.levels):
        if at == 1:
            final, x = [*final, *x[4:]], x[:4]
        for step in level:
            x = normed(step.norm, x)[::-1]
            half = len(x) // 2
            x = x[:half] + [value + shift for value, shift in zip(x[half:], network(step, x[:half]), strict=True)]
    return [*final, *x]


def normed(norm: ActNorm, x: list[float]) -> list[float]:
    both = zip(x, norm.shift[0].tolist(), norm.s[0].tolist(), strict=True)
    return [(value + shift) * math.exp(3 * s) for value, shift, s in both]


def network(step: FlowStep, x: list[float]) -> list[float]:
    parts = step.network
    for linear, norm in zip(parts.inner, parts.norms, strict=True):
        x = [sum(w * value for w, value in zip(row, x, strict=True)) for row in linear.weight.tolist()]
        x = [max(0.0, value) for value in normed(norm, x)]
    last = zip(parts.last.weight.tolist(), parts.last.bias.tolist(), parts.s[0].tolist(), strict=True)
    return [(sum(w * v for w, v in zip(row, x, strict=True)) + bias) * math.exp(3 * s) for row, bias, s in last]


def test_one_step_by_hand() -> None:
    """(1, 2) + (1, 0) = (2, 2), times (1, e^3); reversed (2 e^3, 2); the network is still 0; log_det is 0 + 3."""
    step = FlowStep(2, 4)
    with torch.no_grad():
        step.norm.shift.copy_(torch.tensor([[1.0, 0.0]]))
        step.norm.s.copy_(torch.tensor([[0.0, 1.0]]))
        y = step(torch.tensor([[1.0, 2.0]]))
    assert y.tolist() == [[pytest.approx(2 * math.exp(3)), 2.0]]
    assert step.norm.log_det.item() == 3.0


def test_the_first_batch_gives_every_actnorm_mean_0_and_variance_1() -> None:
    torch.manual_seed(0)
    glow = Glow(8, levels=2, depth=2, width=5).double()
    x_ND = rows(50) * torch.arange(1.0, 9.0) + 3
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    for module in glow.modules():
        if isinstance(module, ActNorm):
            module.register_forward_hook(lambda _, __, y: seen.append((y.mean(0), y.square().mean(0))))
    glow.initialise(x_ND)
    assert glow.initialised and len(seen) == 4 + 8
    for mean_D, square_D in seen:
        torch.testing.assert_close(mean_D, torch.zeros_like(mean_D))
        torch.testing.assert_close(square_D, torch.ones_like(square_D), atol=1e-3, rtol=0)


def test_a_new_flow_only_orders_the_dimensions_anew() -> None:
    """The networks begin at 0: four halves of eight dimensions leave in turn, each reversed as often as there are
    steps."""
    glow = Glow(8, levels=3, depth=1, width=4)
    assert glow(torch.arange(8.0)[None]).tolist() == [[3, 2, 1, 0, 6, 7, 5, 4]]
    assert glow.log_det.item() == 0


def test_weights_are_drawn_from_the_run_s_own_stream() -> None:
    torch.manual_seed(3)
    made = [Glow(8, 2, 2, 500).levels[0][0].network.inner[0].weight for _ in range(2)]
    assert not torch.equal(*made)
    assert made[0].std().item() == pytest.approx(0.05, abs=0.003)


def test_a_size_that_does_not_halve_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^size does not halve: method.levels=3, .* 300 dimensions; give levels"):
        Glow(300, levels=3, depth=3, width=32)
