"""`cse ablate`: trains a run's or a sweep's best configuration, and the same without each of its components in turn."""

import contextlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from analysis.answers.lookup import space_of_sweep, sweep_of
from analysis.documents import dump_json
from analysis.ledger import Ledger
from analysis.render.formats import render
from analysis.run_state import RunState
from analysis.statistics.basics import mean_and_sd
from analysis.statistics.leave_one_out import Without
from analysis.tables.aggregate import Row, Table
from analysis.tables.columns import Entry, entry_of
from analysis.tables.spec import TableSpec, guess_scale
from cluster.plan.planner import plan
from cse.cli import exit, ledgers, options
from cse.cli.listing import align_rows
from cse.cli.loader import deferred
from cse.cli.plan_text import product
from cse.cli.sweep_options import SweepArguments, Yes
from cse.cli.sweeps.run import run_grid
from cse.cli.table_text import TableFormat
from cse.experiments import request as sweeping
from cse_train.fields import ConfigError
from search_spaces.catalog import catalog, load_space
from search_spaces.cells import ResolvedSpace, resolve
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


@options.add_arguments
def ablate(
    what: What, yes: Yes = False, plan_only: PlanOnly = False, form: TableFormat = None, *, arguments: SweepArguments
) -> int:
    """Train the full configuration and one without each component (its method's YAML lists them); print their worth.

    With --format all else goes to stderr. The name or the file of an ablation goes on with it.
    """
    with contextlib.redirect_stdout(sys.stderr) if form else contextlib.nullcontext():
        request, new_ablation = prepare(what, arguments)
        print(
            "\n".join(describe_parts(request.resolved.space, new_ablation.absent if new_ablation else ())), flush=True
        )
        if plan_only:
            return plan_alone(request)
        opened = ledgers.open_ledger(request.ledger, request.options.storage, create=True)
        file = new_ablation.write() if new_ablation else request.resolved.space.file
        code = run_grid(request, opened, yes)
    if code not in (None, exit.INTERRUPTED):
        worth = ablations.compare_components(request.resolved, opened, request.seeds)
        print(show_worth(worth, request.resolved.space, form), end="")
        if form is None:
            print(f"\nthe table: cse table {shlex.quote(str(file))}")
    return code or exit.DONE


def prepare(what: str, arguments: SweepArguments) -> tuple[sweeping.Request, Any]:
    """Returns the request to run, and the new ablation behind it; None if the name is an existing ablation's.

    Raises ConfigError for --profile, and for names without a configuration.
    """
    if arguments.profile is not None:
        raise ConfigError(
            [f"no profile: profile={arguments.profile}; the settings are those of {what}, change one by --set"]
        )
    url, storage = ledgers.ledger_url(arguments.ledger), ledgers.storage_folder(arguments.storage)
    opened = ledgers.existing_ledger(arguments.ledger)
    resolved, new_ablation = find_ablation(what, opened), None
    if resolved is None:
        name = options.sweep_named(what, opened) if is_space(what) else what
        origin = ablations.origin_of(name, opened, arguments.seeds, options.settings(arguments.settings))
        new_ablation = ablations.ablation(origin, ledgers.notes_folder(url, storage) / ABLATIONS_FOLDER)
        resolved = resolve(new_ablation.space)
    request = sweeping.Request(
        resolved=resolved,
        seeds=tuple(range(arguments.seeds)) if arguments.seeds else resolved.space.seeds,
        paths=arguments.paths([resolved]),
        ledger=url,
        options=arguments.options(),
        rerun=arguments.rerun,
        keep=arguments.keep,
    )
    return request, new_ablation


def is_space(what: str) -> bool:
    """Returns True if a file or a shipped space has this name."""
    return Path(what).is_file() or what.lower() in map(str.lower, catalog())


def find_ablation(what: str, ledger: Ledger | None) -> ResolvedSpace | None:
    """Returns the ablation with this name or file; None where the name means something else."""
    sweep = sweep_of(what, ledger)
    if sweep is None and not Path(what).is_file():
        return None
    resolved = space_of_sweep(sweep) if sweep else resolve(load_space(what))
    return resolved if resolved and ablations.is_ablation(resolved.space) else None


def plan_alone(request: sweeping.Request) -> int:
    """Prints the counts of `cse plan` for the ablation, and trains and creates nothing."""
    opened = ledgers.open_ledger(request.ledger) if "://" in request.ledger or Path(request.ledger).exists() else None
    space, workers = request.resolved.space, request.options.workers
    work = plan([space], request.resolved.profile, request.seeds, opened, request.paths, workers=workers)
    counts = work.counts()
    print(f"{product(counts)}: {counts[RunState.DONE]} done, {counts['to_run']} to run")
    exit.say([f"what is done is not known: {line}" for line in work.absent])
    return exit.DONE


def describe_parts(space: Space, absent: Sequence[str]) -> list[str]:
    """Returns lines that list the components to be left out, with the settings that each changes."""
    lines = [f"{space.id}: {space.title}"]
    for cell in space.cells:
        changed = ", ".join(f"{key} {space.settings[key]} -> {value}" for key, value in cell.settings.items())
        lines.append(f"  {cell.label}" + (f": {changed}" if changed else ""))
    return [*lines, *(["  already off: " + ", ".join(absent)] if absent else [])]


def show_worth(worth: "ablations.ComponentWorth", space: Space, form: str | None) -> str:
    """Returns the comparison of components as text, as JSON with numbers, or in one of the table formats."""
    if form == "json":
        return dump_json({"id": space.id, **worth.as_dict()}) + "\n"
    return f"\n{worth_text(worth)}\n" if form is None else render(worth_table(worth, space), form)


def worth_table(worth: "ablations.ComponentWorth", space: Space) -> Table:
    """Returns a row for the full configuration and one without each component, the most valuable component first."""
    digits = guess_scale(list(worth.full.values())).digits(worth.full.values())
    rows = [Row(dict.fromkeys(WORTH_KEYS, "") | {"configuration": ablations.FULL_LABEL}, _entry(worth, worth.full))]
    for part in worth.components:
        difference = "" if part.difference is None else f"{round(part.difference, digits) + 0.0:+.{digits}f}"
        interval = "" if part.interval is None else " to ".join(f"{end:+.{digits}f}" for end in part.interval)
        key = dict(zip(WORTH_KEYS, (part.label, difference, interval, part.by), strict=True))
        rows.append(Row(key, _entry(worth, worth.values[part.label])))
    spec = TableSpec(id=space.id, title=space.title, axes=list(WORTH_KEYS), columns=[worth.column])
    return Table(spec, rows, [], {}, [])


def _entry(worth: "ablations.ComponentWorth", values: Mapping[int, float]) -> dict[str, Entry]:
    return {worth.column: entry_of(values)}


def worth_text(worth: "ablations.ComponentWorth") -> str:
    """Returns the comparison of components as a text table, the most valuable component first."""
    mean, sd = mean_and_sd(list(worth.full.values()))
    head = {
        worth.column: ablations.FULL_LABEL,
        "n": len(worth.full),
        "mean": mean,
        "sd": sd,
        "difference": None,
        "95% interval": "",
        "by": "",
    }
    return align_rows([head, *({worth.column: part.label, **_fill_row(part)} for part in worth.components)])


def _fill_row(component: Without) -> dict[str, object]:
    interval = "{:.2f} to {:.2f}".format(*component.interval) if component.interval else "-"
    return {
        "n": component.n,
        "mean": component.mean,
        "sd": component.sd,
        "difference": component.difference,
        "95% interval": interval,
        "by": component.by,
    }
