"""Losses and normalisations over rows that W ranks share: FOLDER. Rank 0 keeps each case's loss and joined gradient.

The ranks fork from this process, so that the imports are paid once.
"""

import multiprocessing
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from cse_train import distributed
from cse_train.encoder.pooling import BatchNormProjector
from cse_train.losses import REDUCTIONS, classification, energy_hinge, nt_xent, pair_features, replaced_token, triplet

ROWS, WIDTH = 8, 6


def share(rows: Tensor, dim: int = 0) -> Tensor:
    return rows.chunk(distributed.size(), dim)[distributed.rank()]


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float32)


def contrastive(loss, columns: int):
    def case() -> tuple[Tensor, list[Tensor]]:
        views = [share(drawn(3, ROWS, WIDTH)[view]).clone().requires_grad_() for view in range(columns)]
        return loss(*(distributed.gather_with_grad(view) for view in views)), views

    return case


def detection(reduction: str):
    def case() -> tuple[Tensor, list[Tensor]]:
        logits = share(drawn(12, 2)).clone().requires_grad_()
        attended = share(torch.tensor([1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 1, 0]).bool())  # 5 of 6 and 2 of 6
        replaced = share(drawn(12) > 0)
        return distributed.mean_over_ranks(*replaced_token(logits, replaced, attended, reduction)), [logits]

    return case


def projected() -> tuple[Tensor, list[Tensor]]:
    """NT-Xent over views that a joint BatchNorm has seen; the gradient passes through the statistics."""
    projector = BatchNormProjector(WIDTH, torch.Generator().manual_seed(1)).train()
    views = share(3 * drawn(2, ROWS, WIDTH) + 1, dim=1).clone().requires_grad_()
    left, right = (distributed.gather_with_grad(view) for view in projector(views))
    return nt_xent(left, right), [views, *projector.parameters(), *projector.buffers()]


def siamese(objective: str):
    """A rank's own mean: no example of SBERT's needs another one."""

    def case() -> tuple[Tensor, list[Tensor]]:
        views = [share(drawn(3, ROWS, WIDTH)[view]).clone().requires_grad_() for view in range(3)]
        if objective == "triplet":
            return triplet(views[0], views[1], views[2]), views
        weight = torch.nn.Parameter(drawn(3, 3 * WIDTH))
        logits = pair_features(views[0], views[1]) @ weight.T
        return classification(logits, share(torch.arange(ROWS) % 3)), [*views[:2], weight]

    return case


CASES = {
    "nt_xent": contrastive(nt_xent, 2),
    "energy_hinge": contrastive(energy_hinge, 3),
    **{f"replaced_token_{reduction}": detection(reduction) for reduction in REDUCTIONS},
    "siamese_classification": siamese("classification"),
    "siamese_triplet": siamese("triplet"),
    "batch_norm_projector": projected,
}


def result(case) -> dict[str, list[Tensor]]:
    """The mean loss of the ranks and, as DDP would join them, gradients: rows side by side, weights averaged."""
    loss, leaves = case()
    loss.backward()
    joined = []
    for leaf in leaves:
        if not leaf.requires_grad:
            joined.append(leaf)
        elif isinstance(leaf, torch.nn.Parameter):
            joined.append(distributed.average(leaf.grad))
        else:
            flat = leaf.grad.transpose(0, -2) if leaf.ndim == 3 else leaf.grad
            joined.append(distributed.all_gather_rows(flat.contiguous()) / distributed.size())
    return {"loss": [distributed.average(loss)], "gradients": joined}


def run_rank(rank: int, world: int, folder: Path) -> None:
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous{world}", rank=rank, world_size=world)
    results = {name: result(case) for name, case in CASES.items()}
    if rank == 0:
        torch.save(results, folder / f"w{world}.pt")
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


def main(folder: Path) -> int:
    fork = multiprocessing.get_context("fork")
    for world in (1, 2, 4):
        ranks = [fork.Process(target=run_rank, args=(rank, world, folder), daemon=True) for rank in range(world)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        if any(process.exitcode for process in ranks):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
