"""A cell as numbers, for models that measure distance between cells.

Listed numbers count by rank, so that their order and not their spacing says how far apart they are; a `loguniform` axis
by its logarithm; words and booleans one-hot. Every axis spans 0 to 1. An axis with a condition has one more input that
says whether it counts, and lies in the middle where it does not.
"""

import itertools
import math
from collections.abc import Callable, Mapping

from cse_train.fields import Scalar
from search_spaces.cells import ResolvedSpace
from search_spaces.domains import Domain

Encode = Callable[[Mapping[str, Scalar]], list[float]]
"""A cell's key -> its inputs [D]; D is the same for all cells of a space."""


def encoding_of(resolved: ResolvedSpace) -> Encode:
    """The encoding of a space's cells; listed cells are encoded by the values that they set."""
    axes = dict(resolved.axes) or _listed(resolved)
    codes = {name: _code(domain) for name, domain in axes.items()}
    open_ended = {name for name, domain in axes.items() if domain.when or resolved.space.cells}

    def encode(key: Mapping[str, Scalar]) -> list[float]:
        each = (_inputs(codes[name], name, key, name in open_ended) for name in axes)
        return list(itertools.chain.from_iterable(each))

    return encode


def _inputs(code: Callable[[Scalar | None], list[float]], name: str, key: Mapping[str, Scalar], may_lack: bool):
    values = code(key.get(name))
    return [*values, float(name in key)] if may_lack else values


def _listed(resolved: ResolvedSpace) -> dict[str, Domain]:
    cells = resolved.cells()
    names = resolved.space.axis_names
    return {name: Domain("grid", tuple(dict.fromkeys(c.key[name] for c in cells if name in c.key))) for name in names}


def _code(domain: Domain) -> Callable[[Scalar | None], list[float]]:
    """Value -> inputs; None for an axis that does not count."""
    if not domain.finite:
        return _interval(domain)
    values = domain.values()
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        ranks = {v: rank / max(1, len(values) - 1) for rank, v in enumerate(sorted(values))}  # type: ignore[type-var]
        return lambda value: [ranks.get(value, 0.5)]
    return lambda value: [
        math.sqrt(0.5) * (value == v and isinstance(value, bool) == isinstance(v, bool)) for v in values
    ]


def _interval(domain: Domain) -> Callable[[Scalar | None], list[float]]:
    scale = math.log if domain.word == "loguniform" else float
    low, high = (scale(end) for end in domain.ends())
    return lambda value: [0.5 if value is None else (scale(value) - low) / (high - low)]  # type: ignore[arg-type]
