"""`cse launch`: submits a sweep to a cluster, after finding the user's mistakes on this machine, before any queue."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from analysis.ledger import network_file_system
from cluster.launch import targets
from cluster.launch.config import ClusterConfig, load, not_absolute, settings_of, wrong_ledger, wrong_name
from cluster.launch.files import bring_files
from cluster.launch.job import LaunchJob
from cluster.runtime.options import login_name
from cluster.runtime.resources import Node, check_cards, slots_that_fit
from cluster.search.budget import Budget, parse_budgets
from cse.cli import exit
from cse.cli import options as arguments
from cse.cli.sweep_options import BudgetOption, PriceOption, SweepArguments
from cse.experiments import tracking
from cse.experiments.request import methods_of
from cse_train.fields import ConfigError
from search_spaces.catalog import ALL, load_all
from search_spaces.cells import resolve
from search_spaces.user_data import ROLES, absolute, file_of, is_reference

TARGETS = targets.names()
Target = Annotated[
    str,
    typer.Argument(parser=arguments.choice("target", TARGETS), metavar="|".join(TARGETS), help="The kind of cluster."),
]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="What to run; several are reproduced.")]
Config = Annotated[Path, typer.Option(help="The cluster; cluster/launch/cluster.yaml is an example.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted.")]
Name = Annotated[
    str | None,
    typer.Option(metavar="cse-e7", help="Name of the job; by default of the cluster, the space and its options."),
]
LOCAL_PARAMETERS = ("target", "ids", "config", "dry_run", "name", "address", "plugins", "user")
"""Parameters that the submitted command does not repeat, since they act on this machine or are part of the
job itself."""
JOB_PATHS = ("storage", "data", "train_file", "senteval")


@arguments.add_arguments
def launch(
    ctx: typer.Context,
    target: Target,
    ids: Ids = None,
    config: Config = Path("cluster.yaml"),
    dry_run: DryRun = False,
    name: Name = None,
    budget: BudgetOption = None,
    price: PriceOption = None,
    *,
    sweep: SweepArguments,
) -> int:
    """Run spaces on a cluster: as a Ray job, by KubeRay or Slurm. Options are those of cse run."""
    cluster = load(config)
    settings, module = settings_of(target, cluster), targets.load(target)
    if name is not None and (line := wrong_name(name)):
        raise ConfigError([line])
    job = _job(ctx, cluster, sweep, ids or [], target, budget or [], price or cluster.price)
    job = dataclasses.replace(job, given_name=name, user=sweep.user or login_name())
    print(module.render(job, settings) if dry_run else module.submit(job, settings) + "\n", end="")
    return exit.DONE


def _job(
    ctx: typer.Context,
    cluster: ClusterConfig,
    sweep: SweepArguments,
    ids: list[str],
    target: str,
    budget: list[str],
    price: str | None,
) -> LaunchJob:
    """Returns the job that runs or reproduces `ids` with all options and files; without `ids`, only the cluster."""
    if not ids and getattr(targets.load(target), "STAYS", False):
        return LaunchJob(cluster)
    if not ids:
        raise ConfigError([f"nothing to run: target={target}; name a table, such as cse launch {target} E7"])
    # The file says where storage, ledger and data are, and that there are cards, unless this command line does.
    ledger = cluster.ledger or str(Path(cluster.storage, "ledger.db"))
    defaults = {"--storage": cluster.storage, "--ledger": ledger} | ({"--data": cluster.data} if cluster.data else {})
    given_options = _read_job_options(ctx)
    if cluster.gpus and "--gpus-per-worker" not in given_options:
        sweep = dataclasses.replace(sweep, gpus_per_worker=1.0)
        defaults["--gpus-per-worker"] = "1"
    budgets = _check(cluster, sweep, ids, budget, price, sweep.ledger or ledger)
    sent = bring_files(ids, sweep.profile, sweep.plugins or [])
    if budget and price:
        defaults["--price"] = price
    options: dict[str, list[str | None]] = {name: [value] for name, value in defaults.items()}
    options |= given_options
    if "--profile" in sent.options:
        del options["--profile"]
    verb = "run" if len(sent.ids) == 1 and sent.ids[0].lower() != ALL else "reproduce"
    pairs = ((name, value) for name, values in options.items() for value in values)
    words = [word for name, value in pairs for word in ([name] if value is None else [name, value])]
    return LaunchJob(cluster, (verb, *sent.ids, *words, *sent.options), sent.files, limits=tuple(map(str, budgets)))


def _check(
    cluster: ClusterConfig, sweep: SweepArguments, ids: list[str], budget: list[str], price: str | None, ledger: str
) -> tuple[Budget, ...]:
    """Returns the budgets, after checking everything that can be checked before submission.

    `ledger`: ledger URL of the job. Raises ConfigError for spaces, settings, paths and budgets that are
    wrong, and where no run fits the nodes that the cluster's file declares.
    """
    problems = [
        line for name in JOB_PATHS if (path := getattr(sweep, name)) and (line := not_absolute(name, str(path)))
    ]
    if line := wrong_ledger(sweep.ledger):
        problems.append(line)
    elif not ledger.startswith("postgres") and (kind := network_file_system(Path(ledger.removeprefix("sqlite:///")))):
        advice = "SQLite's locks do not hold there: give postgresql://USER@HOST/DATABASE"
        problems.append(f"a file on {kind}: ledger={ledger}; {advice}")
    if sweep.address is not None:
        problems.append(f"address of a driver: address={sweep.address}; leave it out, the cluster's is in cluster.yaml")
    overrides = arguments.settings(sweep.settings)
    files = {key: overrides[key] for key in ROLES if key in overrides and is_reference(overrides[key])}
    problems += [line for key, file in files.items() if (line := not_absolute(f"--set {key}", file_of(file)))]
    places = {key: str(value) for key, value in overrides.items() if absolute(key, value, Path.cwd()) != value}
    problems += [line for key, path in places.items() if (line := not_absolute(f"--set {key}", path))]
    if problems:
        raise ConfigError(problems)
    tracking.check_trackers(sweep.track or ())
    resolved = [resolve(space, sweep.profile, overrides) for space in load_all(ids)]
    if budget and len(resolved) > 1:
        raise ConfigError([f"budget of several spaces: budget={', '.join(budget)}; launch each with its own"])
    options = dataclasses.replace(sweep, storage=cluster.storage).options()
    methods = [method for space in resolved for method in methods_of(space)]
    budgets = parse_budgets(budget, methods, options.gpus_per_run, price)
    node = Node(cpus=cluster.cpus, gpus=cluster.gpus, memory_gb=cluster.memory_gb or float("1e6"))
    check_cards(options, ())
    slots_that_fit(options, [node] * cluster.nodes)
    return budgets


def _read_job_options(ctx: typer.Context) -> dict[str, list[str | None]]:
    """Returns option -> values (None for a flag) of options on this command line; environment variables stay behind."""
    options = {}
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if parameter.name not in LOCAL_PARAMETERS and source is not None and source.name == "COMMANDLINE":
            value = ctx.params[str(parameter.name)]
            words = value if isinstance(value, list | tuple) else [value]
            options[max(parameter.opts, key=len)] = [None if word is True else str(word) for word in words]
    return options
