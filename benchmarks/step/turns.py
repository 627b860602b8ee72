"""Steps taken in turns, with a flag of oneDNN, and the operations that one takes."""

from collections.abc import Sequence
from typing import Any

from benchmarks.paired import Seconds, Step
from cse_train.numerics import fast_fp32

TURN = {"tiny": 5, "mini": 2, "base": 1}
"""Steps in a row, as a run makes them: a contender finds its weights evicted by the others' once a turn."""


def flagged(step: Step) -> Step:
    """The step with oneDNN's fp32 products, where they are exact here."""

    def inside() -> Any:
        with fast_fp32():
            return step()

    return inside


def in_a_row(step: Step, count: int) -> Step:
    """`count` steps as one turn, with the mean of their times."""

    def turn() -> Seconds:
        took = [step() for _ in range(count)]
        return Seconds(sum(seconds.cpu for seconds in took) / count, sum(seconds.wall for seconds in took) / count)

    return turn


def operations(step: Step) -> int:
    """Floating-point operations of one step's matrix products."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False, custom_mapping={torch.ops.mkldnn._linear_pointwise: of_linear}) as counter:
        step()
    return int(counter.get_total_flops())


def of_linear(x_TI: Sequence[int], weight_OI: Sequence[int], *_: object, **__: object) -> int:
    """Operations of oneDNN's linear layer, which torch's counter does not know, by the shapes of its tensors."""
    return 2 * x_TI[0] * weight_OI[0] * weight_OI[1]
