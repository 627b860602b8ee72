"""Strategies that pick a cell from a replay within its budget: ours by the search loop, and Optuna's own as peers."""

from collections.abc import Callable

import numpy as np
import optuna
from optuna.trial import Trial, TrialState

from benchmarks.search.replay import GRACE, REDUCTION, Replay, Rungs
from cluster.search.sampler import Unvisited
from cluster.search.samplers import make_sampler
from cluster.search.search import Search
from search_spaces.cells import Cell
from search_spaces.space import SearchConfig

Strategy = Callable[[Replay, np.random.Generator], Cell]
KEPT, RACED, LOWER = 0.4, 4, 1.0
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
    return max(_finished(replay, rng, asha, kept=0.0), key=lambda run: run[0])[1]


def _finished(replay: Replay, rng: np.random.Generator, asha: bool, kept: float) -> list[tuple[float, Cell]]:
    """The finished runs of our search, which leaves the share `kept` of the budget."""
    resolved = replay.grid.resolved
    sampler = make_sampler(resolved, SearchConfig(sampler="tpe"), rng)
    search = Search(sampler, Unvisited(resolved, rng), (0,), None)
    stops = Rungs(len(replay.grid.examples)) if asha else lambda number, value: False
    done: list[tuple[float, Cell]] = []
    least = kept * replay.left
    while replay.affords and replay.left > least and (cell := search.propose()) is not None:
        end = replay.run(cell, stops)
        search.observe(cell, end.seed, end.value, end.state, end.examples)
        if end.state == "done":
            done.append((end.value, cell))
    return done


def searched_asha(replay: Replay, rng: np.random.Generator) -> Cell:
    """The same with `search.scheduler: asha`."""
    return searched(replay, rng, asha=True)


def searched_halved(replay: Replay, rng: np.random.Generator) -> Cell:
    """The same on 1 - KEPT of the budget; then a further seed for the RACED best cells, for the better half, and so on.

    The pick is the cell of the highest mean, less LOWER standard errors by the seeds' deviation among those cells.
    """
    runs = _finished(replay, rng, asha=True, kept=KEPT)
    cells = {cell.id: cell for _, cell in runs}
    values = {cell.id: [value] for value, cell in runs}
    ranked = sorted(values, key=lambda name: -values[name][0])[:RACED]
    while replay.affords and any(replay.has(cells[name]) for name in ranked):
        for name in ranked:
            if replay.affords and replay.has(cells[name]):
                values[name].append(replay.run(cells[name]).value)
        ranked = sorted(ranked, key=lambda name: -float(np.mean(values[name])))[: max(1, len(ranked) // 2)]
    spread = [np.var(several, ddof=1) for several in values.values() if len(several) > 1]
    deviation = float(np.sqrt(np.mean(spread))) if spread else 0.0
    bounds = {name: np.mean(several) - LOWER * deviation / len(several) ** 0.5 for name, several in values.items()}
    return cells[max(bounds, key=lambda name: float(bounds[name]))]


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
        done = end.state == "done"
        study.tell(trial, end.value if done else None, TrialState.COMPLETE if done else TrialState.PRUNED)
    return _cell(replay, study.best_trial.params)


def tpe_asha(replay: Replay, rng: np.random.Generator) -> Cell:
    """The same with Optuna's asynchronous successive halving."""
    return tpe(replay, rng, asha=True)


def _pruned(trial: Trial, number: int, value: float) -> bool:
    trial.report(value, number)
    return trial.should_prune()


def _suggested(replay: Replay, trial: Trial) -> Cell:
    """A cell by the rank of each axis value, as ordered numbers."""
    for name, domain in replay.grid.resolved.axes.items():
        trial.suggest_int(name, 0, len(domain.values()) - 1)
    return _cell(replay, trial.params)


def _cell(replay: Replay, ranks: dict[str, int]) -> Cell:
    resolved = replay.grid.resolved
    return resolved.cell({name: resolved.axes[name].values()[rank] for name, rank in ranks.items()})


STRATEGIES: dict[str, Strategy] = {
    "random": random,
    "TPE (Optuna)": tpe,
    "TPE + ASHA (Optuna)": tpe_asha,
    "sampler: tpe": searched,
    "sampler: tpe, scheduler: asha": searched_asha,
    "the same, then seeds by halving": searched_halved,
}
