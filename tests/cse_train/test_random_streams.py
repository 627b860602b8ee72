"""Seeds of a run's named streams."""

import torch

from cse_train import random_streams


def test_dropout_draws_what_torchs_own_seeding_gives():
    random_streams.seed_dropout(3, 7, 1)
    drawn = torch.rand(5)
    torch.manual_seed(random_streams.seed_of(3, "dropout", 7, 1))
    assert torch.equal(torch.rand(5), drawn)
    random_streams.seed_dropout(3, 8, 1)
    assert not torch.equal(torch.rand(5), drawn)
