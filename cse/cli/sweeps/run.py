"""`cse run`: trains the runs that a space asks for and the ledger lacks, then prints the table."""

import shlex
import sys
from typing import Annotated

import typer

from analysis.answers import build
from analysis.ledger import Ledger, mask_password
from cse.cli import exit, ledgers, options, table_text
from cse.cli.loader import deferred
from cse.cli.sweep_options import MANY_RUNS, BudgetOption, PriceOption, SweepArguments, Yes
from cse.experiments import request as sweeping
from search_spaces.catalog import load_space
from search_spaces.identity.missing_inputs import group_by_reason

with deferred(__name__):
    from cse.experiments import baselines as untrained
    from cse.experiments import retrain as retraining
    from cse.experiments import run as experiments


RetrainMissing = Annotated[
    bool,
    typer.Option("--retrain-missing", help="First train finished runs again whose files are gone, bit for bit."),
]


@options.add_arguments
def run(
    space: options.SpaceName,
    budget: BudgetOption = None,
    price: PriceOption = None,
    retrain_missing: RetrainMissing = False,
    yes: Yes = False,
    *,
    arguments: SweepArguments,
) -> int:
    """Train a space and print its table; the same command resumes and trains no run twice."""
    (request,) = arguments.requests([load_space(space)])
    request = sweeping.set_budgets(request, budget, price)
    code = run_missing(request, yes) if retrain_missing else exit.DONE
    return code or run_request(request, yes)


def run_missing(request: sweeping.Request, yes: bool = True) -> int:
    """Trains finished runs again whose files are gone, and returns the exit code."""
    opened = ledgers.open_ledger(request.ledger, request.options.storage, create=True)
    runs = retraining.find_without_files(request, opened)
    print(f"finished runs without files: {len(runs)}, trained again now  (ledger {opened.url})", flush=True)
    if not runs or not (yes or ask(len(runs))):
        return exit.DONE
    earlier_rows = opened.runs(signatures=[run.signature for run in runs])
    work = retraining.reopen_runs(request, opened, runs)
    code = exit.print_outcome(experiments.run_grid(request, work), opened.url)
    exit.say(retraining.differing(earlier_rows, opened))
    return code


def run_request(request: sweeping.Request, yes: bool = True) -> int:
    """Trains missing runs, prints the table, and returns the exit code."""
    opened = ledgers.open_ledger(request.ledger, request.options.storage, create=True)
    if request.resolved.space.search is None and not request.budgets:
        code = run_grid(request, opened, yes)
    else:
        code = exit.print_outcome(experiments.run_search(request, opened), opened.url)
    if code not in (None, exit.INTERRUPTED):
        show(request, opened)
    return code or exit.DONE


def run_grid(request: sweeping.Request, opened: Ledger, yes: bool) -> int | None:
    """Trains the runs that the ledger lacks; returns the exit code, or None if the user declines."""
    work = sweeping.work_of([request], opened)
    announce(work, opened.url)
    if work.nothing_left:
        return exit.DONE
    if not (yes or ask(work.total - work.done)):
        return None
    return exit.print_outcome(experiments.run_grid(request, work), opened.url)


def show(request: sweeping.Request, opened: Ledger) -> None:
    """Prints the table from the ledger, after scoring rows that need no training."""
    untrained.ensure(request.resolved, opened, request.paths)
    print()
    print(table_text.show_table(build.build(request.resolved, opened, paths=request.paths)), end="")


def ask(count: int) -> bool:
    """Asks a user at a terminal to confirm more than MANY_RUNS runs; returns True without asking for fewer."""
    return count <= MANY_RUNS or not sys.stdin.isatty() or typer.confirm(f"Train {count} runs?")


def announce(work: sweeping.Work, ledger: str) -> None:
    """Prints the number of runs to train, and which cells lack an input."""
    unscored = [f"not scored: {suite}: {reason}" for suite, reason in work.unscorable.items()]
    print(
        "\n".join(
            [
                f"{work.line()}  (ledger {shlex.quote(mask_password(ledger))})",
                *work.stale,
                *group_by_reason(work.incomplete),
                *unscored,
            ]
        ),
        flush=True,
    )
