"""`cse ablate`: the best configuration of a sweep, or a run's, without each of its components in turn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from analysis.ledger import Ledger
from analysis.run_state import RunState
from analysis.statistics.basics import mean_and_sd
from analysis.statistics.leave_one_out import Without
from cluster.plan.planner import plan
from cse.cli import exit, ledgers, options
from cse.cli.listing import align_rows
from cse.cli.loader import deferred
from cse.cli.plan_text import product
from cse.cli.sweep_options import SweepArguments, Yes
from cse.cli.sweeps.run import run_grid
from cse.experiments import request as sweeping
from cse_train.fields import ConfigError
from search_spaces.cells import ResolvedSpace, resolve

with deferred(__name__):
    from cse.experiments import ablation as ablations

ABLATIONS_FOLDER = "ablations"
What = Annotated[
    str,
    typer.Argument(
        metavar="RUN|SWEEP", help="A run's signature (its beginning) or folder, or a sweep: its best cell over seeds."
    ),
]
PlanOnly = Annotated[bool, typer.Option("--plan-only", help="Print the plan and train nothing.")]


@options.add_arguments
def ablate(what: What, yes: Yes = False, plan_only: PlanOnly = False, *, given: SweepArguments) -> int:
    """Train the full configuration and one without each component (its method's YAML lists them); print the losses."""
    if given.profile is not None:
        raise ConfigError(
            [f"no profile: profile={given.profile}; the settings are those of {what}, change one by --set"]
        )
    url, storage = ledgers.ledger_url(given.ledger), ledgers.storage_folder(given.storage)
    origin = ablations.origin_of(
        what, ledgers.existing_ledger(given.ledger), given.seeds, options.settings(given.settings)
    )
    made = ablations.ablation(origin, ledgers.notes_folder(url, storage) / ABLATIONS_FOLDER)
    resolved = resolve(made.space)
    request = sweeping.Request(
        resolved=resolved,
        seeds=made.space.seeds,
        paths=given.paths([resolved]),
        ledger=url,
        options=given.options(),
        rerun=given.rerun,
        keep=given.keep,
    )
    print("\n".join(describe_parts(made)), flush=True)
    return plan_alone(request) if plan_only else run_ablation(made, request, yes)


def plan_alone(request: sweeping.Request) -> int:
    """Count the runs, as `cse plan` does, and leave no trace."""
    opened = ledgers.open_ledger(request.ledger) if "://" in request.ledger or Path(request.ledger).exists() else None
    space, workers = request.resolved.space, request.options.workers
    work = plan([space], request.resolved.profile, request.seeds, opened, request.paths, workers=workers)
    counts = work.counts()
    print(f"{product(counts)}: {counts[RunState.DONE]} done, {counts['to_run']} to run")
    exit.say([f"what is done is not known: {line}" for line in work.absent])
    return exit.DONE


def run_ablation(made: Any, request: sweeping.Request, yes: bool) -> int:
    """Run what the ledger lacks and print what each component is worth; returns the exit code."""
    opened = ledgers.open_ledger(request.ledger, request.options.storage, create=True)
    file = made.write()
    code = run_grid(request, opened, yes)
    if code not in (None, exit.INTERRUPTED):
        print(f"\n{losses_text(request.resolved, opened, request.seeds)}\n\nthe table: cse table {file}")
    return code or exit.DONE


def describe_parts(made: Any) -> list[str]:
    """What is about to be left out."""
    space = made.space
    lines = [f"{space.id}: {space.title}"]
    for cell in space.cells:
        changed = ", ".join(f"{key} {space.settings[key]} -> {value}" for key, value in cell.settings.items())
        lines.append(f"  {cell.label}" + (f": {changed}" if changed else ""))
    return [*lines, *(["  already off: " + ", ".join(made.absent)] if made.absent else [])]


def losses_text(resolved: ResolvedSpace, ledger: Ledger, seeds: Sequence[int]) -> str:
    """The losses as a table, the greatest first, on the first column of the space's table."""
    column, full, components = ablations.losses(resolved, ledger, seeds)
    mean, sd = mean_and_sd(list(full.values()))
    head = {
        column: ablations.FULL_LABEL,
        "n": len(full),
        "mean": mean,
        "sd": sd,
        "difference": None,
        "95% interval": "",
        "by": "",
    }
    return align_rows([head, *({column: component.label, **_fill_row(component)} for component in components)])


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
