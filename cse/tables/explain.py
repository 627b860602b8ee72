"""`cse explain`: the runs behind one cell of a table, where they came from, and the command that repeats them."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.ledger import Ledger, RunRow
from analysis.tables.provenance import Origins, SeedRun, origins, seed_runs
from analysis.tables.results import drop_part
from analysis.tables.spec import TableSpec
from cluster.plan.match import match, match_on
from cse.tables.build import spec_of
from cse_train.fields import Json, Settings
from cse_train.results import Protocol
from search_spaces.catalog import catalog
from search_spaces.cell_names import setting
from search_spaces.cells import Cell, ResolvedSpace, full_key


def command(resolved: ResolvedSpace, cell: Cell, seeds: Sequence[int], runs: Sequence[RunRow] = ()) -> str:
    """The `cse run` that trains this cell alone, with these seeds where they count from 0."""
    profile = resolved.profile.name if resolved.profile.name != resolved.space.profile else None
    counted = seeds if list(seeds) == list(range(len(seeds))) else None
    workers = {run.identity["workers"] for run in runs if "workers" in run.identity}
    more = ("--workers", str(workers.pop())) if len(workers) == 1 else ()
    return run_command(space_name(resolved), profile, narrow(resolved, cell), counted, more)


def run_command(
    space: str, profile: str | None, settings: Settings, seeds: Sequence[int] | None, more: Sequence[str]
) -> str:
    """A `cse run` as it is typed, with the words `more` at its end."""
    words = ["cse", "run", space, *(("--profile", profile) if profile else ())]
    words += [word for key, value in settings.items() for word in ("--set", setting(key, value))]
    words += ["--seeds", str(len(seeds))] if seeds else []
    return shlex.join([*words, *more])


@dataclass(frozen=True)
class Explained:
    """One cell with all that is known of it."""

    resolved: ResolvedSpace
    cell: Cell
    runs: Sequence[SeedRun]
    missing: tuple[int, ...]
    """Seeds that are asked for and have no run."""
    columns: Sequence[str]
    protocols: Mapping[str, Sequence[Protocol]]
    """Column -> the distinct protocols of its scores."""
    published: Json
    """The paper's row, `{"cells": ...}`, or empty."""
    origins: Origins
    command: str
    """What repeats these runs."""
    notes: Sequence[str] = ()
    """On runs of the table that are on other data."""


def candidates(resolved: ResolvedSpace, rows: Sequence[RunRow]) -> list[Cell]:
    """Every cell of the space; of an endless space, those that have run."""
    if resolved.size() is not None:
        return resolved.cells()
    return list({matched.cell.id: matched.cell for matched in match(resolved, rows)}.values())


def explain_cell(
    resolved: ResolvedSpace,
    cell: Cell,
    ledger: Ledger | None,
    rows: Sequence[RunRow],
    seeds: Sequence[int],
    data_hash: str | None = None,
) -> Explained:
    """All that the ledger, the space and the paper say of a cell."""
    key, spec = full_key(resolved, drop_part(cell.key)), spec_of(resolved)
    columns = columns_behind(resolved, cell, spec)
    chosen, notes = match_on(resolved, rows, data_hash=data_hash)
    matches = [matched.run for matched in chosen if matched.cell.id == cell.id]
    runs, protocols = seed_runs(ledger, matches, columns, spec.scores) if ledger else ([], {})
    have = {seed_run.run.seed for seed_run in runs}
    return Explained(
        resolved=resolved,
        cell=cell,
        runs=runs,
        missing=tuple(seed for seed in seeds if seed not in have),
        columns=columns,
        protocols=protocols,
        published=next((row for row in spec.published if row["key"] == key), {}),
        origins=origins(runs),
        command=command(resolved, cell, sorted(have) or list(seeds), matches),
        notes=notes,
    )


def columns_behind(resolved: ResolvedSpace, cell: Cell, spec: TableSpec) -> list[str]:
    """The columns of its row that stand on the cell's runs."""
    apart = {suite for suite in resolved.space.evaluate if suite not in resolved.suites_of(cell.key)}
    return [
        column
        for column in spec.columns
        if (spec.scores.get(column, column) == cell.part if cell.part else spec.scores.get(column, column) not in apart)
    ]


def narrow(resolved: ResolvedSpace, cell: Cell) -> Settings:
    """Settings under which the space holds this cell alone, as it runs: substitutions and defaults spelled out."""
    flat = cell.run(0).flat()
    listed = bool(resolved.space.cells)
    axes = [axis for axis in resolved.space.axis_names if axis in flat and (listed or axis in cell.key)]
    kept = {key: value for key, value in resolved.given().items() if key in flat}
    apart = [key for settings in resolved.space.set_for.values() for key in settings if key in flat]
    return {**kept, **{axis: flat[axis] for axis in (*axes, *apart)}}


def space_name(resolved: ResolvedSpace) -> str:
    """The space as a command takes it: a shipped ID, else its file."""
    space = resolved.space
    shipped = catalog().get(space.id)
    return space.id if shipped is not None and shipped.resolve() == space.file.resolve() else str(space.file)
