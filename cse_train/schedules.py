"""Learning-rate schedules: factors of the peak rate, pure functions of the update's number (from 0) and the total."""


def linear(step: int, total: int, warmup: int) -> float:
    """Linear rise over the first `warmup` updates, then linear fall to 0 (HF `get_linear_schedule_with_warmup`)."""
    if step < warmup:
        return step / warmup
    return (total - step) / max(1, total - warmup)


def slanted_triangular(step: int, total: int, cut_frac: float = 0.1, ratio: float = 32) -> float:
    """Rise from 1/ratio to 1 over the first int(cut_frac * total) updates, then fall back to 1/ratio at `total`.

    Source: Howard & Ruder, ACL 2018, eq. 3, as allennlp's `SlantedTriangular` computes it for DeCLUTR; no layer is
    frozen or slowed down. DeCLUTR's paper counts one update per training instance, so that its runs would stop within
    the rise: here `total` is the number of optimiser steps.
    """
    cut = int(cut_frac * total)
    share = step / cut if step < cut else 1 - (step - cut) / max(1, total - cut)
    return (1 + share * (ratio - 1)) / ratio
