"""Explains one cell of a table for `cse explain`: its runs, their origin, and the command that repeats them."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.answers.build import scale_of, spec_of
from analysis.answers.imported.caveats import list_caveats
from analysis.answers.imported.cells import ImportedCell
from analysis.answers.imported.metric import metric_of_runs, metric_of_spec, scale_of_protocols
from analysis.answers.lookup import space_of_sweep
from analysis.ledger import Ledger, RunRow, SweepRow
from analysis.matching.match import match, match_on
from analysis.tables.columns import Entry, entry_of
from analysis.tables.provenance import Origins, SeedRun, origins, seed_runs
from analysis.tables.results import BEST_COLUMN, drop_part
from analysis.tables.spec import Key, MetricScale, TableSpec
from cse_train.fields import Json, Settings
from cse_train.results import Protocol
from search_spaces.catalog import space_name
from search_spaces.cell_names import cell_argument, setting
from search_spaces.cells import Cell, ResolvedSpace, full_key
from search_spaces.paper import Paper


def command(resolved: ResolvedSpace, cell: Cell, seeds: Sequence[int], runs: Sequence[RunRow] = ()) -> str:
    """Returns the `cse run` that trains one cell alone; `seeds` are given where they count from 0."""
    profile = resolved.profile.name if resolved.profile.name != resolved.space.profile else None
    counted = seeds if list(seeds) == list(range(len(seeds))) else None
    workers = {run.identity["workers"] for run in runs if "workers" in run.identity}
    options = ("--workers", str(workers.pop())) if len(workers) == 1 else ()
    return run_command(space_name(resolved.space.file), profile, narrow(resolved, cell), counted, options)


def run_command(
    space: str, profile: str | None, settings: Settings, seeds: Sequence[int] | None, options: Sequence[str]
) -> str:
    """Returns a `cse run` command line that ends with the words in `options`."""
    words = ["cse", "run", space, *(("--profile", profile) if profile else ())]
    words += [word for key, value in settings.items() for word in ("--set", setting(key, value))]
    words += ["--seeds", str(len(seeds))] if seeds else []
    return shlex.join([*words, *options])


@dataclass(frozen=True)
class Explained:
    """One cell of a table with all that is known of its runs."""

    space: str
    """ID of the space, or the sweep of imported runs."""
    title: str
    profile: str
    """Name of the profile; empty for imported runs."""
    key: Key
    label: str | None
    argument: str
    """Cell in the form that `--cell` takes."""
    runs: Sequence[SeedRun]
    missing: tuple[int, ...]
    """Requested seeds that have no run."""
    columns: Sequence[str]
    protocols: Mapping[str, Sequence[Protocol]]
    """Column -> the distinct protocols of its scores."""
    published: Json
    """Row of the paper, `{"cells": ...}`, or empty."""
    scales: Mapping[str, MetricScale]
    """Column -> scale of its numbers."""
    paper: Paper | None
    origins: Origins
    command: str
    """Command that repeats the runs; empty for imported ones."""
    notes: Sequence[str] = ()
    """Lines on runs of the table that are on other data, or were made by others."""

    def entry(self, column: str) -> Entry:
        """Returns the entry of a column: its mean with its seeds."""
        values = {run.run.seed: value for run in self.runs if (value := run.values[column]) is not None}
        dev = {run.run.seed: run.dev[column] for run in self.runs}
        dev_scores = {seed: value for seed, value in dev.items() if value is not None}
        return entry_of(values, self.published.get("cells", {}).get(column), dev=dev_scores)


def candidates(resolved: ResolvedSpace, rows: Sequence[RunRow]) -> list[Cell]:
    """Returns every cell of the space; for an infinite space, the cells that have run."""
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
    """Returns all that the ledger, the space and the paper hold on a cell."""
    key, spec = full_key(resolved, drop_part(cell.key)), spec_of(resolved)
    columns = columns_behind(resolved, cell, spec)
    matched_runs, notes = match_on(resolved, rows, data_hash=data_hash)
    matches = [matched.run for matched in matched_runs if matched.cell.id == cell.id]
    metric = metric_of_runs(ledger, matches) if ledger else None
    matches = [metric.measured(run) for run in matches] if metric else matches
    runs, protocols = seed_runs(ledger, matches, columns, spec.scores) if ledger else ([], {})
    run_seeds = {seed_run.run.seed for seed_run in runs}
    return Explained(
        space=resolved.space.id,
        title=resolved.space.title,
        profile=resolved.profile.name,
        key=cell.key,
        label=cell.label,
        argument=cell_argument(cell),
        runs=runs,
        missing=tuple(seed for seed in seeds if seed not in run_seeds),
        columns=columns,
        protocols=protocols,
        published=next((row for row in spec.published if row["key"] == key), {}),
        scales=scales_of_columns(columns, runs, spec.scores) | ({metric.name: metric.scale} if metric else {}),
        paper=resolved.space.paper,
        origins=origins(runs),
        command=command(resolved, cell, sorted(run_seeds) or list(seeds), matches),
        notes=notes,
    )


def explain_imported(cell: ImportedCell, sweep: SweepRow, ledger: Ledger) -> Explained:
    """Returns all that the ledger holds on a cell of imported runs, and the row of a paper's table, if it is in one."""
    resolved = space_of_sweep(sweep) if sweep.spec.file else None
    metric = metric_of_spec(sweep.spec, ledger.runs(sweep=sweep.id))
    scored = sorted({score.suite for score in ledger.scores([run.signature for run in cell.runs])})
    spec = spec_of(resolved) if resolved else TableSpec(id=sweep.id, axes=[], columns=[BEST_COLUMN, *scored])
    columns = spec.columns if resolved else [BEST_COLUMN, *scored]
    runs, protocols = seed_runs(ledger, [metric.measured(run) for run in cell.runs], columns, spec.scores)
    declared = {column: scale for column in columns if (scale := scale_of_protocols(protocols[column]))}
    key = full_key(resolved, cell.key) if resolved else {}
    return Explained(
        space=sweep.id,
        title=sweep.spec.title,
        profile="",
        key=cell.key,
        label=cell.label,
        argument=cell.argument,
        runs=runs,
        missing=(),
        columns=columns,
        protocols=protocols,
        published=next((row for row in spec.published if row["key"] == key), {}),
        scales={**scales_of_columns(columns, runs, spec.scores), BEST_COLUMN: metric.scale, **declared},
        paper=resolved.space.paper if resolved else None,
        origins=origins(runs),
        command="",
        notes=[f"best is {metric.name}", *list_caveats(sweep, ledger, [run.signature for run in cell.runs])],
    )


