"""Sampler with Optuna's multivariate TPE (tree-structured Parzen estimator); cells under way count as poor ones."""

import numpy as np
from optuna.samplers import TPESampler

from cluster.search.optuna_studies import OptunaSampler
from cluster.search.samplers import Sampler
from search_spaces.cells import ResolvedSpace
from search_spaces.space import SearchConfig


def make(resolved: ResolvedSpace, settings: SearchConfig, rng: np.random.Generator) -> Sampler:
    return OptunaSampler(
        resolved,
        TPESampler,
        seed=int(rng.integers(2**31)),
        n_startup_trials=settings.startup,
        multivariate=True,
        group=True,
        constant_liar=True,
    )
