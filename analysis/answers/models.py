"""What a model's name means: finished runs of one cell, or a folder that is no run of the ledger."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analysis.answers.build import SEED_SETTINGS
from analysis.answers.explain import candidates
from analysis.answers.imported.cells import NUMBERED_FROM, choose_cell, is_numbered
from analysis.answers.lookup import find_foreign_sweep, find_run, row_of, space_or_sweep, sweep_of
from analysis.ledger import Ledger, RunRow, SweepRow
from analysis.matching.match import match_on
from analysis.run_folder import RunFolder
from analysis.run_state import RunState
from analysis.tables.data_sets import LENGTH
from analysis.tables.labels import differing, some
from analysis.tables.results import DEV
from analysis.tables.spec import SettingDifference, plain
from cse_train.config import complete, effective
from cse_train.fields import ConfigError, Scalar, nearest
from cse_train.results import Protocol
from search_spaces.catalog import catalog
from search_spaces.cell_names import choose
from search_spaces.cells import ResolvedSpace, sweep_name

NAME_DIGITS = 12
"""Hexadecimal digits shown of a signature."""
SETTINGS_SHOWN = 8
"""Settings that are named."""
FindFolder = Callable[[str], Path | None]
"""Where the files lie of a model that is no run and no folder here; None for a name that means none."""


@dataclass(frozen=True)
class ModelScore:
    """A column of a model that was scored for this comparison."""

    value: float
    protocol: Protocol
    cosines: np.ndarray | None = None
    """float64 [pairs], of graded sets alone."""
    gold: np.ndarray | None = None
    queries: np.ndarray | None = None
    """float64 [queries], times 100, of retrieval sets of one's own alone."""
    weights: str = ""
    """Hash of the model's."""


@dataclass(frozen=True)
class Model:
    """What a name on the command line means: finished runs of one cell, or a folder that is no run of the ledger."""

    name: str
    label: str
    runs: Sequence[RunRow] = ()
    folders: tuple[Path, ...] = ()
    """Of models that are no runs of the ledger; of several each is one seed of one training."""
    notes: Sequence[str] = ()
    """Which of its runs are not compared."""
    axes: Sequence[str] = ()
    """Of the space that names its cell: in these a comparison is meant to differ."""
    scores: Sequence[Mapping[str, ModelScore]] = ()
    """Of each folder: column -> score."""
    pooler: str | None = None
    """By which a folder is read, where its name says it."""
    max_length: int | None = None
    """Tokens kept of a text, where its name says it."""

    @property
    def folder(self) -> Path | None:
        """The first; None for runs of the ledger."""
        return self.folders[0] if self.folders else None

    def scored(self, column: str) -> list[ModelScore]:
        """Each folder's score; empty where one has none."""
        scores = [each[column] for each in self.scores if column in each]
        return scores if len(scores) == len(self.folders) else []

    @property
    def names(self) -> list[str]:
        """The signatures of its runs by their seeds; of folders that were scored the hashes of their weights."""
        runs = [run.signature for run in sorted(self.runs, key=lambda run: run.seed)]
        return runs or [next(iter(scores.values())).weights for scores in self.scores]

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def dev(self) -> str | None:
        """The dev set by which its runs were picked."""
        return str(self.runs[0].config.get(DEV)) if self.runs else None


def model_of(
    name: str,
    ledger: Ledger | None,
    profile: str | None = None,
    settings: Mapping[str, Scalar] | None = None,
    data_hash: str | None = None,
    find_folder: FindFolder = lambda _: None,
) -> Model:
    """A run's signature or folder, `SPACE:CELL`, `SWEEP:CELL`, several of these with commas, or a model's folder, or
    several of one training.

    Of a space or a sweep with one cell the cell may be left out; `find_folder` is asked for a name that is nothing
    else. ConfigError for a name that means nothing, runs of several cells or two of one seed, and where no run is done.
    """
    parts = [part.strip() for part in name.split(",")]
    several = len(parts) > 1 and not os.path.exists(name) and _space_and_cell(name, ledger) is None
    if several:
        models = [_single(part, ledger, profile, settings, data_hash, find_folder) for part in parts]
        runs = tuple({run.signature: run for model in models for run in model.runs}.values())
        folders = tuple(dict.fromkeys(folder for model in models for folder in model.folders))
        if folders and (runs or len(folders) < len(models)):
            what = "folders beside runs" if runs else "a folder stands twice"
            raise ConfigError([f"no seeds of one training: model={name}: {what}; name each folder once, or runs alone"])
        model = Model(name, name, runs, folders, [note for model in models for note in model.notes])
    else:
        model = _single(name, ledger, profile, settings, data_hash, find_folder)
    _require_one_model(model)
    return model


