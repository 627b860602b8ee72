"""Resolves a model's name: finished runs of one cell, or a folder that is no run of the ledger."""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analysis.answers.build import SEED_SETTINGS
from analysis.answers.explain import candidates
from analysis.answers.imported import IMPORTED, NUMBERED_FROM, choose_cell, is_numbered, list_imported_sweeps
from analysis.answers.lookup import find_run, is_space, row_of, select, sweep_of
from analysis.answers.selection import CellRuns, require_finished
from analysis.ledger import Ledger, RunRow, SweepRow, sweeps_named
from analysis.matching import add_versions, match_on
from analysis.run_folder import RunFolder
from analysis.run_state import RunState
from analysis.tables.labels import LENGTH, differing, some
from analysis.tables.results import DEV
from analysis.tables.spec import SettingDifference, plain
from cse_train.config import complete, effective
from cse_train.fields import ConfigError, Scalar, nearest
from cse_train.results import Protocol
from search_spaces.catalog import catalog
from search_spaces.cell_names import cell_argument, choose, setting
from search_spaces.cells import Cell, ResolvedSpace, sweep_name

NAME_DIGITS = 12
"""Number of hexadecimal digits of a signature in messages."""
PICK_NAME = "best"
"""Cell name of a sweep's pick, as `cse best` shows it: `faq:best`."""
SETTINGS_SHOWN = 8
"""Number of settings that a message names."""
FindFolder = Callable[[str], Path | None]
"""Function from a model's name to its folder, for a model that is neither a run nor a local folder, else None."""


@dataclass(frozen=True)
class ModelScore:
    """Score of a model in one column, computed for this comparison."""

    value: float
    protocol: Protocol
    cosines: np.ndarray | None = None
    """Cosines of graded sentence pairs, float64 [pairs]; None for other sets."""
    gold: np.ndarray | None = None
    queries: np.ndarray | None = None
    """Scores per query times 100, float64 [queries], for a user's own retrieval sets; None for other sets."""
    weights: str = ""
    """Hash of the model's weights."""


@dataclass(frozen=True)
class Model:
    """Model that a name on the command line means: finished runs of one cell, or folders outside the ledger."""

    name: str
    label: str
    runs: Sequence[RunRow] = ()
    folders: tuple[Path, ...] = ()
    """Folders of a model that is no run of the ledger; each of several is one seed of one training."""
    notes: Sequence[str] = ()
    """Lines on runs of the model that are not compared."""
    failed: int = 0
    """Number of further runs of the model's cell that ended by an error of their own; another try may mend them."""
    axes: Sequence[str] = ()
    """Axes of the space that names the model's cell; a comparison is meant to differ in them."""
    left_out: int = 0
    """Number of further finished seeds of the cell of a single run that is named by itself."""
    is_cell: bool = False
    """True if the name means a cell, and so all of its seeds; False for runs that are named one by one, and folders."""
    scores: Sequence[Mapping[str, ModelScore]] = ()
    """Column -> score, for each folder."""
    pooler: str | None = None
    """Pooler with which a folder is loaded, where the model's name gives one."""
    max_length: int | None = None
    """Number of tokens kept of a text, where the model's name gives one."""

    @property
    def folder(self) -> Path | None:
        """First folder of the model; None for runs of the ledger."""
        return self.folders[0] if self.folders else None

    @property
    def is_single(self) -> bool:
        """True for one folder, and for one run that is named by itself and is all that its cell has.

        The best of several seeds, which somebody chose, gets no word over sentences unasked.
        """
        return len(self.folders) == 1 or (len(self.runs) == 1 and not self.is_cell and not self.left_out)

    def scored(self, column: str) -> list[ModelScore]:
        """Returns each folder's score in a column; empty where one has none."""
        scores = [each[column] for each in self.scores if column in each]
        return scores if len(scores) == len(self.folders) else []

    @property
    def names(self) -> list[str]:
        """Signatures of the model's runs by their seeds; for scored folders, hashes of their weights."""
        runs = [run.signature for run in sorted(self.runs, key=lambda run: run.seed)]
        return runs or [next(iter(scores.values())).weights for scores in self.scores]

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def dev(self) -> str | None:
        """Dev set by which checkpoints of the model's runs were picked; None for folders."""
        return str(self.runs[0].config.get(DEV)) if self.runs else None


