"""Sampler that suggests every cell in the space's order."""

import numpy as np

from cluster.search.samplers import Sampler
from search_spaces.cells import Cell, ResolvedSpace
from search_spaces.space import SearchConfig


class GridSampler(Sampler):
    def __init__(self, resolved: ResolvedSpace) -> None:
        self._left = iter(resolved.cells())

    def suggest(self) -> Cell | None:
        return next(self._left, None)


def make(resolved: ResolvedSpace, settings: SearchConfig, rng: np.random.Generator) -> Sampler:
    return GridSampler(resolved)
