"""Finds the seed of each imported run, in its values or by counting the runs of one configuration."""

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from analysis.render.markup import shorten
from analysis.tables.labels import number_of, some
from cse.importers import ForeignRun, names_of
from cse_train.fields import ConfigError, Settings, nearest

SEED_NAMES = ("train.seed", "seed")
"""Settings that hold a run's seed, and are no part of its cell."""
SEED_KEY = SEED_NAMES[0]
SEEDS_END = 2**31
SETTINGS_IN_LINE = 4
DIFFERENCES_SHOWN = 3
SEED_ADVICE = "--seed NAME names what says it"


SEED_WORD = re.compile(r"(.*[^a-z])?(seed|random_state)", re.IGNORECASE)
"""Pattern of a name whose last word is seed, as `config/seed` and `random_seed`; scikit-learn calls it random_state."""
SEED_TOKEN = re.compile(
    r"[-_. ]*(?<![A-Za-z0-9])(?:(?:random|rng)[-_ ]?)?(?:seed|rs|s)[-_= ]?(\d+)(?![A-Za-z0-9]|\.\d)", re.IGNORECASE
)
"""Pattern of a seed in the name of a folder or model: `_s0`, `-seed42`, `seed=1`."""
LAST_NUMBER = re.compile(r"(.*?)(\d+)\D*", re.DOTALL)


def find_seed_name(runs: Sequence[ForeignRun]) -> tuple[str | None, list[str]]:
    """Returns the only name that can hold the seed, if SEED_NAMES do not; else None, and the several candidates."""
    if any(name in run.settings for run in runs for name in SEED_NAMES):
        return None, []
    values: dict[str, list[object]] = defaultdict(list)
    for run in runs:
        for name, value in run.values.items():
            if SEED_WORD.fullmatch(name):
                values[name].append(value)
    names = [
        name for name, found_values in values.items() if all(_read_seed(value) is not None for value in found_values)
    ]
    return (names[0], []) if len(names) == 1 else (None, names)


def split_seed(text: str) -> tuple[str, int | None]:
    """Returns a name without its only part for a seed, and that seed: `lr1e-05_s0` gives `lr1e-05` and 0."""
    tokens = SEED_TOKEN.findall(text)
    if len(tokens) != 1 or int(tokens[0]) >= SEEDS_END:
        return text, None
    return SEED_TOKEN.sub("", text).strip("-_./ "), int(tokens[0])


def declare_seed(runs: Sequence[ForeignRun], column: str) -> list[ForeignRun]:
    """Returns the runs with a column's or a setting's value as their seed.

    Of a text, the last number is the seed, and the rest stays a setting. Raises ConfigError for a name that no run has,
    and for values that are no seeds.
    """
    names = names_of(runs)
    if column not in names:
        matches = [name for name in names if name.lower() == column.lower()]
        if not matches:
            raise ConfigError([f"no such name: seed={column}; {nearest(column, names)}"])
        column = matches[0]
    seeded = []
    for run in runs:
        value = run.values.get(column)
        seed, text = _read_seed(value), ""
        if seed is None and isinstance(value, str):
            text, seed = split_seed(value)
        if seed is None and isinstance(value, str) and (match := LAST_NUMBER.fullmatch(value)):
            seed, text = _read_seed(int(match[2])), match[1].strip("-_./ ")
        if seed is None:
            raise ConfigError(
                [f"no seed: {column}={value}{_of_row(run)}; name a column of whole numbers from 0 with --seed"]
            )
        seedless = run.without([column])
        settings = {**cell_of(seedless), **({column: text} if text else {}), SEED_KEY: seed}
        seeded.append(replace(seedless, settings=settings))
    return seeded


def _read_seed(value: object) -> int | None:
    """Returns a whole number from 0 below SEEDS_END, also from text; None for anything else."""
    value = int(value) if isinstance(value, str) and value.isdecimal() else value
    whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
    return int(float(str(value))) if whole and 0 <= float(str(value)) < SEEDS_END else None


def seed_of(run: ForeignRun) -> int | None:
    """Returns the seed in the run's settings, of a text such as `s1` its last number; None where it has none."""
    for value in (run.settings[name] for name in SEED_NAMES if name in run.settings):
        number = LAST_NUMBER.fullmatch(value) if isinstance(value, str) else None
        if (seed := _read_seed(int(number[2]) if number else value)) is not None:
            return seed
    return None


def cell_of(run: ForeignRun) -> Settings:
    """Returns the run's settings without its seed."""
    return {name: value for name, value in run.settings.items() if name not in SEED_NAMES}


def group_by_cell(runs: Iterable[ForeignRun]) -> list[list[ForeignRun]]:
    """Returns the runs of each configuration, in the order of its first run."""
    cells: dict[str, list[ForeignRun]] = defaultdict(list)
    for run in runs:
        cells[json.dumps(cell_of(run), sort_keys=True, default=str)].append(run)
    return list(cells.values())


