"""Strategies that pick a cell from a replay within its budget: ours by the search loop, and Optuna's own as peers."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import optuna
from optuna.trial import Trial, TrialState

from analysis.run_state import RunState
from analysis.statistics.surface import lower_bounds
from benchmarks.search.replay import GRACE, REDUCTION, Replay, Rungs
from cluster.search.samplers import Unvisited, make_sampler
from cluster.search.search import Search
from search_spaces.cells import Cell
from search_spaces.space import SearchConfig

Strategy = Callable[[Replay, np.random.Generator], Cell]
KEPT = 0.1
ASKS = 10
"""Suggestions in a row without a run left before a peer gives up."""


def random(replay: Replay, rng: np.random.Generator) -> Cell:
    """Cells in random order, one seed each; the best observed."""
    cells = iter(rng.permutation(len(replay.grid.cells)))
    seen: list[tuple[float, Cell]] = []
    while replay.affords and (i := next(cells, None)) is not None:
        cell = replay.grid.cells[i]
        seen.append((replay.run(cell).value, cell))
    return max(seen, key=lambda run: run[0])[1]


def searched(replay: Replay, rng: np.random.Generator, asha: bool = False) -> Cell:
    """`search.sampler: tpe`, one seed a cell; the best finished run."""
    done = [run for run in _runs(replay, rng, asha, kept=0.0) if run.state == RunState.DONE]
    return max(done, key=lambda run: run.value).cell


class Run(NamedTuple):
    """Run that the project's search made."""

    cell: Cell
    value: float
    state: RunState


def _runs(replay: Replay, rng: np.random.Generator, asha: bool, kept: float) -> list[Run]:
    """The runs of our search, which leaves the share `kept` of the budget."""
    resolved = replay.grid.resolved
    sampler = make_sampler(resolved, SearchConfig(sampler="tpe"), rng)
    search = Search(sampler, Unvisited(resolved, rng), (0,), None)
    stops = Rungs(len(replay.grid.examples)) if asha else lambda number, value: False
    runs: list[Run] = []
    least = kept * replay.left
    while replay.affords and replay.left > least and (cell := search.propose()) is not None:
        end = replay.run(cell, stops)
        search.observe(cell, end.seed, end.value, end.state, end.examples)
        runs.append(Run(cell, end.value, end.state))
    return runs


def picked_by_bound(replay: Replay, rng: np.random.Generator) -> Cell:
    """Searches with ASHA and picks as `cse best` does, by the lower bound of the expected score."""
    return _ranked(_runs(replay, rng, asha=True, kept=0.0))[0]


def further_seeds(replay: Replay, rng: np.random.Generator) -> Cell:
    """Searches as `picked_by_bound`; KEPT of the budget goes to further seeds, each for the pick of that moment."""
    runs = _runs(replay, rng, asha=True, kept=KEPT)
    while replay.affords and (cells := [cell for cell in _ranked(runs) if replay.has(cell)]):
        end = replay.run(cells[0])
        runs.append(Run(cells[0], end.value, end.state))
    return _ranked(runs)[0]


def _ranked(runs: Sequence[Run]) -> list[Cell]:
    """Cells of finished runs, the one with the highest lower bound first."""
    bounds = lower_bounds([run.cell.key for run in runs], [run.value for run in runs])
    order = np.argsort(-bounds, kind="stable")
    return list({runs[i].cell.id: runs[i].cell for i in order if runs[i].state == RunState.DONE}.values())


def tpe(replay: Replay, rng: np.random.Generator, asha: bool = False) -> Cell:
    """Optuna's TPE as it comes; a cell that it names again gets its next seed; the best trial."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    grace = round(GRACE * len(replay.grid.examples))
    halving = optuna.pruners.SuccessiveHalvingPruner(min_resource=grace, reduction_factor=REDUCTION)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=int(rng.integers(2**31))),
        pruner=halving if asha else optuna.pruners.NopPruner(),
    )
    refused = 0
    while replay.affords and refused < ASKS:
        trial = study.ask()
        cell = _suggested(replay, trial)
        if not replay.has(cell):
            study.tell(trial, state=TrialState.FAIL)
            refused += 1
            continue
        refused = 0
        end = replay.run(cell, lambda number, value, trial=trial: _pruned(trial, number, value))
        done = end.state == RunState.DONE
        study.tell(trial, end.value if done else None, TrialState.COMPLETE if done else TrialState.PRUNED)
    return _cell(replay, study.best_trial.params)


def _pruned(trial: Trial, number: int, value: float) -> bool:
    trial.report(value, number)
    return trial.should_prune()


def _suggested(replay: Replay, trial: Trial) -> Cell:
    """Asks Optuna for a cell; each axis is the rank of its value, an ordered number."""
    for name, domain in replay.grid.resolved.axes.items():
        trial.suggest_int(name, 0, len(domain.values()) - 1)
    return _cell(replay, trial.params)


def _cell(replay: Replay, ranks: dict[str, int]) -> Cell:
    resolved = replay.grid.resolved
    return resolved.cell({name: resolved.axes[name].values()[rank] for name, rank in ranks.items()})


STRATEGIES: dict[str, Strategy] = {
    "random": random,
    "TPE (Optuna)": tpe,
    "TPE + ASHA (Optuna)": partial(tpe, asha=True),
    "sampler: tpe": searched,
    "sampler: tpe, scheduler: asha": partial(searched, asha=True),
    "the same, picked as by cse best": picked_by_bound,
    "the same, a tenth for further seeds": further_seeds,
}
