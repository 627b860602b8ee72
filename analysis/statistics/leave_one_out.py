"""Leave-one-out ablation: the score that each component's absence costs, with an interval."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from analysis.statistics.basics import Spread, mean_and_sd, t_interval, welch

Seeds = Mapping[int, float]
"""Seed -> score of one configuration."""


@dataclass(frozen=True)
class Without:
    """Configuration without one component, compared with the full one."""

    label: str
    n: int
    mean: float | None
    sd: float | None
    difference: float | None = None
    """Mean without the component minus mean with it; where paired, the mean over common seeds."""
    interval: tuple[float, float] | None = None
    """Student's interval of the difference; None with too few seeds."""
    by: str = ""
    """Test behind the interval: `paired, 3 seeds`, or `Welch, 2 and 3 seeds`; empty without an interval."""


def leave_one_out(full: Seeds, without: Mapping[str, Seeds]) -> list[Without]:
    """Returns one line per component, the greatest loss first, those without a value last.

    Runs of one seed share data order and dropout, so where two seeds or more are common the differences are taken seed
    by seed; else, with two values on each side, by Welch.
    """
    losses = [_compare(full, label, values) for label, values in without.items()]
    return sorted(losses, key=lambda loss: math.inf if loss.difference is None else loss.difference)


def _compare(full: Seeds, label: str, values: Seeds) -> Without:
    (mean, sd), (full_mean, full_sd) = mean_and_sd(list(values.values())), mean_and_sd(list(full.values()))
    common = [values[seed] - full[seed] for seed in sorted(values.keys() & full.keys())]
    if len(common) > 1:
        method = f"paired, {len(common)} seeds"
        return Without(label, len(values), mean, sd, fmean(common), t_interval(common), method)
    if mean is None or full_mean is None:
        return Without(label, len(values), mean, sd)
    difference = mean - full_mean
    if sd is None or full_sd is None or not sd + full_sd:  # Welch needs one positive deviation
        return Without(label, len(values), mean, sd, difference)
    error = welch(Spread(sd, len(values) - 1), len(values), Spread(full_sd, len(full) - 1), len(full))
    half = error.t() * error.sd
    method = f"Welch, {len(values)} and {len(full)} seeds"
    return Without(label, len(values), mean, sd, difference, (difference - half, difference + half), method)
