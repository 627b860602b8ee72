"""`cse ablate`: trains a run's or a sweep's best configuration, and the same without each of its components in turn."""

import contextlib
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from analysis.answers.build import columns_of
from analysis.answers.lookup import space_of_sweep, sweep_of
from analysis.documents import HIDDEN, dump_json
from analysis.ledger import Ledger
from analysis.matching import match
from analysis.render.formats import render
from analysis.run_state import RunState
from analysis.statistics.basics import mean_and_sd
from analysis.statistics.leave_one_out import Without, leave_one_out
from analysis.tables.aggregate import Row, Table
from analysis.tables.columns import Entry, entry_of
from analysis.tables.results import results_of
from analysis.tables.spec import TableSpec, guess_scale
from cluster.plan.planner import plan
from cse.cli import exit, ledgers, options
from cse.cli.listing import align_rows
from cse.cli.loader import deferred
from cse.cli.plan_text import product
from cse.cli.sweep_options import SweepArguments, Yes
from cse.cli.sweeps.run import train
from cse.cli.table_text import TableFormat
from cse.experiments.request import Request
from cse_train.fields import ConfigError
from search_spaces.catalog import catalog, load_space
from search_spaces.cells import ResolvedSpace, full_key, resolve
from search_spaces.space import Space

with deferred(__name__):
    from cse.experiments import ablation as ablations

ABLATIONS_FOLDER = "ablations"
WORTH_KEYS = ("configuration", "difference", "95% interval", "by")
What = Annotated[
    str,
    typer.Argument(
        metavar="RUN|SWEEP|FILE|ID",
        help="A run's signature (its beginning) or folder, or a sweep or its space: its best cell; or an ablation.",
    ),
]
PlanOnly = Annotated[bool, typer.Option("--plan-only", help="Print the plan and train nothing.")]


@dataclass(frozen=True)
class FullConfiguration:
    """Scores of the configuration with all of its components."""

    label: str
    n: int
    mean: float | None
    sd: float | None


@dataclass(frozen=True, kw_only=True)
class ComponentWorth:
    """Worth of each component in one column: the full configuration against the one without it."""

    id: str
    column: str
    full: FullConfiguration
    rows: Sequence[Without]
    """Comparisons with the full configuration, the most valuable component first."""
    values: Mapping[str, Mapping[int, float]] = field(metadata=HIDDEN)
    """Label of a configuration -> seed -> value."""


Answer = ComponentWorth


@options.add_arguments
def ablate(
    what: What, yes: Yes = False, plan_only: PlanOnly = False, form: TableFormat = None, *, arguments: SweepArguments
) -> int:
    """Train the full configuration and one without each component (its method's YAML lists them); print their worth.

    With --format all else goes to stderr. The name or the file of an ablation goes on with it.
    """
    with contextlib.redirect_stdout(sys.stderr) if form else contextlib.nullcontext():
        request, new_ablation = prepare(what, arguments)
        space = request.resolved.space
        _describe_parts(space, new_ablation.absent if new_ablation else ())
        if plan_only:
            return _print_plan(request)
        opened = ledgers.open_ledger(request.ledger, request.options.storage, create=True)
        file = new_ablation.write() if new_ablation else space.file
        code = train(request, opened, yes)
    if code not in (None, exit.INTERRUPTED):
        worth = compare_components(request.resolved, opened, request.seeds)
        if form == "json":
            print(dump_json(worth))
        elif form:
            print(render(worth_table(worth, space), form), end="")
        else:
            print(f"\n{worth_text(worth)}\n\nthe table: cse table {shlex.quote(str(file))}")
    return code or exit.DONE


def prepare(what: str, arguments: SweepArguments) -> "tuple[Request, ablations.Ablation | None]":
    """Returns the request to run, and the new ablation behind it; None if the name is an existing ablation's.

    Raises ConfigError for --profile, and for names without a configuration.
    """
    if arguments.profile is not None:
        line = f"no profile: profile={arguments.profile}; the settings are those of {what}, change one by --set"
        raise ConfigError([line])
    opened, new_ablation = ledgers.existing_ledger(arguments.ledger), None
    sweep, is_file = sweep_of(what, opened), Path(what).is_file()
    resolved = space_of_sweep(sweep) if sweep else resolve(load_space(what)) if is_file else None
    if resolved is None or not ablations.is_ablation(resolved.space):
        is_space = is_file or what.lower() in map(str.lower, catalog())
        name = options.sweep_named(what, opened) if is_space else what
        origin = ablations.origin_of(name, opened, arguments.seeds, options.settings(arguments.settings))
        storage = ledgers.storage_folder(arguments.storage)
        folder = ledgers.notes_folder(ledgers.ledger_url(arguments.ledger), storage) / ABLATIONS_FOLDER
        new_ablation = ablations.ablation(origin, folder)
        resolved = resolve(new_ablation.space)
    (request,) = arguments.requests_for([resolved])
    return request, new_ablation