def _single(
    name: str,
    ledger: Ledger | None,
    profile: str | None,
    settings: Mapping[str, Scalar] | None,
    data_hash: str | None,
    find_folder: FindFolder,
) -> Model:
    path = Path(name)
    if os.path.isdir(path) or (os.path.isfile(path) and path.suffix not in (".yaml", ".yml")):
        folder = path.resolve()
        row = row_of(RunFolder.around(folder).path, ledger) if ledger else None
        return _read_run(name, row) if row is not None else Model(name, name, folders=(folder,))
    row = find_run(name, ledger) if ledger else None
    if row is not None:
        return _read_run(name, row)
    named = _space_and_cell(name, ledger)
    if named is None and (place := find_folder(name)) is not None:
        return Model(name, name, folders=(place,))
    if named is None:
        valid = [*catalog(), *(sweep.id for sweep in ledger.sweeps())] if ledger else list(catalog())
        how = "give a run (cse trials), SPACE:CELL or SWEEP:CELL (cse ls), a model's folder or its name on the hub"
        how += f"; no folder {name} is here, nor to be had from the hub or its cache" * (name.count("/") == 1)
        raise ConfigError([f"unknown model: model={name}; {how}; {nearest(name.partition(':')[0], valid)}"])
    space, cell = named
    if (foreign := find_foreign_sweep(space, ledger)) is not None and ledger is not None:
        return _read_imported(name, foreign, cell, ledger)
    return _read_cell(name, space_or_sweep(space, ledger, profile, settings or {}), cell, ledger, data_hash)


def _space_and_cell(name: str, ledger: Ledger | None) -> tuple[str, str] | None:
    """The space or sweep that a name begins with, and the cell behind a colon, empty for none."""
    shipped = {space.lower() for space in catalog()}
    ends = [len(name), *(place for place, letter in enumerate(name) if letter == ":")]
    for end in ends:
        space = name[:end]
        if sweep_of(space, ledger) or space.lower() in shipped or (os.path.isfile(space) and end):
            return space, name[end + 1 :]
    return None


def _read_run(name: str, row: RunRow) -> Model:
    if row.state != RunState.DONE:
        raise ConfigError([f"nothing finished: model={name} is {row.state}; let cse run go on"])
    return Model(name, f"run {row.signature[:NAME_DIGITS]}", (row,))


def _read_imported(name: str, sweep: SweepRow, cell_words: str, ledger: Ledger) -> Model:
    cell = choose_cell(sweep, ledger, [cell_words] if cell_words else [], f"{sweep.id}:")
    return Model(name, f"{sweep.id}:{cell.argument}", cell.runs, axes=list(cell.key))


def separate_numbered(left: Model, right: Model) -> Model:
    """The right model, without a seed in common with the left one where an import numbered either's seeds."""
    if not any(is_numbered(run) for run in (*left.runs, *right.runs)):
        return right
    return replace(right, runs=[replace(run, seed=NUMBERED_FROM + run.seed) for run in right.runs])


