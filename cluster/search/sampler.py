"""What a sampler is, and cells that no search has visited."""

from collections.abc import Callable

import numpy as np

from analysis.matching.match import Observation
from search_spaces.cells import Cell, ResolvedSpace

MISSES = 1000
"""Random draws that all hit visited cells before a space too large to list counts as exhausted."""


class Sampler:
    """Chooses cells and learns from observations; a sampler without a model only suggests."""

    def suggest(self) -> Cell | None:
        """Some cell, visited or not; None when there is none left to name."""
        raise NotImplementedError

    def repeat(self, cell: Cell, value: float | None) -> None:
        """The cell just suggested was visited already: its stored value, None where it has none."""

    def start(self, cell: Cell) -> None:
        """This cell is under way, suggested or not."""

    def observe(self, observation: Observation) -> None:
        """How one (cell, seed) ended."""


class Unvisited:
    """Draws cells that were not visited; None once a finite space has none."""

    def __init__(self, resolved: ResolvedSpace, rng: np.random.Generator) -> None:
        self._resolved, self._rng = resolved, rng
        self._listed = resolved.cells() if resolved.size() is not None else None

    def draw(self, visited: Callable[[Cell], bool]) -> Cell | None:
        if self._listed is None:
            drawn = (self._resolved.sample(self._rng) for _ in range(MISSES))
            return next((cell for cell in drawn if not visited(cell)), None)
        self._listed = [cell for cell in self._listed if not visited(cell)]
        return self._listed[int(self._rng.integers(len(self._listed)))] if self._listed else None
