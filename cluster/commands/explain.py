"""`cse explain`: the runs behind one cell of a table, where they came from, and the command that repeats them."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.commands import arguments
from cluster.commands.columns import Format, FormatOption

if TYPE_CHECKING:
    from analysis.explain import Origins, SeedRun
    from analysis.ledger import Ledger, RunRow
    from cluster.cells import Cell, ResolvedSpace

SpaceOrSweep = Annotated[str, typer.Argument(metavar="ID|FILE|SWEEP", help="A space, or a sweep (cse ls).")]
CellKey = Annotated[
    list[str] | None,
    typer.Option("--cell", help="Its label, or axis=value; comma-separated or repeated.", show_default=False),
]


def explain(
    space: SpaceOrSweep,
    cell: CellKey = None,
    profile: arguments.Profile = None,
    seeds: arguments.Seeds = None,
    settings: arguments.Set = None,
    ledger: arguments.LedgerUrl = None,
    form: FormatOption = Format.text,
) -> None:
    """Show what is behind one cell: seeds, values, attempts, commits, hosts, data, cost, and how to repeat it."""
    from cluster.commands.cell_choice import choose
    from cluster.commands.explain_text import as_dict, text
    from cluster.commands.which_space import space_or_sweep

    opened = arguments.existing_ledger(ledger)
    resolved = space_or_sweep(space, opened, profile, arguments.settings(settings))
    rows = opened.runs() if opened else []
    chosen = choose(resolved, cell or [], candidates(resolved, rows))
    found = explained(resolved, chosen, opened, rows, range(seeds) if seeds else resolved.space.seeds)
    print(json.dumps(as_dict(found), indent=1, default=str) if form is Format.json else text(found))


@dataclass(frozen=True)
class Explained:
    """One cell with all that is known of it."""

    resolved: "ResolvedSpace"
    cell: "Cell"
    runs: "Sequence[SeedRun]"
    missing: tuple[int, ...]
    """Seeds that are asked for and have no run."""
    columns: Sequence[str]
    protocols: Mapping[str, Sequence[Mapping[str, Any]]]
    """Column -> the distinct protocols of its scores."""
    published: Mapping[str, Any]
    """The paper's row, `{"cells": ...}`, or empty."""
    origins: "Origins"
    command: str
    """What repeats these runs."""


def candidates(resolved: "ResolvedSpace", rows: "Sequence[RunRow]") -> "list[Cell]":
    """Every cell of the space; of an endless space, those that have run."""
    from cluster.commands.results import answers

    if resolved.size() is not None:
        return resolved.cells()
    ran = (resolved.cell(resolved.key_of(answer.run.config)) for answer in answers(resolved, rows))
    return list({cell.id: cell for cell in ran}.values())


def explained(
    resolved: "ResolvedSpace", cell: "Cell", ledger: "Ledger | None", rows: "Sequence[RunRow]", seeds: Sequence[int]
) -> Explained:
    """All that the ledger, the space and the paper say of a cell."""
    from analysis.explain import origins, seed_runs
    from cluster.commands.results import answers, full_key
    from cluster.commands.table import spec_of

    key, spec = full_key(resolved, cell.key), spec_of(resolved)
    answering = [answer.run for answer in answers(resolved, rows) if dict(answer.key) == key]
    runs, protocols = seed_runs(ledger, answering, spec.columns, spec.scores) if ledger else ([], {})
    have = {one.run.seed for one in runs}
    return Explained(
        resolved=resolved,
        cell=cell,
        runs=runs,
        missing=tuple(seed for seed in seeds if seed not in have),
        columns=spec.columns,
        protocols=protocols,
        published=next((row for row in spec.published if row["key"] == key), {}),
        origins=origins(runs),
        command=command(resolved, cell, sorted(have) or list(seeds), answering),
    )


def command(resolved: "ResolvedSpace", cell: "Cell", seeds: Sequence[int], runs: "Sequence[RunRow]" = ()) -> str:
    """The `cse run` that trains this cell alone, with these seeds where they count from 0."""
    from cluster.commands.cell_choice import written

    space, profile = resolved.space, resolved.profile
    words = ["cse", "run", _space_name(resolved)]
    if profile.name != space.profile:
        words += ["--profile", profile.name]
    for key, value in narrowed(resolved, cell).items():
        words += ["--set", f"{key}={written(value)}"]
    if list(seeds) == list(range(len(seeds))):
        words += ["--seeds", str(len(seeds))]
    workers = {run.identity["workers"] for run in runs if "workers" in run.identity}
    return shlex.join(words + (["--workers", str(workers.pop())] if len(workers) == 1 else []))


def narrowed(resolved: "ResolvedSpace", cell: "Cell") -> dict[str, Any]:
    """Settings under which the space holds this cell alone, as it runs: stand-ins and defaults spelled out."""
    flat = cell.run(0).flat()
    listed = bool(resolved.space.cells)
    axes = [axis for axis in resolved.space.axis_names if axis in flat and (listed or axis in cell.key)]
    kept = {key: value for key, value in resolved.overrides.items() if key in flat}
    return {**kept, **{axis: flat[axis] for axis in axes}}


def _space_name(resolved: "ResolvedSpace") -> str:
    from cluster.catalog import catalog

    space = resolved.space
    shipped = catalog().get(space.id)
    return space.id if shipped is not None and shipped.resolve() == space.file.resolve() else str(space.file)