def model_of(
    name: str,
    ledger: Ledger | None,
    profile: str | None = None,
    settings: Mapping[str, Scalar] | None = None,
    data_hash: str | None = None,
    find_folder: FindFolder = lambda _: None,
) -> Model:
    """Returns the model that a name means: a run's signature or folder, `SPACE:CELL`, `SWEEP:CELL`, several of them
    with commas, one model's folder, or the folders of several seeds.

    The cell `best` is the sweep's pick. A space or a sweep with one cell needs no cell; `find_folder` is called for a
    name that is nothing else. Raises ConfigError for an unknown name, for runs of several cells or two of one seed, and
    where no run is done.
    """
    parts = [part.strip() for part in name.split(",")]
    several = len(parts) > 1 and not os.path.exists(name) and split_name(name, ledger) is None
    if several:
        models = [_resolve_name(part, ledger, profile, settings, data_hash, find_folder) for part in parts]
        runs = tuple({run.signature: run for model in models for run in model.runs}.values())
        folders = tuple(dict.fromkeys(folder for model in models for folder in model.folders))
        if folders and (runs or len(folders) < len(models)):
            fault = "folders beside runs" if runs else "a folder stands twice"
            raise ConfigError(
                [f"no seeds of one training: model={name}: {fault}; name each folder once, or runs alone"]
            )
        model = Model(name, name, runs, folders, [note for model in models for note in model.notes])
    else:
        model = _resolve_name(name, ledger, profile, settings, data_hash, find_folder)
    _require_one_model(model)
    return _require_all_seeds(model, ledger)


