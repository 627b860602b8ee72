"""Registry of samplers: the module NAME serves `search.sampler: NAME` by `make(resolved, settings, rng) -> Sampler`.

The folder is the registry: a new sampler is a new module here, and only the one asked for is loaded.
"""

import importlib
import pkgutil
from collections.abc import Callable

import numpy as np

from analysis.matching import Observation
from search_spaces.cells import Cell, ResolvedSpace
from search_spaces.space import SearchConfig

__all__ = ()


MAX_MISSES = 1000
"""Number of random draws, all of visited cells, after which a space too large to list counts as exhausted."""


class Sampler:
    """Chooses cells and learns from observations; a sampler without a model only suggests."""

    def suggest(self) -> Cell | None:
        """Returns a cell, visited or not; None when none is left to suggest."""
        raise NotImplementedError

    def repeat(self, cell: Cell, value: float | None) -> None:
        """Notes that the last suggested cell was visited already; `value`: its stored score, None where it has none."""

    def start(self, cell: Cell) -> None:
        """Notes that a cell is under way, whether it was suggested or not."""

    def observe(self, observation: Observation) -> None:
        """Learns how one run, a (cell, seed) pair, ended."""


class Unvisited:
    """Draws random cells that were not visited; returns None once a finite space has none left."""

    def __init__(self, resolved: ResolvedSpace, rng: np.random.Generator) -> None:
        self._resolved, self._rng = resolved, rng
        self._listed = resolved.cells() if resolved.size() is not None else None

    def draw(self, visited: Callable[[Cell], bool]) -> Cell | None:
        if self._listed is None:
            samples = (self._resolved.sample(self._rng) for _ in range(MAX_MISSES))
            return next((cell for cell in samples if not visited(cell)), None)
        self._listed = [cell for cell in self._listed if not visited(cell)]
        return self._listed[int(self._rng.integers(len(self._listed)))] if self._listed else None


def names() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(__path__))


def make_sampler(resolved: ResolvedSpace, settings: SearchConfig, rng: np.random.Generator) -> Sampler:
    """Makes the sampler that the settings name; its random draws come from `rng`."""
    sampler: Sampler = importlib.import_module(f"{__name__}.{settings.sampler}").make(resolved, settings, rng)
    return sampler
