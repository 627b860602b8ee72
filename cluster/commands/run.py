"""`cse run`: train what a space asks for and the ledger does not have, then print the table."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands import arguments, baselines, failure, searching, sweeping, table

if TYPE_CHECKING:
    from cluster.options import SweepOptions

MANY = 100
"""Runs above which a person at a terminal is asked first."""


class Isolation(StrEnum):
    """How runs share worker groups."""

    slot = "slot"
    trial = "trial"


IsolationOption = Annotated[Isolation, typer.Option(help="slot: long-lived worker groups; trial: a new one per run.")]
Address = Annotated[str | None, typer.Option(help="A running Ray cluster (a new one here).", show_default=False)]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        metavar="40runs|500000examples|2hours",
        help="Stop once this much is in the ledger, methods sharing it equally (run-hours).",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help=f"Do not ask before more than {MANY} runs.")]


def run(
    space: arguments.SpaceName,
    profile: arguments.Profile = None,
    data: arguments.Data = None,
    train_file: arguments.TrainFile = None,
    senteval: arguments.SentEval = None,
    seeds: arguments.Seeds = None,
    settings: arguments.Set = None,
    ledger: arguments.LedgerUrl = None,
    storage: arguments.Storage = None,
    workers: arguments.Workers = 1,
    cpus_per_worker: arguments.Cpus = 1,
    gpus_per_worker: arguments.Gpus = 0,
    max_concurrent: arguments.Concurrent = None,
    isolation: IsolationOption = Isolation.slot,
    address: Address = None,
    budget: BudgetOption = None,
    yes: Yes = False,
) -> int:
    """Run a space; the same command resumes, and runs that are in the ledger are not run again."""
    from cluster.options import SweepOptions
    from cluster.space import load_space

    resolved = load_space(space).resolve(profile, arguments.settings(settings))
    request = sweeping.Request(
        resolved=resolved,
        seeds=tuple(range(seeds)) if seeds else resolved.space.seeds,
        paths=arguments.data_paths(data, train_file, senteval),
        ledger=arguments.ledger_url(ledger),
        options=SweepOptions(
            storage=arguments.storage_folder(storage),
            workers=workers,
            cpus_per_worker=cpus_per_worker,
            gpus_per_worker=gpus_per_worker,
            max_concurrent=max_concurrent,
            isolation=isolation.value,
            address=address,
        ),
        budget=searching.budget_of(budget, resolved),
    )
    check_fit(request.options)
    return run_request(request, yes)


def check_fit(options: "SweepOptions") -> None:
    """ConfigError before anything starts when not one run fits this machine; a cluster is asked once joined."""
    from cluster.resources import check_options, slots_that_fit, this_machine

    check_options(options)
    if options.address is None:
        slots_that_fit(options, [this_machine()])


def run_request(request: sweeping.Request, yes: bool = True) -> int:
    """Run what is missing and print the table; returns the exit code."""
    opened = arguments.open_ledger(request.ledger, create=True)
    if request.resolved.space.search is None and request.budget is None:
        work = sweeping.work_of(request, opened)
        print(f"{work.line()}  (ledger {opened.url})", flush=True)
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