def drop_repeated(runs: Sequence[ForeignRun]) -> tuple[list[ForeignRun], int]:
    """Returns the runs without rows that repeat an earlier row including its seed, and the number of those dropped."""
    distinct: dict[object, ForeignRun] = {}
    for number, run in enumerate(runs):
        key = json.dumps([run.settings, run.metrics], sort_keys=True, default=str)
        distinct.setdefault(number if run.id or seed_of(run) is None else key, run)
    return list(distinct.values()), len(runs) - len(distinct)


def describe_pooled(runs: Sequence[ForeignRun], facts: Collection[str]) -> list[str]:
    """Returns lines on configurations whose runs lack seeds, or differ in values that are no settings and no facts."""
    pooled = [members for members in group_by_cell(runs) if len(members) > 1]
    counted = [run for members in pooled for run in members if seed_of(run) is None]
    differences: dict[str, dict[str, None]] = defaultdict(dict)
    for members in pooled:
        for name in dict.fromkeys(name for run in members for name in run.rest if name not in facts):
            values = dict.fromkeys(str(run.rest.get(name)) for run in members)
            differences[name] |= values if len(values) > 1 else {}
    texts = [
        f"{name} ({some([shorten(v) for v in values], DIFFERENCES_SHOWN)})"
        for name, values in differences.items()
        if values
    ]
    cells_of = number_of(sum(any(seed_of(run) is None for run in members) for members in pooled), "configuration")
    lines = [f"no seed: {number_of(len(counted), 'run')} of {cells_of}, counted from 0 in their order; {SEED_ADVICE}"]
    unusable = next(
        (f"{n}={run.settings[n]}" for run in counted for n in SEED_NAMES if run.settings.get(n) is not None), ""
    )
    lines = [f"{lines[0]}; {unusable} is no whole number from 0 below {SEEDS_END}" if unusable else lines[0]]
    differ = f"one cell for runs that differ in: {some(texts, SETTINGS_IN_LINE)}; --rename NAME=KEY tells them apart"
    return lines * bool(counted) + [differ] * bool(texts)


def number_seeds(runs: Sequence[ForeignRun], numbers: Mapping[str, int], score: str) -> dict[str, int]:
    """Returns run ID -> seed.

    A run without a seed keeps the one from an earlier import (`numbers`: ID -> seed); else it gets the lowest free seed
    of its configuration, in the order in which the runs began, or are listed. Raises ConfigError where two runs of one
    configuration have the same seed, and for a word beside whole numbers: a row of means is no run.
    """
    if any(seed_of(run) is not None for run in runs):
        _refuse_words(runs)
    seeds: dict[str, int] = {}
    for members in group_by_cell(runs):
        run_by_seed: dict[int, ForeignRun] = {}
        for run in members:
            seed = seed_of(run)
            if seed is not None and seed in run_by_seed:
                raise ConfigError([_describe_twice(seed, run_by_seed[seed], run, score)])
            if seed is not None:
                run_by_seed[seed] = run
        # After the seeds that runs state: one that an earlier import gave must not move when runs are added.
        waiting = [run for run in members if seed_of(run) is None]
        for run in waiting:
            if (seed := numbers.get(run.id)) is not None and seed not in run_by_seed:
                run_by_seed[seed] = run
        settled = {run.id for run in run_by_seed.values()}
        free = (seed for seed in range(SEEDS_END) if seed not in run_by_seed)
        for run in sorted(waiting, key=lambda run: run.begun or 0.0):
            if run.id not in settled:
                run_by_seed[next(free)] = run
        seeds |= {run.id: seed for seed, run in run_by_seed.items()}
    return seeds


def _refuse_words(runs: Sequence[ForeignRun]) -> None:
    """Raises ConfigError for a run whose seed is a word without a digit, such as `mean`."""
    for run, name in itertools.product(runs, SEED_NAMES):
        value = run.settings.get(name)
        if isinstance(value, str) and not LAST_NUMBER.fullmatch(value):
            line = f"no seed: {name}={value}{_of_row(run)} is beside seeds that are numbers"
            raise ConfigError([f"{line}; take out rows that are no runs, or name another column with --seed"])


def _of_row(run: ForeignRun) -> str:
    return f" of row {run.row}" if run.row else ""


def _describe_twice(seed: int, first: ForeignRun, second: ForeignRun, score: str) -> str:
    settings = [f"{name}={value}" for name, value in cell_of(first).items()]
    rows = f" (rows {first.row} and {second.row})" if first.row and second.row else ""
    subject = f"seed={seed} of {some(settings, SETTINGS_IN_LINE) or 'the only configuration'}"
    scores = f"has {score} {first.metrics[score]:g} and {second.metrics[score]:g}{rows}"
    advice = "take what else tells them apart as a setting (--rename NAME=KEY), or name another column with --seed"
    return f"one seed twice: {subject} {scores}; {advice}"
