"""Registry of samplers: the module NAME serves `search.sampler: NAME` by `make(resolved, settings, rng) -> Sampler`.

The folder is the registry: a new sampler is a new module here, and only the one asked for is loaded.
"""

import importlib
import pkgutil

import numpy as np

from cluster.search.sampler import Sampler
from search_spaces.cells import ResolvedSpace
from search_spaces.space import SearchConfig

__all__ = ()


def names() -> frozenset[str]:
    """Returns the names of all samplers."""
    return frozenset(module.name for module in pkgutil.iter_modules(__path__))


def make_sampler(resolved: ResolvedSpace, settings: SearchConfig, rng: np.random.Generator) -> Sampler:
    """Makes the sampler that the settings name; its random draws come from `rng`."""
    sampler: Sampler = importlib.import_module(f"{__name__}.{settings.sampler}").make(resolved, settings, rng)
    return sampler
