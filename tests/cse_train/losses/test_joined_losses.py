"""T4, T14: two and four ranks give the loss and the gradient of one process, for every loss and for joint BatchNorm."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAM = Path(__file__).parents[1] / "programs" / "joined_losses.py"
CASES = (
    "nt_xent",
    "energy_hinge",
    "replaced_token_mean_all",
    "replaced_token_mean_attended",
    "replaced_token_sum",
    "siamese_classification",
    "siamese_triplet",
    "batch_norm_projector",
)


@pytest.fixture(scope="module")
def by_world(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict]:
    folder = tmp_path_factory.mktemp("ranks")
    subprocess.run([sys.executable, str(PROGRAM), str(folder)], check=True, timeout=100)
    return {world: torch.load(folder / f"w{world}.pt", weights_only=True) for world in (1, 2, 4)}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_T4_ranks_equal_one_process(by_world: dict[int, dict], case: str, world: int) -> None:
    one, many = by_world[1][case], by_world[world][case]
    torch.testing.assert_close(many["loss"], one["loss"], atol=2e-6, rtol=1e-6)
    assert all(g.abs().max() > 0 for g in one["gradients"])
    scale = float(max(g.abs().max() for g in one["gradients"]))
    torch.testing.assert_close(many["gradients"], one["gradients"], atol=1e-6 * scale, rtol=1e-5)
