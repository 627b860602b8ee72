"""The samplers: a module for each name of `search.sampler`, with `make(resolved, settings, rng) -> Sampler`.

The folder is the registry: a new one is a module here, and spaces may name it. Only the one asked for is loaded.
"""

import importlib
import pkgutil

import numpy as np

from cluster.search.sampler import Sampler
from search_spaces.cells import ResolvedSpace
from search_spaces.space import SearchConfig

__all__ = ()


def names() -> frozenset[str]:
    """Of every sampler that there is."""
    return frozenset(module.name for module in pkgutil.iter_modules(__path__))


def make_sampler(resolved: ResolvedSpace, settings: SearchConfig, rng: np.random.Generator) -> Sampler:
    """The sampler that the settings name; what it draws, it draws from `rng`."""
    sampler: Sampler = importlib.import_module(f"{__name__}.{settings.sampler}").make(resolved, settings, rng)
    return sampler
