"""Our dropout against the distribution that it must have."""

import math

import pytest
import torch

from cse_train.encoder.ops import LEVELS, draw_scaled_mask, dropout, dropout_and_add, random_16

ONES = torch.ones(1000, 1000)


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5])
def test_the_share_that_is_dropped_and_the_expectation(rate):
    """Within four standard deviations of a million draws; the values are 0 and 1 / (1 - rate) alone."""
    torch.manual_seed(0)
    masked = dropout(ONES, rate, training=True)
    deviation = math.sqrt(rate * (1 - rate) / ONES.numel())
    assert abs((masked == 0).double().mean() - rate) < 4 * deviation + 0.5 / LEVELS
    assert abs(masked.double().mean() - 1) < 4 * deviation / (1 - rate)
    assert masked.unique().tolist() == pytest.approx([0, 1 / (1 - rate)], rel=1e-4)


def test_numbers_are_dropped_independently():
    """The four lanes of a 64-bit draw, neighbouring rows, and the counts of a row: none of them knows another."""
    torch.manual_seed(1)
    dropped = (draw_scaled_mask(ONES, 0.1) == 0).double() - 0.1
    along = [(dropped[:, :-lag], dropped[:, lag:]) for lag in range(1, 9)]
    for left, right in [*along, (dropped[1:], dropped[:-1])]:
        assert abs((left * right).mean() / 0.09) < 4 / math.sqrt(left.numel())
    counts = (dropped + 0.1).sum(1)
    assert counts.var() == pytest.approx(1000 * 0.1 * 0.9, rel=0.2)


def test_sixteen_bits_are_uniform():
    torch.manual_seed(2)
    drawn = random_16(1_000_003)
    assert len(drawn) == 1_000_003 and (drawn.min(), drawn.max()) == (-(2**15), 2**15 - 1)
    counts = torch.bincount((drawn.long() + 2**15) // 256, minlength=256).double()
    expected = len(drawn) / 256
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert 255 - 4 * math.sqrt(510) < chi_squared < 255 + 4 * math.sqrt(510)


def test_one_seed_one_mask_and_the_next_draw_another():
    torch.manual_seed(3)
    first, second = draw_scaled_mask(ONES, 0.1), draw_scaled_mask(ONES, 0.1)
    torch.manual_seed(3)
    assert torch.equal(draw_scaled_mask(ONES, 0.1), first) and not torch.equal(first, second)


@pytest.mark.parametrize("rate", [2.0**-16, 0.1, 0.5, 1 - 2.0**-16, 1 - 1e-9])
def test_a_mask_is_what_a_comparison_of_its_bits_says(rate):
    dropped = min(round(rate * LEVELS), LEVELS - 1)
    torch.manual_seed(5)
    kept = random_16(ONES.numel()).to(torch.int32) + LEVELS // 2 >= dropped
    torch.manual_seed(5)
    expected = torch.where(kept, LEVELS / (LEVELS - dropped), 0.0).view(ONES.shape)
    assert torch.equal(draw_scaled_mask(ONES, rate), expected)
    torch.manual_seed(5)
    assert torch.equal(draw_scaled_mask(ONES.bfloat16(), rate), expected.bfloat16())


def test_the_gradient_goes_through_what_stays():
    x, residual = torch.full((50, 7), 2.0, requires_grad=True), torch.ones(50, 7, requires_grad=True)
    torch.manual_seed(4)
    added = dropout_and_add(x, residual, 0.3, training=True)
    added.sum().backward()
    torch.manual_seed(4)
    mask = draw_scaled_mask(x, 0.3)
    torch.testing.assert_close(added, residual + x * mask)
    assert torch.equal(x.grad, mask) and torch.equal(residual.grad, torch.ones(50, 7))


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (0.4, False)])
def test_nothing_is_dropped_or_drawn(rate, training):
    before = torch.random.get_rng_state()
    assert dropout(ONES, rate, training) is ONES
    assert torch.equal(dropout_and_add(ONES, ONES, rate, training), 2 * ONES)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_dtype_and_rates_at_the_edges():
    assert draw_scaled_mask(torch.ones(3, dtype=torch.bfloat16), 0.1).dtype == torch.bfloat16
    assert draw_scaled_mask(torch.ones(0, 5), 0.1).shape == (0, 5)
    assert torch.isfinite(draw_scaled_mask(ONES, 1 - 1e-9)).all()
    assert torch.equal(draw_scaled_mask(ONES, 2.0**-18), ONES)
    with pytest.raises(ValueError, match="rate=1.0 must be at least 0 and below 1"):
        draw_scaled_mask(ONES, 1.0)