def _resolve_name(
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
    space_and_cell = split_name(name, ledger)
    if space_and_cell is None and (place := find_folder(name)) is not None:
        return Model(name, name, folders=(place,))
    if space_and_cell is None:
        valid = [*catalog(), *(sweep.id for sweep in ledger.sweeps())] if ledger else list(catalog())
        advice = "give a run (cse trials), SPACE:CELL or SWEEP:CELL (cse ls), a model's folder or its name on the hub"
        advice += f"; no folder {name} is here, nor to be had from the hub or its cache" * (name.count("/") == 1)
        raise ConfigError([f"unknown model: model={name}; {advice}; {nearest(name.partition(':')[0], valid)}"])
    space, cell = space_and_cell
    if cell == PICK_NAME:
        return _read_pick(name, space, ledger, profile, settings, data_hash)
    selected = select(space, ledger, profile, settings or {})
    if isinstance(selected, SweepRow):
        assert ledger is not None
        imported_cell = choose_cell(selected, ledger, [cell] if cell else [], f"{selected.id}:")
        label = f"{selected.id}:{imported_cell.argument}"
        return Model(name, label, imported_cell.runs, axes=list(imported_cell.key), is_cell=True)
    sweep = sweep_of(space, ledger)
    confirmation = sweep if sweep and sweep.spec.confirms else None
    return _read_cell(name, selected, cell, ledger, data_hash, confirmation)


def _read_pick(
    name: str,
    space: str,
    ledger: Ledger | None,
    profile: str | None,
    settings: Mapping[str, Scalar] | None,
    data_hash: str | None,
) -> Model:
    """Returns the cell that `cse best` names. Raises ConfigError where a space has several sweeps, or none."""
    sweeps = sweeps_named(space, ledger.sweeps()) if ledger else []
    if profile or settings:
        selected = select(space, ledger, profile, settings or {})
        wanted = selected.id if isinstance(selected, SweepRow) else sweep_name(selected)
        sweeps = [sweep for sweep in sweeps if sweep.id == wanted]
    if ledger is None or not sweeps:
        raise ConfigError([f"nothing finished: model={name} has no sweep in this ledger; cse run {space} starts one"])
    if len(sweeps) > 1:
        choices = some([sweep.id for sweep in sweeps], SETTINGS_SHOWN)
        raise ConfigError([f"several sweeps: model={name} may be of {choices}; give one of them"])
    sweep = sweeps[0]
    pick = require_finished(ledger, sweep.id)[0]
    if pick.apart:  # the runs of one cell are on several data sets: only these were ranked together
        rows = ledger.runs(signatures=[run.signature for run in pick.runs])
        label = f"{sweep.id}:{_write_cell(pick, [])}"
        return Model(name, label, tuple(sorted(rows, key=lambda run: run.seed)), axes=list(pick.cell), is_cell=True)
    resolved = select(sweep.id, ledger, None, {})
    listed = resolved.cells() if isinstance(resolved, ResolvedSpace) and resolved.space.cells else []
    words = _write_cell(pick, listed)
    model = _resolve_name(f"{sweep.id}:{words}" if words else sweep.id, ledger, None, None, data_hash, lambda _: None)
    return replace(model, name=name)


def _write_cell(ranked: CellRuns, listed: Sequence[Cell]) -> str:
    """Returns a ranked cell as a name has it behind the colon: by its label where the space lists cells, else by its
    axes; "" for a sweep whose cells do not differ."""
    labels = (cell_argument(cell) for cell in listed if dict(cell.key) == dict(ranked.cell))
    return next(labels, ",".join(setting(axis, value) for axis, value in ranked.cell.items()))


def split_name(name: str, ledger: Ledger | None) -> tuple[str, str] | None:
    """Returns the space or sweep that a name begins with, and the cell after a colon, empty for none."""
    ends = [len(name), *(place for place, letter in enumerate(name) if letter == ":")]
    for end in ends:
        space = name[:end]
        if end and (sweep_of(space, ledger) or is_space(space)):
            return space, name[end + 1 :]
    return None


def _read_run(name: str, row: RunRow) -> Model:
    if row.state != RunState.DONE:
        raise ConfigError([f"nothing finished: model={name} is {row.state}; let cse run go on"])
    return Model(name, f"run {row.signature[:NAME_DIGITS]}", (row,))


def separate_numbered(left: Model, right: Model) -> Model:
    """Returns the right model with seeds that the left one does not have, where an import numbered either's seeds."""
    if not any(is_numbered(run) for run in (*left.runs, *right.runs)):
        return right
    return replace(right, runs=[replace(run, seed=NUMBERED_FROM + run.seed) for run in right.runs])


def _read_cell(
    name: str,
    resolved: ResolvedSpace,
    cell_words: str,
    ledger: Ledger | None,
    data_hash: str | None,
    confirmation: SweepRow | None,
) -> Model:
    """Returns a cell with all finished runs that the ledger has of it; of a confirmation, with its own runs alone."""
    rows = [] if ledger is None else ledger.runs(sweep=confirmation.id) if confirmation else ledger.runs()
    words = [cell_words] if cell_words else []
    cell = choose(resolved, words, candidates(resolved, rows), before=f"{name.removesuffix(':' + cell_words)}:")
    matches, notes = match_on(resolved, rows, data_hash=data_hash)
    runs = [matched.run for matched in matches if matched.cell.id == cell.id]
    finished = sorted((run for run in runs if run.state == RunState.DONE), key=lambda run: run.seed)
    if not finished:
        aside = f" ({'; '.join(notes)})" if notes else ""
        raise ConfigError([f"nothing finished: model={name} has no done run{aside}; cse run trains some, cse ls lists"])
    unfinished = (
        [f"{name}: {len(runs) - len(finished)} of {len(runs)} runs are not done"] if len(runs) > len(finished) else []
    )
    label = f"{sweep_name(resolved)}:{cell_words}" if cell_words else sweep_name(resolved)
    remarks = [*unfinished, *(f"{name}: {note}" for note in notes)]
    failed = sum(run.state == RunState.FAILED for run in runs)
    confirms = confirmation.spec.confirms if confirmation else None
    axes = resolved.space.axis_names if confirms is None else confirms.axes
    return Model(name, label, tuple(finished), notes=remarks, failed=failed, axes=axes, is_cell=True)


def _require_one_model(model: Model) -> None:
    """Raises ConfigError for runs that differ in more than their seeds, and for two runs of one seed."""
    setting_names = differing_settings(model.runs)
    if setting_names:
        line = f"several models: model={model.name} has runs that differ in {', '.join(setting_names)}"
        raise ConfigError([f"{line}; give runs of one cell, which differ in their seeds alone"])
    repeated_seeds = sorted({seed for seed in model.seeds if model.seeds.count(seed) > 1})
    if repeated_seeds:
        line = f"one seed twice: model={model.name} has several runs of seed {', '.join(map(str, repeated_seeds))}"
        raise ConfigError([f"{line}; give one run of each"])


def _require_all_seeds(model: Model, ledger: Ledger | None) -> Model:
    """Returns the model with the numbers of its failed runs, and of finished seeds that a single run leaves out.

    Raises ConfigError for several runs that leave out finished seeds of their cell: the best five of ten equal seeds
    win half of all comparisons.
    """
    if ledger is None or not model.runs or model.is_cell:
        return model
    named, first = {run.signature for run in model.runs}, model.runs[0]
    imports = list_imported_sweeps(ledger, named) if IMPORTED in first.identity else []
    rows = ledger.runs(sweep=imports[0].id) if imports else ledger.runs()
    equal = [run for run in rows if (run.method, run.settings, run.identity) ==
             (first.method, first.settings, first.identity)]  # fmt: skip
    # Runs of one configuration by another VERSION of the method's code are no seeds of the same cell.
    versions = {run.signature: run.identity["version"] for run in add_versions(equal)}
    others = [run for run in equal if run.signature not in named and versions[run.signature] ==
              versions[first.signature]]  # fmt: skip
    failed = sum(run.state == RunState.FAILED for run in others)
    left_out = sum(run.state == RunState.DONE for run in others)
    line = f"{len(named)} of the {len(named) + left_out} finished seeds of its cell"
    if left_out and len(named) > 1:
        cells = (
            (sweep.id, link.cell)
            for sweep in imports or ledger.sweeps()
            for link in ledger.cells(sweep.id)
            if link.signature in named
        )
        sweep_id, cell = next(cells, ("SPACE", {"CELL": ""}))
        cell_words = ",".join(itertools.starmap(setting, cell.items()))
        advice = f"give {sweep_id}:{cell_words}, all of whose seeds count"
        raise ConfigError([f"seeds left out: model={model.name} is {line}; {advice}"])
    notes = [*model.notes, f"{model.name} is {line}: what the others give is not covered"] if left_out else model.notes
    return replace(model, failed=failed, left_out=left_out, notes=notes)


def differing_settings(runs: Sequence[RunRow]) -> list[str]:
    """Returns the settings other than the seed, and the inputs by content, in which runs differ."""
    facts = [
        {**effective({"method": run.method, **run.config}), **{f"{k} (content)": v for k, v in run.identity.items()}}
        for run in runs
    ]
    names = dict.fromkeys(name for fact in facts for name in fact if name not in SEED_SETTINGS)
    return [name for name in names if len({repr(plain(fact.get(name))) for fact in facts}) > 1]


def require_two(left: Model, right: Model) -> None:
    """Raises ConfigError where both names mean the same model, or share a run."""
    shared = {run.signature for run in left.runs} & {run.signature for run in right.runs}
    shared_folders = [str(folder) for folder in left.folders if folder in right.folders]
    if shared or shared_folders:
        fault = f"run {min(shared)[:NAME_DIGITS]} is on both sides" if shared else f"both are {shared_folders[0]}"
        raise ConfigError([f"one model twice: A={left.name}, B={right.name}: {fault}; name two different ones"])


def find_unasked(left: Model, right: Model) -> list[SettingDifference]:
    """Returns the settings in which two models differ beyond those that the comparison is about; none for folders.

    A comparison is about the axes of the spaces that name the cells. For runs that are named by themselves it is about
    the method or, where both have one method, a single setting in which they differ.
    """
    if not (left.runs and right.runs):
        return []
    sides = [
        ({"side": name}, complete({"method": model.runs[0].method, **model.runs[0].config}))
        for name, model in (("A", left), ("B", right))
    ]
    setting_differences = differing(sides, {*left.axes, *right.axes, *SEED_SETTINGS})
    if left.axes or right.axes:
        return setting_differences
    names = [setting.name for setting in setting_differences]
    compared_setting = "method" if "method" in names else names[0] if len(names) == 1 else ""
    return [setting for setting in setting_differences if setting.name != compared_setting]


def differences(left: Model, right: Model) -> Iterator[str]:
    """Yields the inputs and settings in which two models differ, without the seeds."""
    if not (left.runs and right.runs):
        return
    first, second = left.runs[0], right.runs[0]
    for name in dict.fromkeys([*first.identity, *second.identity]):
        a, b = (str(run.identity.get(name))[:NAME_DIGITS] for run in (first, second))
        if a != b and name != LENGTH:
            yield f"trained on or by other {name}: A {a}, B {b}"
    settings = [effective({"method": run.method, **run.config}) for run in (first, second)]
    keys = [key for key in dict.fromkeys([*settings[0], *settings[1]]) if key not in SEED_SETTINGS]
    changes = [
        f"{k} A {settings[0].get(k)}, B {settings[1].get(k)}" for k in keys if settings[0].get(k) != settings[1].get(k)
    ]
    if changes:
        yield f"settings: {some(changes, SETTINGS_SHOWN, '; ')}"
