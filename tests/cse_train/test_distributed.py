"""T4: one, two and four ranks give the loss AND the gradient of one process on the joined batch."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAM = Path(__file__).parent / "programs" / "joined_batch.py"
WORDS = "river stone bridge old market town winter letter music garden road light glass field summer house".split()


def write_corpora(folder: Path) -> tuple[Path, Path]:
    lines = [" ".join(WORDS[(i * 7 + j * j) % 16] for j in range(3 + i % 9)) + f" {i}" for i in range(40)]
    text, triplets = folder / "text.txt", folder / "triplets.csv"
    text.write_text("\n".join(lines), encoding="utf8")
    rows = [f'"{a}","{b}","{c}"' for a, b, c in zip(lines, lines[1:], lines[2:], strict=False)]
    triplets.write_text("\n".join(["sent0,sent1,hard_neg", *rows]), encoding="utf8")
    return text, triplets


@pytest.fixture(scope="module")
def by_world(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> dict[int, dict]:
    folder = tmp_path_factory.mktemp("ranks")
    text, triplets = write_corpora(folder)
    results = {}
    for world in (1, 2, 4):
        out, rendezvous = folder / f"w{world}.pt", folder / f"rendezvous{world}"
        command = [str(world), str(rendezvous), str(out), str(tiny_encoder), str(text), str(triplets)]
        ranks = [subprocess.Popen([sys.executable, str(PROGRAM), str(rank), *command]) for rank in range(world)]
        try:
            assert [process.wait(timeout=100) for process in ranks] == [0] * world
        finally:
            for process in ranks:
                process.kill()
        results[world] = torch.load(out, weights_only=True)
    return results


CASES = ("simcse", "simcse_mlm", "simcse_mean", "simcse_triplets", "esimcse")


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_t4_ranks_equal_one_process_in_loss_and_gradient(by_world: dict[int, dict], case: str, world: int) -> None:
    for one, many in zip(by_world[1][case], by_world[world][case], strict=True):
        torch.testing.assert_close(many["loss"], one["loss"], atol=2e-6, rtol=1e-6)
        assert many["gradients"].keys() == one["gradients"].keys()
        scale = max(g.abs().max() for g in one["gradients"].values())
        for name, gradient in one["gradients"].items():
            torch.testing.assert_close(many["gradients"][name], gradient, atol=float(2e-5 * scale), rtol=1e-4, msg=name)


def test_queue_changes_the_loss_after_the_first_step(by_world: dict[int, dict]) -> None:
    losses = [step["loss"].item() for step in by_world[1]["esimcse"]]
    assert losses[0] == pytest.approx(torch.log(torch.tensor(8.0)).item(), abs=0.8)
    assert losses[1] > losses[0] + 0.3, "16 more negatives must raise the loss of a random encoder"
