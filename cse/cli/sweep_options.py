"""Options of every command that trains what spaces ask for, their sweep requests, and how such a sweep ended."""

import dataclasses
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from analysis.ledger import mask_password
from cluster.runtime.options import Isolation, SweepOptions, login_name
from cluster.runtime.resources import check_cards, check_options, local_kinds, slots_that_fit, this_machine
from cluster.sweep.events import SweepOutcome
from cluster.sweep.retention import parse_size
from cse.cli import exit, ledgers
from cse.cli import options as arguments
from cse.cli.listing import size
from cse.experiments import tracking
from cse.experiments.request import Request
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from search_spaces.cells import ResolvedSpace, resolve
from search_spaces.identity.user_files import add_user_files, describe_files
from search_spaces.space import Space

MANY_RUNS = 100
"""Number of runs above which a user at a terminal is asked to confirm."""

BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="AMOUNT UNIT",
        help="Stop once this much is spent: runs, examples, run-hours, GPU-hours, money (--price), or min or h of this "
        "call by the clock. Methods share it equally; may be given again, the first to be spent counts.",
    ),
]
PriceOption = Annotated[
    str | None, typer.Option(metavar="AMOUNT EUR", help="What an hour of one GPU costs, in any currency.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help=f"Do not ask before more than {MANY_RUNS} runs.")]


@dataclass(frozen=True, kw_only=True)
class SweepArguments:
    """Options of a command that trains a sweep: inputs, settings, ledger, resources, retries; as the user gave them."""

    plugins: arguments.Plugins = None
    profile: arguments.Profile = None
    data: arguments.Data = None
    train_file: arguments.TrainFile = None
    train_columns: arguments.TrainColumns = None
    senteval: arguments.SentEval = None
    seeds: arguments.Seeds = None
    settings: arguments.Set = None
    ledger: ledgers.LedgerUrl = None
    storage: arguments.Storage = None
    workers: arguments.Workers = 1
    cpus_per_worker: Annotated[float, typer.Option(help="CPUs of one rank; torch gets as many threads.")] = 1
    gpus_per_worker: Annotated[
        float, typer.Option(help="GPUs of one rank; with --workers 1 a fraction is allowed: 0.5, 0.25, …")
    ] = 0
    accelerator_type: Annotated[
        str | None, typer.Option(metavar="A100", help="Train on this kind of GPU alone, by Ray's name for it.")
    ] = None
    max_concurrent: Annotated[int | None, typer.Option(help="Runs at once (default: as many as fit).")] = None
    user: arguments.User = None
    priority: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="Beside others on a full cluster: at 3, three times the slots of one who is at 1."
        ),
    ] = SweepOptions.priority
    user_slots: Annotated[
        int | None, typer.Option(min=1, help="Runs at once of all your drivers of this ledger (default: any).")
    ] = None
    isolation: Annotated[Isolation, typer.Option(help="slot: long-lived worker groups; trial: a new one per run.")] = (
        "slot"
    )
    address: Annotated[str | None, typer.Option(help="Address of a running Ray cluster (default: start one here).")] = (
        None
    )
    save_minutes: arguments.SaveMinutes = SweepOptions.save_minutes
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Train runs again that failed twice for the same reason.")
    ] = False
    max_retries: Annotated[
        int,
        typer.Option(
            min=0, help="Times that a slot goes on with a run after its machine failed, before another tries."
        ),
    ] = SweepOptions.max_retries
    timeout_s: Annotated[
        float,
        typer.Option("--timeout", min=1, metavar="SECONDS", help="Wait so long for a rank before its group is broken."),
    ] = SweepOptions.timeout_s
    wait_for_nodes_s: Annotated[
        float,
        typer.Option(
            "--wait-for-nodes", min=0, metavar="SECONDS", help="Wait so long while no node has room for a run."
        ),
    ] = SweepOptions.wait_for_nodes_s
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Train again what other code of a method, edited since, has finished.")
    ] = False
    keep: Annotated[bool, typer.Option("--keep", help="Take runs of other code of a method as they are.")] = False
    keep_top: arguments.KeepTop = None
    disk_quota: arguments.DiskQuota = None
    no_mirror: Annotated[
        bool, typer.Option("--no-mirror", help="Keep no copy of a search for optuna-dashboard (optuna.db).")
    ] = False
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(tracking.names()) or "NAME", help="Also show the runs in these trackers; comma-separated."
        ),
    ] = None

    def requests(self, spaces: Sequence[Space]) -> list[Request]:
        """Returns one sweep request for each space, after all checks.

        Raises ConfigError where settings do not suit a space, paths do not exist, or no run fits this machine.
        """
        overrides = arguments.settings(self.settings)
        return self.requests_for([resolve(space, self.profile, overrides) for space in spaces])

    def requests_for(self, resolved: Sequence[ResolvedSpace]) -> list[Request]:
        """Returns one sweep request for each space to which profile and settings are applied; checks the rest."""
        if self.rerun and self.keep:
            raise ConfigError(["two answers: --rerun --keep; give one of them"])
        if self.address and self.ledger and (masked := mask_password(self.ledger)) != self.ledger:
            line = f"password on the command line: ledger={masked}, which Ray keeps where this command is a job's"
            raise ConfigError([f"{line}; leave it out, and give PGPASSWORD or ~/.pgpass"])
        options = self.options()
        check_fit(options)
        track = tracking.check_trackers(self.track or (), options.storage)
        paths = self.paths(resolved)
        exit.say(describe_files(paths))
        return [
            Request(
                resolved=space,
                seeds=tuple(range(self.seeds)) if self.seeds else space.space.seeds,
                paths=paths,
                ledger=ledgers.ledger_url(self.ledger),
                options=options,
                rerun=self.rerun,
                keep=self.keep,
                mirror=not self.no_mirror,
                track=track,
            )
            for space in resolved
        ]

    def paths(self, spaces: Iterable[ResolvedSpace] = ()) -> DataPaths:
        """Returns the paths of the inputs, with the users' own files that the spaces name. ConfigError for an absent
        path."""
        paths = arguments.data_paths(self.data, self.train_file, self.senteval, self.train_columns)
        return add_user_files(paths, (file for space in spaces for file in space.files))

    def options(self) -> SweepOptions:
        """Returns the sweep's runtime options; whether a run fits is not asked. ConfigError for a malformed quota."""
        quota = None if self.disk_quota is None else parse_size(self.disk_quota)
        names = [field.name for field in dataclasses.fields(SweepOptions) if field.name in vars(self)]
        values = {name: getattr(self, name) for name in names} | {"user": self.user or login_name()}
        return SweepOptions(**values | {"storage": ledgers.storage_folder(self.storage), "disk_quota": quota})


