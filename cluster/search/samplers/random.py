"""Sampler of independent uniform draws from every axis."""

import numpy as np

from cluster.search.samplers import Sampler
from search_spaces.cells import Cell, ResolvedSpace
from search_spaces.space import SearchConfig


class RandomSampler(Sampler):
    def __init__(self, resolved: ResolvedSpace, rng: np.random.Generator) -> None:
        self._resolved, self._rng = resolved, rng

    def suggest(self) -> Cell:
        return self._resolved.sample(self._rng)


def make(resolved: ResolvedSpace, settings: SearchConfig, rng: np.random.Generator) -> Sampler:
    return RandomSampler(resolved, rng)
