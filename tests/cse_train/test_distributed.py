"""T4: one, two and four ranks give the loss AND the gradient of one process on the joined batch.

A method that is fitted has statistics in place of gradients.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cse_train import distributed

PROGRAM = Path(__file__).parent / "programs" / "joined_batch.py"
CASES = (
    "simcse",
    "simcse_mlm",
    "simcse_mean",
    "simcse_triplets",
    "simcse_two_next",
    "simcse_crop_batchnorm",
    "simcse_mlm_view",
    "esimcse",
    "esimcse_predicted",
    "dcpcse_mlm",
    "dcpcse_energy",
    "d2cse",
    "d2cse_trained_detector",
    "declutr",
    "declutr_contrastive",
    "declutr_masked_lm",
    "diffcse",
    "diffcse_edits",
    "diffcse_masked_lm",
    "diffcse_corrective_lm",
    "diffcse_negatives",
    "flow",
    "whitening",
    "ct",
    "ct_independent",
    "mirrorbert",
    "consert",
    "sgopt",
    "sgopt_base",
    "sgopt_opt1",
    "isbert",
    "diffcse_triplets",
    "sbert",
    "sbert_triplets",
    "infersent",
    "infersent_mean",
    "promptbert",
    "cmlm",
)
FIRST = (
    *("simcse", "esimcse", "dcpcse_mlm", "d2cse", "declutr", "diffcse", "flow", "whitening"),
    *("ct", "mirrorbert", "consert", "sgopt", "isbert", "sbert", "promptbert", "cmlm", "infersent"),
)
"""One case of each method, for four ranks."""


@pytest.fixture(scope="module")
def by_world(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_encoder: Path,
    text_file: Path,
    triplets_file: Path,
    labelled_file: Path,
) -> dict[int, dict]:
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, PROGRAM, folder, tiny_encoder, text_file, triplets_file, labelled_file]
    subprocess.run(list(map(str, command)), check=True, timeout=500)
    return {world: torch.load(folder / f"w{world}.pt", weights_only=True) for world in (1, 2, 4)}


@pytest.mark.timeout(540)
@pytest.mark.parametrize(("case", "world"), [*((case, 2) for case in CASES), *((case, 4) for case in FIRST)])
def test_T4_ranks_equal_one_process_in_loss_and_gradient(by_world: dict[int, dict], case: str, world: int) -> None:
    for one, many in zip(by_world[1][case], by_world[world][case], strict=True):
        torch.testing.assert_close(many["loss"], one["loss"], atol=5e-6, rtol=1e-5)
        assert many["gradients"].keys() == one["gradients"].keys()
        scale = max(g.abs().max() for g in one["gradients"].values())
        for name, gradient in one["gradients"].items():
            torch.testing.assert_close(many["gradients"][name], gradient, atol=float(2e-5 * scale), rtol=1e-4, msg=name)


class OfTorch211:
    def __init__(self, module: torch.nn.Module, broadcast_buffers: bool = True, **others: bool) -> None:
        self.synced, self.others = broadcast_buffers, others


class OfTorch213:
    def __init__(
        self,
        module: torch.nn.Module,
        broadcast_buffers: bool | None = None,
        forward_sync_buffers: bool | None = None,
        **others: bool,
    ) -> None:
        assert broadcast_buffers is None, "deprecated"
        self.synced, self.others = forward_sync_buffers, others


@pytest.mark.parametrize("ddp", [OfTorch211, OfTorch213])
def test_ddp_leaves_buffers_alone_by_each_name_of_the_argument(ddp: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "DistributedDataParallel", ddp)
    made = distributed.wrap_ddp(torch.nn.Linear(2, 2))
    assert made.synced is False
    assert made.others == {"gradient_as_bucket_view": True}