def scales_of_columns(
    columns: Sequence[str], runs: Sequence[SeedRun], names: Mapping[str, str]
) -> dict[str, MetricScale]:
    """Returns column -> scale of its numbers; `names` is column -> stored suite."""
    values = {column: [value for run in runs if (value := run.values[column]) is not None] for column in columns}
    return {column: scale_of(names.get(column, column), values[column]) for column in columns}


def columns_behind(resolved: ResolvedSpace, cell: Cell, spec: TableSpec) -> list[str]:
    """Returns the columns of a cell's row that use the cell's runs."""
    unused = {suite for suite in resolved.space.evaluate if suite not in resolved.suites_of(cell.key)}
    return [
        column
        for column in spec.columns
        if (
            spec.scores.get(column, column) == cell.part if cell.part else spec.scores.get(column, column) not in unused
        )
    ]


def narrow(resolved: ResolvedSpace, cell: Cell) -> Settings:
    """Returns settings under which the space holds one cell alone as it runs, substitutions and defaults included."""
    flat = cell.run(0).flat()
    lists_cells = bool(resolved.space.cells)
    axes = [axis for axis in resolved.space.axis_names if axis in flat and (lists_cells or axis in cell.key)]
    overrides = {key: value for key, value in resolved.given().items() if key in flat}
    suite_settings = [key for settings in resolved.space.set_for.values() for key in settings if key in flat]
    return {**overrides, **{axis: flat[axis] for axis in (*axes, *suite_settings)}}
