"""The seed of each run: what the tool says, else the runs of one configuration are counted."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from analysis.tables.labels import some
from cse.importers import ForeignRun
from cse_train.fields import ConfigError, Scalar, Settings

SEED_NAMES = ("train.seed", "seed")
"""Settings that say a run's seed; a cell has none of them."""
SEED_KEY = SEED_NAMES[0]
SEEDS_END = 2**31
SETTINGS_IN_LINE = 4


def declare_seed(runs: Sequence[ForeignRun], column: str) -> list[ForeignRun]:
    """The runs with what a column or a setting says as their seed. ConfigError for what is no seed, and for none."""
    made = []
    for run in runs:
        value = {**run.rest, **run.metrics, **run.settings}.get(column)
        whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
        if not whole or not 0 <= float(str(value)) < SEEDS_END:
            at = f" of row {run.row}" if run.row else ""
            raise ConfigError([f"no seed: {column}={value}{at}; name a column of whole numbers from 0 with --seed"])
        metrics = {name: number for name, number in run.metrics.items() if name != column}
        rest = {name: text for name, text in run.rest.items() if name != column}
        settings = {k: v for k, v in run.settings.items() if k not in (column, *SEED_NAMES)}
        made.append(replace(run, settings={**settings, SEED_KEY: int(float(str(value)))}, metrics=metrics, rest=rest))
    return made


def seed_of(run: ForeignRun) -> int | None:
    """The seed that the run says; None for none."""
    values = (run.settings.get(name) for name in SEED_NAMES)
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and 0 <= v < SEEDS_END), None)


def cell_of(run: ForeignRun) -> Settings:
    """The run's configuration without its seed."""
    return {name: value for name, value in run.settings.items() if name not in SEED_NAMES}


def drop_repeated(runs: Sequence[ForeignRun]) -> tuple[list[ForeignRun], int]:
    """The runs without rows that say what a row before says, its seed too; and how many these were."""
    kept: dict[object, ForeignRun] = {}
    for number, run in enumerate(runs):
        says = json.dumps([run.settings, run.metrics], sort_keys=True, default=str)
        kept.setdefault(number if run.id or seed_of(run) is None else says, run)
    return list(kept.values()), len(runs) - len(kept)


def number_seeds(runs: Sequence[ForeignRun], numbers: Mapping[str, int], score: str) -> dict[str, int]:
    """ID -> seed. A run that says none keeps the one that an import gave it (`numbers`: ID -> seed), else gets the
    least that is free in its configuration, in the order in which they began, or stand.

    ConfigError where two runs of a configuration say one seed: their scores are no seed's.
    """
    cells: dict[str, list[ForeignRun]] = defaultdict(list)
    for run in runs:
        cells[json.dumps(cell_of(run), sort_keys=True, default=str)].append(run)
    seeds: dict[str, int] = {}
    for members in cells.values():
        taken: dict[int, ForeignRun] = {}
        for run in members:
            seed = seed_of(run)
            if seed is not None and seed in taken:
                raise ConfigError([_twice(seed, taken[seed], run, score)])
            if seed is not None:
                taken[seed] = run
        waiting = [run for run in members if seed_of(run) is None]
        for run in waiting:
            if (seed := numbers.get(run.id)) is not None and seed not in taken:
                taken[seed] = run
        settled = {run.id for run in taken.values()}
        free = (seed for seed in range(SEEDS_END) if seed not in taken)
        for run in sorted(waiting, key=lambda run: run.begun or 0.0):
            if run.id not in settled:
                taken[next(free)] = run
        seeds |= {run.id: seed for seed, run in taken.items()}
    return seeds


def _twice(seed: int, first: ForeignRun, second: ForeignRun, score: str) -> str:
    given = [f"{name}={value}" for name, value in cell_of(first).items()]
    rows = f" (rows {first.row} and {second.row})" if first.row and second.row else ""
    what = f"seed={seed} of {some(given, SETTINGS_IN_LINE) or 'the only configuration'}"
    have = f"has {score} {_show(first.metrics[score])} and {_show(second.metrics[score])}{rows}"
    how = "take what else tells them apart as a setting (--rename NAME=KEY), or name another column with --seed"
    return f"one seed twice: {what} {have}; {how}"


def _show(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