def _read_cell(
    name: str, resolved: ResolvedSpace, cell_words: str, ledger: Ledger | None, data_hash: str | None
) -> Model:
    rows = ledger.runs() if ledger else []
    words = [cell_words] if cell_words else []
    cell = choose(resolved, words, candidates(resolved, rows), before=f"{name.removesuffix(':' + cell_words)}:")
    matches, notes = match_on(resolved, rows, data_hash=data_hash)
    runs = [matched.run for matched in matches if matched.cell.id == cell.id]
    done = sorted((run for run in runs if run.state == RunState.DONE), key=lambda run: run.seed)
    if not done:
        aside = f" ({'; '.join(notes)})" if notes else ""
        raise ConfigError([f"nothing finished: model={name} has no done run{aside}; cse run trains some, cse ls lists"])
    lacking = [f"{name}: {len(runs) - len(done)} of {len(runs)} runs are not done"] if len(runs) > len(done) else []
    label = f"{sweep_name(resolved)}:{cell_words}" if cell_words else sweep_name(resolved)
    remarks = [*lacking, *(f"{name}: {note}" for note in notes)]
    return Model(name, label, tuple(done), notes=remarks, axes=resolved.space.axis_names)


def _require_one_model(model: Model) -> None:
    """ConfigError for runs that differ in more than their seeds, and for two of one seed."""
    differing = differing_settings(model.runs)
    if differing:
        line = f"several models: model={model.name} has runs that differ in {', '.join(differing)}"
        raise ConfigError([f"{line}; give runs of one cell, which differ in their seeds alone"])
    twice = sorted({seed for seed in model.seeds if model.seeds.count(seed) > 1})
    if twice:
        line = f"one seed twice: model={model.name} has several runs of seed {', '.join(map(str, twice))}"
        raise ConfigError([f"{line}; give one run of each"])


def differing_settings(runs: Sequence[RunRow]) -> list[str]:
    """Settings but the seed, and inputs by their content, in which runs differ."""
    facts = [
        {**effective({"method": run.method, **run.config}), **{f"{k} (content)": v for k, v in run.identity.items()}}
        for run in runs
    ]
    names = dict.fromkeys(name for fact in facts for name in fact if name not in SEED_SETTINGS)
    return [name for name in names if len({repr(plain(fact.get(name))) for fact in facts}) > 1]


def require_two(left: Model, right: Model) -> None:
    """ConfigError where both names mean the same model, or share a run."""
    shared = {run.signature for run in left.runs} & {run.signature for run in right.runs}
    both = [str(folder) for folder in left.folders if folder in right.folders]
    if shared or both:
        what = f"run {min(shared)[:NAME_DIGITS]} is on both sides" if shared else f"both are {both[0]}"
        raise ConfigError([f"one model twice: A={left.name}, B={right.name}: {what}; name two different ones"])


def find_unasked(left: Model, right: Model) -> list[SettingDifference]:
    """The settings in which the two sides differ beside what is asked; none where one is a folder.

    Asked are the axes of the spaces that name the cells; of runs that are named by themselves the method or, where that
    is the same, a single setting in which they differ.
    """
    if not (left.runs and right.runs):
        return []
    sides = [
        ({"side": name}, complete({"method": model.runs[0].method, **model.runs[0].config}))
        for name, model in (("A", left), ("B", right))
    ]
    unlike = differing(sides, {*left.axes, *right.axes, *SEED_SETTINGS})
    if left.axes or right.axes:
        return unlike
    names = [setting.name for setting in unlike]
    asked = "method" if "method" in names else names[0] if len(names) == 1 else ""
    return [setting for setting in unlike if setting.name != asked]


def differences(left: Model, right: Model) -> Iterator[str]:
    """In which inputs and settings the two sides differ beside the seeds."""
    if not (left.runs and right.runs):
        return
    first, second = left.runs[0], right.runs[0]
    for name in dict.fromkeys([*first.identity, *second.identity]):
        a, b = (str(run.identity.get(name))[:NAME_DIGITS] for run in (first, second))
        if a != b and name != LENGTH:
            yield f"trained on or by other {name}: A {a}, B {b}"
    settings = [effective({"method": run.method, **run.config}) for run in (first, second)]
    keys = [key for key in dict.fromkeys([*settings[0], *settings[1]]) if key not in SEED_SETTINGS]
    unlike = [
        f"{k} A {settings[0].get(k)}, B {settings[1].get(k)}" for k in keys if settings[0].get(k) != settings[1].get(k)
    ]
    if unlike:
        yield f"settings: {some(unlike, SETTINGS_SHOWN, '; ')}"