def _describe_parts(space: Space, absent: Sequence[str]) -> None:
    """Prints the components to be left out, with the settings that each changes."""
    lines = [f"{space.id}: {space.title}"]
    for cell in space.cells:
        changed = ", ".join(f"{key} {space.settings[key]} -> {value}" for key, value in cell.settings.items())
        lines.append(f"  {cell.label}" + (f": {changed}" if changed else ""))
    print("\n".join([*lines, *(["  already off: " + ", ".join(absent)] if absent else [])]), flush=True)


def _print_plan(request: Request) -> int:
    """Prints the counts of `cse plan` for the ablation, and trains and creates nothing."""
    opened = ledgers.open_ledger(request.ledger) if "://" in request.ledger or Path(request.ledger).exists() else None
    space, workers = request.resolved.space, request.options.workers
    work = plan([space], request.resolved.profile, request.seeds, opened, request.paths, workers=workers)
    counts = work.counts()
    print(f"{product(counts)}: {counts[RunState.DONE]} done, {counts['to_run']} to run")
    exit.say([f"what is done is not known: {line}" for line in work.absent])
    return exit.DONE


def compare_components(resolved: ResolvedSpace, ledger: Ledger, seeds: Sequence[int]) -> ComponentWorth:
    """Returns what each component is worth, in the first column of the space's table."""
    column = columns_of(resolved)[0]
    labels = {str(full_key(resolved, cell.key)): str(cell.label) for cell in resolved.cells()}
    matches = match(resolved, ledger.runs(), seeds)
    planned = [({"label": labels[str(dict(m.key))]}, m.run.signature, m.run.seed) for m in matches]
    values: dict[str, dict[int, float]] = {label: {} for label in labels.values()}
    for result in results_of(ledger, planned, [column], runs=[matched.run for matched in matches]):
        if not math.isnan(result.value):
            values[str(result.key["label"])][result.seed] = result.value
    label, full = ablations.FULL_LABEL, values[ablations.FULL_LABEL]
    without = {name: scores for name, scores in values.items() if name != label}
    return ComponentWorth(
        id=resolved.space.id,
        column=column,
        full=FullConfiguration(label, len(full), *mean_and_sd(list(full.values()))),
        rows=leave_one_out(full, without),
        values=values,
    )


def worth_table(worth: ComponentWorth, space: Space) -> Table:
    """Returns a row for the full configuration and one without each component, the most valuable component first."""

    def cells(label: str) -> dict[str, Entry]:
        return {worth.column: entry_of(worth.values[label])}

    full = worth.values[worth.full.label].values()
    digits = guess_scale(list(full)).digits(full)
    rows = [Row(dict.fromkeys(WORTH_KEYS, "") | {"configuration": worth.full.label}, cells(worth.full.label))]
    for part in worth.rows:
        difference = "" if part.difference is None else f"{round(part.difference, digits) + 0.0:+.{digits}f}"
        interval = "" if part.interval is None else " to ".join(f"{end:+.{digits}f}" for end in part.interval)
        key = dict(zip(WORTH_KEYS, (part.label, difference, interval, part.by), strict=True))
        rows.append(Row(key, cells(part.label)))
    spec = TableSpec(id=space.id, title=space.title, axes=list(WORTH_KEYS), columns=[worth.column])
    return Table(spec, rows, [], {}, [])


def worth_text(worth: ComponentWorth) -> str:
    """Returns the comparison of components as a text table, the most valuable component first."""
    names = (worth.column, "n", "mean", "sd", "difference", "95% interval", "by")
    full = worth.full
    rows: list[tuple[object, ...]] = [(full.label, full.n, full.mean, full.sd, None, "", "")]
    for part in worth.rows:
        interval = "{:.2f} to {:.2f}".format(*part.interval) if part.interval else "-"
        rows.append((part.label, part.n, part.mean, part.sd, part.difference, interval, part.by))
    return align_rows([dict(zip(names, row, strict=True)) for row in rows])