def check_fit(options: SweepOptions) -> None:
    """Raises ConfigError if not a single run fits this machine; a cluster can only be asked once it is joined."""
    check_options(options)
    check_cards(options, local_kinds(options) if options.address is None else ())
    if options.address is None:
        slots_that_fit(options, [this_machine()])


def print_outcome(outcome: SweepOutcome, ledger: str) -> int:
    """Prints how a sweep ended, and what --keep-top and --disk-quota freed or had to keep; returns the exit code."""
    if outcome.freed:
        print(f"{size(outcome.freed)} of checkpoints freed")
    if outcome.over:
        exit.say([f"above --disk-quota: {size(outcome.over)} too much is in use or has scores; give more"])
    print(
        f"{outcome.done} done, {outcome.failed} failed, {outcome.stopped} stopped, {outcome.reused} reused "
        f"in {outcome.seconds:.0f} s; ledger {shlex.quote(mask_password(ledger))}"
    )
    if outcome.interrupted:
        exit.say(["interrupted; finished runs are kept, the same command continues"])
        return exit.INTERRUPTED
    exit.say(
        [f"failed: {failure.reason}" + (f"; log {failure.log}" if failure.log else "") for failure in outcome.failures]
    )
    if outcome.not_started:
        exit.say([f"not started: {outcome.not_started} more that need the same input; the same command trains them"])
    return exit.SOME_FAILED if outcome.failures else exit.DONE
