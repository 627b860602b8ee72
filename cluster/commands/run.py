"""`cse run`: train what a space asks for and the ledger does not have, then print the table."""

import dataclasses
import sys
from typing import Annotated

import typer

from cluster.commands import arguments, baselines, failure, searching, sweeping, table
from cluster.commands.sweep_options import SweepArguments, with_sweep_arguments

MANY = 100
"""Runs above which a person at a terminal is asked first."""

BudgetOption = Annotated[
    str | None,
    typer.Option(
        metavar="40runs|500000examples|2hours",
        help="Stop once this much is in the ledger, methods sharing it equally (run-hours).",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help=f"Do not ask before more than {MANY} runs.")]


@with_sweep_arguments
def run(space: arguments.SpaceName, given: SweepArguments, budget: BudgetOption = None, yes: Yes = False) -> int:
    """Run a space; the same command resumes, and runs that are in the ledger are not run again."""
    from cluster.space import load_space

    (request,) = given.requests([load_space(space)])
    return run_request(dataclasses.replace(request, budget=searching.budget_of(budget, request.resolved)), yes)


def run_request(request: sweeping.Request, yes: bool = True) -> int:
    """Run what is missing and print the table; returns the exit code."""
    opened = arguments.open_ledger(request.ledger, create=True)
    if request.resolved.space.search is None and request.budget is None:
        work = sweeping.work_of(request, opened)
        sweeping.announce(work, opened.url)
        if not work.nothing_left and not (yes or agreed(work.total - work.done)):
            return failure.DONE
        code = failure.DONE if work.nothing_left else sweeping.told(sweeping.run_grid(request, work), opened.url)
    else:
        code = sweeping.told(searching.run_search(request, opened), opened.url)
    if code != failure.INTERRUPTED:
        show(request, opened)
    return code


def show(request: sweeping.Request, opened: "table.Ledger") -> None:
    """Print the table as it stands, with the rows without training."""
    folder, resolved = arguments.notes_folder(request.ledger, request.options.storage), request.resolved
    baselines.ensure(table.setups(resolved), table.columns_of(resolved), folder, request.paths)
    print()
    print(table.rendered(table.build(resolved, opened, folder), table.Markup.md), end="")


def agreed(count: int) -> bool:
    """Ask a person at a terminal before a great many runs."""
    return count <= MANY or not sys.stdin.isatty() or typer.confirm(f"Train {count} runs?")
