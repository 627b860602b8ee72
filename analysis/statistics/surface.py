"""Expected score of a search's cells from all runs of all cells: a Gaussian process over the axes.

A search runs most cells once, and the best of many single runs is best partly by luck. Cells that lie close together
score alike, so neighbours say what of a high score is the cell's own. Stopped runs count with the best that they had
reached. Broken runs count no further below the rest than the rest is spread: they would bend the surface elsewhere.
"""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BROKEN_DEVIATIONS = 2.0
"""Median absolute deviations below the median at which a low score is cut off."""
FITTED_POINTS = 200
"""Number of runs, drawn at random, that the kernel is fitted to: the time of a fit grows with their third power."""
DOUBT = 0.5
"""Standard deviations from the expected score down to its lower bound."""


def lower_bounds(cells: Sequence[Mapping[str, object]], scores: Sequence[float]) -> Array:
    """Returns lower bounds of the expected scores of the runs' cells, [N], from the runs' cell keys and scores [N].

    Matern 5/2 with a length for each axis and the seeds' noise, by maximum likelihood. Numbers count by their rank
    among an axis' values, everything else by equality. Without an axis or a score that varies, returns the scores.
    """
    from sklearn.exceptions import ConvergenceWarning  # slow to import
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    inputs_ND, values_N = coordinates(cells), clip_broken(np.asarray(scores, dtype=float))
    centre, spread = values_N.mean(), values_N.std()
    if not spread or not inputs_ND.size:
        return np.asarray(scores, dtype=float)
    targets_N = (values_N - centre) / spread
    fitted = np.random.default_rng(0).permutation(len(targets_N))[:FITTED_POINTS]
    lengths = np.full(inputs_ND.shape[1], 0.5)
    kernel = ConstantKernel(1.0, (0.1, 10.0)) * Matern(lengths, (0.2, 5.0), nu=2.5) + WhiteKernel(0.1, (0.01, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: the axis does not matter
        model = GaussianProcessRegressor(kernel, random_state=0).fit(inputs_ND[fitted], targets_N[fitted])
    # k1 is the signal, k2 the noise of seeds. The fit chose the kernel; all runs count in the prediction.
    kernel_NN = model.kernel_.k1(inputs_ND)
    gain_NN = np.linalg.solve(kernel_NN + model.kernel_.k2(inputs_ND), kernel_NN)
    mean_N = gain_NN.T @ targets_N
    variance_N = np.maximum(0.0, (kernel_NN - kernel_NN @ gain_NN).diagonal())
    return np.asarray(centre + spread * (mean_N - DOUBT * np.sqrt(variance_N)))


def clip_broken(values_N: Array) -> Array:
    """Returns scores with broken ones raised to the lower end of the others."""
    middle = np.median(values_N)
    return np.asarray(np.maximum(values_N, middle - BROKEN_DEVIATIONS * np.median(np.abs(values_N - middle))))


def coordinates(cells: Sequence[Mapping[str, object]]) -> Array:
    """Returns the inputs of the Gaussian process, [N, D] from 0 to 1: a column for each numeric axis that varies, and
    one for each value of any other axis."""
    columns = []
    for axis in dict.fromkeys(key for cell in cells for key in cell):
        values = [cell.get(axis) for cell in cells]
        distinct = list(dict.fromkeys(values))
        if len(distinct) < 2:
            continue
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct):
            rank = {value: place for place, value in enumerate(sorted(distinct))}  # type: ignore[type-var]
            columns.append([rank[value] / (len(rank) - 1) for value in values])
        else:
            columns += [[float(value == level) for value in values] for level in distinct]
    return np.array(columns, dtype=float).reshape(len(columns), len(cells)).T
