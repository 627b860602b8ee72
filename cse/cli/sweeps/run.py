"""`cse run`: trains the runs that a space asks for and the ledger lacks, then prints the table."""

import shlex
import sys
from typing import Annotated

import typer

from analysis.answers import build
from analysis.ledger import Ledger, mask_password
from cse.cli import exit, ledgers, options, table_text
from cse.cli.loader import deferred
from cse.cli.sweep_options import MANY_RUNS, BudgetOption, PriceOption, SweepArguments, Yes, print_outcome
from cse.experiments import request as sweeping
from search_spaces.catalog import load_space
from search_spaces.identity.missing_inputs import group_by_reason

with deferred(__name__):
    from cse.experiments import run as experiments
    from cse.experiments import untrained


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
    opened = ledgers.open_ledger(request.ledger, request.options.storage, create=True)
    if retrain_missing and (failed := _train_again(request, opened, yes)):
        return failed
    code = train(request, opened, yes)
    if code not in (None, exit.INTERRUPTED):
        untrained.ensure(request.resolved, opened, request.paths)
        print()
        print(table_text.show_table(build.build(request.resolved, opened, paths=request.paths)), end="")
    return code or exit.DONE


def train(request: sweeping.Request, opened: Ledger, yes: bool) -> int | None:
    """Trains the runs that the ledger lacks; returns the exit code, or None if the user declines."""
    if request.resolved.space.search is not None or request.budgets:
        return print_outcome(experiments.run_search(request, opened), opened.url)
    work = sweeping.work_of([request], opened)
    announce(work, opened.url)
    if work.nothing_left:
        return exit.DONE
    if not (yes or ask(work.total - work.done)):
        return None
    return print_outcome(experiments.run_grid(request, work), opened.url)


def _train_again(request: sweeping.Request, opened: Ledger, yes: bool) -> int:
    """Trains finished runs again whose files are gone, and returns the exit code."""
    runs = experiments.find_without_files(request, opened)
    print(f"finished runs without files: {len(runs)}, trained again now  (ledger {opened.url})", flush=True)
    if not runs or not (yes or ask(len(runs))):
        return exit.DONE
    earlier_rows = opened.runs(signatures=[run.signature for run in runs])
    work = experiments.reopen_runs(request, opened, runs)
    code = print_outcome(experiments.run_grid(request, work), opened.url)
    exit.say(experiments.differing(earlier_rows, opened))
    return code


def ask(count: int) -> bool:
    """Asks a user at a terminal to confirm more than MANY_RUNS runs; returns True without asking for fewer."""
    return count <= MANY_RUNS or not sys.stdin.isatty() or typer.confirm(f"Train {count} runs?")


def announce(work: sweeping.Work, ledger: str) -> None:
    """Prints the number of runs to train, and which cells lack an input."""
    lines = [f"{work.line()}  (ledger {shlex.quote(mask_password(ledger))})", *work.stale]
    lines += group_by_reason(work.incomplete)
    lines += [f"not scored: {suite}: {reason}" for suite, reason in work.unscorable.items()]
    print("\n".join(lines), flush=True)
