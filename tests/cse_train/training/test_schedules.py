import pytest

from cse_train.config import TrainConfig
from cse_train.training.optimiser import constant, five_steps, learning_rate, linear, plateau, slanted_triangular


def test_T9_linear_without_warm_up() -> None:
    """A million sentences in batches of 64: 15,626 updates from 3e-5."""
    assert 3e-5 * linear(500, 15626, 0) == pytest.approx(2.9040061e-05, rel=1e-7)
    assert linear(0, 15626, 0) == 1.0
    assert linear(15626, 15626, 0) == 0.0


def test_linear_warm_up_by_hand() -> None:
    factors = [linear(step, 10, 4) for step in range(11)]
    assert factors == pytest.approx([0, 1 / 4, 1 / 2, 3 / 4, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0])


def test_linear_that_is_all_warm_up() -> None:
    assert [linear(step, 2, 2) for step in range(3)] == [0, 0.5, 0]


def test_slanted_triangular_by_hand() -> None:
    """20 updates, the first 2 rising; 1/32 at both ends."""
    assert slanted_triangular(0, 20) == 1 / 32
    assert slanted_triangular(1, 20) == pytest.approx((1 + 0.5 * 31) / 32)
    assert slanted_triangular(2, 20) == 1.0
    assert slanted_triangular(11, 20) == pytest.approx((1 + 0.5 * 31) / 32)
    assert slanted_triangular(20, 20) == 1 / 32


def test_slanted_triangular_with_another_cut_and_ratio() -> None:
    factors = [slanted_triangular(step, 8, cut_frac=0.5, ratio=2) for step in range(9)]
    assert factors == pytest.approx([0.5, 0.625, 0.75, 0.875, 1, 0.875, 0.75, 0.625, 0.5])


@pytest.mark.parametrize("total", [1, 9])
def test_slanted_triangular_too_short_to_rise_begins_at_the_peak(total: int) -> None:
    assert slanted_triangular(0, total) == 1.0


def test_the_paper_total_would_end_in_the_rise() -> None:
    """495,243 documents in batches of 16 are 30,953 updates, fewer than a tenth of 495,243."""
    assert slanted_triangular(30953, 495_243) < 0.64
    assert slanted_triangular(30952, 30953) == pytest.approx(1 / 32, abs=1e-4)


def test_constant_after_the_warm_up() -> None:
    assert [constant(step, 4) for step in range(6)] == [0, 1 / 4, 1 / 2, 3 / 4, 1, 1]
    assert constant(0, 0) == 1.0
    config = TrainConfig(examples=1000, batch_size=10, learning_rate=2.0, warmup_ratio=0.1, schedule="constant")
    assert [learning_rate(config, step) for step in (0, 5, 10, 99)] == [0.0, 1.0, 2.0, 2.0]


def test_plateau_by_hand() -> None:
    """0.99 at every evaluation; a fifth where 70 comes again, where 60 is less, not where 80 is a new best."""
    factors = [plateau([70.0, 70.0, 60.0, 80.0][:count]) for count in range(5)]
    assert factors == pytest.approx([1, 0.99, 0.99**2 / 5, 0.99**3 / 25, 0.99**4 / 25])
    config = TrainConfig(examples=1000, batch_size=10, learning_rate=2.0, warmup_ratio=0.1, schedule="plateau")
    assert learning_rate(config, 5) == 1.0
    assert learning_rate(config, 50, [70.0, 60.0]) == pytest.approx(2 * 0.99**2 / 5)


def test_five_steps_by_hand() -> None:
    """Of 20 updates the first three (from 0 to 2) are at the peak, and from the tenth on all at a fifth of it."""
    factors = [five_steps(step, 20) for step in range(20)]
    assert factors == pytest.approx([1] * 3 + [0.8] * 2 + [0.6] * 2 + [0.4] * 2 + [0.2] * 11)
    config = TrainConfig(examples=200, batch_size=10, learning_rate=2.0, warmup_ratio=0.1, schedule="five_steps")
    assert [learning_rate(config, step) for step in (1, 2, 3, 19)] == pytest.approx([1.0, 2.0, 1.6, 0.4])
