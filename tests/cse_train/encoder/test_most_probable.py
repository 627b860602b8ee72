"""The largest logit: the ids of argmax, the first of equal ones, for any size of vocabulary."""

import pytest
import torch
import torch.nn.functional as F

from cse_train.encoder.generator import GENERATOR_RUN, largest, most_probable


@pytest.mark.parametrize(
    "numbers", [1, GENERATOR_RUN, 2 * GENERATOR_RUN, 3 * GENERATOR_RUN - 1, 3 * GENERATOR_RUN, 1000]
)
def test_the_largest_is_that_of_argmax(numbers: int) -> None:
    x = torch.randn(50, numbers, generator=torch.Generator().manual_seed(numbers))
    assert torch.equal(largest(x), x.argmax(-1))
    coarse = x.round()
    assert torch.equal(largest(coarse), coarse.argmax(-1))
    for place in (0, numbers // 2, numbers - 1):
        single = torch.zeros(1, numbers).index_fill(1, torch.tensor([place]), 1.0)
        assert largest(single).item() == place


@pytest.mark.parametrize("slots", [0, 1, 128, 130])
def test_most_probable_is_argmax_of_the_logits(slots: int) -> None:
    generator = torch.Generator().manual_seed(1)
    hidden, weight, bias = (torch.randn(*size, generator=generator) for size in ((slots, 16), (700, 16), (700,)))
    assert torch.equal(most_probable(hidden, weight, bias), F.linear(hidden, weight, bias).argmax(-1))
