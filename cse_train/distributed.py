"""Collectives over ranks: the only module that calls `torch.distributed`; without a process group there is one rank.

The gradient rule: every rank computes the whole contrastive loss on the gathered batch, each passes back W times its
own rows' gradient (W is the world size), and DDP's mean over ranks then gives exactly the gradient of one process on
the joined batch. The released codes leave the factor W out and train with 1/W of the gradient (reference_spec 0.4, T4).
"""

import inspect
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def size() -> int:
    """Returns the world size W: the number of ranks, 1 outside a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Returns this process's rank, 0 outside a process group."""
    return dist.get_rank() if size() > 1 else 0


def has_card() -> bool:
    """Returns True if this rank trains on a GPU; takes no memory on it."""
    return torch.cuda.is_available()


def device() -> torch.device:
    """Returns this rank's device: the current CUDA device if there is one, else the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if has_card() else torch.device("cpu")


def copy_to(values: Tensor, device: torch.device | str) -> Tensor:
    """Copies a tensor to a device; a GPU reads it from pinned memory while the host goes on."""
    if torch.device(device).type == "cuda" and values.device.type == "cpu":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows_BD: Tensor) -> Tensor:
        ctx.rows = len(rows_BD)
        parts = [torch.empty_like(rows_BD) for _ in range(size())]
        dist.all_gather(parts, rows_BD.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        first = rank() * ctx.rows
        # Only this rank's part of the gradient, times W: DDP sums these over ranks and divides by W.
        return grads[0][first : first + ctx.rows] * size()


def gather_with_grad(rows_BD: Tensor) -> Tensor:
    """Gathers rows [B, D] of every rank into [W * B, D] in rank order, with gradient.

    The gradient is W times that of this rank's rows, so that DDP's mean over ranks is exact. B must agree on all ranks.
    """
    return rows_BD if size() == 1 else _Gather.apply(rows_BD)


class _AllReduceSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].clone()
        dist.all_reduce(total)
        return total


def all_reduce_sum_with_grad(values: Tensor) -> Tensor:
    """Returns the sum of a tensor over ranks, on every rank, with gradient; for statistics that all rows share.

    Each rank's gradient of the sum is W times the part that goes through its own rows, so that DDP's mean over ranks
    gives the gradient of one process on the joined batch.
    """
    return values if size() == 1 else _AllReduceSum.apply(values)


def all_gather_rows(rows: Tensor) -> Tensor:
    """Joins rows of all ranks in rank order, without gradient; the number of rows may differ between ranks."""
    if size() == 1:
        return rows.detach()
    counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(size())]
    dist.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    largest = max(int(count) for count in counts)  # all_gather wants one shape: shorter ranks send padding
    padded = torch.zeros((largest, *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
    padded[: len(rows)] = rows.detach()
    parts = [torch.empty_like(padded) for _ in range(size())]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(count)] for part, count in zip(parts, counts, strict=True)])


def mean_over_ranks(total: Tensor, count: Tensor) -> Tensor:
    """Returns this rank's share of sum(total) / sum(count) over ranks, times the world size.

    DDP's mean over ranks then makes it the mean over the joined batch.
    """
    if size() == 1:
        return total / count.clamp(min=1)
    total_count = count.detach().clone()
    dist.all_reduce(total_count)
    return total * size() / total_count.clamp(min=1)


def average(values: Tensor) -> Tensor:
    """Returns the mean of a tensor over ranks, without gradient."""
    if size() == 1:
        return values.detach()
    total = values.detach().clone()
    dist.all_reduce(total)
    return total / size()


def share(value: int) -> int:
    """Returns the number that the first rank passed, on every rank."""
    if size() == 1:
        return value
    shared = torch.tensor([value], device=device())
    dist.broadcast(shared, 0)
    return int(shared[0])


def is_agreed(value: int) -> bool:
    """Returns True on every rank if all ranks passed the same number."""
    if size() == 1:
        return True
    minimum = torch.tensor([value, -value], device=device())  # one reduction gives least and greatest
    dist.all_reduce(minimum, op=dist.ReduceOp.MIN)
    return int(minimum[0]) == -int(minimum[1])


def wrap(module: nn.Module) -> nn.Module:
    """Wraps a module in DDP if there are several ranks and something to train, else returns it unchanged."""
    if size() == 1 or not any(parameter.requires_grad for parameter in module.parameters()):
        return module
    return wrap_ddp(module)


def wrap_ddp(module: nn.Module) -> nn.Module:
    """Wraps a module in DDP that leaves buffers alone, because each rank computes the same ones.

    Gradients lie in the buckets that DDP sends, without a copy. No static graph: with it the gradients after a backward
    pass are not the mean over ranks (torch 2.13, gloo).
    """
    parameters = inspect.signature(DistributedDataParallel.__init__).parameters
    options: dict[str, Any] = {name: False for name in ("forward_sync_buffers",) if name in parameters}
    options = options or {"broadcast_buffers": False}
    return DistributedDataParallel(module, gradient_as_bucket_view=True, **options)


def barrier() -> None:
    """Waits until every rank has called this; returns at once outside a process group."""
    if size() > 1:
        dist.barrier()
