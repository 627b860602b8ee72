"""Sampler with Optuna's Gaussian process."""

import numpy as np
from optuna.samplers import GPSampler

from cluster.search.optuna_studies import OptunaSampler
from cluster.search.samplers import Sampler
from search_spaces.cells import ResolvedSpace
from search_spaces.space import SearchConfig


def make(resolved: ResolvedSpace, settings: SearchConfig, rng: np.random.Generator) -> Sampler:
    return OptunaSampler(resolved, GPSampler, seed=int(rng.integers(2**31)), n_startup_trials=settings.startup)
