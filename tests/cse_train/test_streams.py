"""Seeds of a run's named streams."""

import torch

from cse_train import streams


def test_dropout_draws_what_torchs_own_seeding_gives():
    streams.seed_dropout(3, 7, 1)
    drawn = torch.rand(5)
    torch.manual_seed(streams.seed_of(3, "dropout", 7, 1))
    assert torch.equal(torch.rand(5), drawn)
    streams.seed_dropout(3, 8, 1)
    assert not torch.equal(torch.rand(5), drawn)
