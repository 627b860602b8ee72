"""What a metric's name says: of a loss that it needs a direction, of an accuracy that it is bounded."""

import pytest

from cse_train.evaluate.metric_names import needs_direction, read_span


@pytest.mark.parametrize("name", ["loss", "eval/loss", "valLoss", "trainloss", "mae", "test_PPL", "error_rate"])
def test_the_lower_value_of_these_is_likely_the_better_one(name: str) -> None:
    assert needs_direction(name) and read_span(name, [0.5]) is None


@pytest.mark.parametrize("name", ["eval/stsb_spearman", "valAcc", "NDCG@10", "recall_at_5", "f1_macro", "sts12"])
def test_a_bounded_metric_is_read_by_its_values(name: str) -> None:
    assert not needs_direction(name)
    assert (read_span(name, [0.6, -1.0]), read_span(name, [60.0]), read_span(name, [600.0])) == (1.0, 100.0, None)
    assert read_span(name, []) is None


@pytest.mark.parametrize("name", ["value", "score", "reward", "objective"])
def test_other_names_say_nothing(name: str) -> None:
    assert not needs_direction(name) and read_span(name, [0.6]) is None
