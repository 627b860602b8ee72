"""`cse launch`: the same sweep on a cluster. Mistakes in it are found here, before it waits in a queue."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from cluster.launch import targets
from cluster.launch.config import ClusterConfig, load, not_absolute, settings_of, wrong_ledger
from cluster.launch.job import Job
from cluster.runtime.resources import Node, slots_that_fit
from cse.cli import exit
from cse.cli import options as arguments
from cse.cli.sweep_options import BudgetOption, SweepArguments, with_sweep_arguments
from cse_train.fields import ConfigError
from search_spaces.catalog import ALL, catalog, find_profile, load_all, shipped
from search_spaces.cells import resolve
from search_spaces.user_data.references import ROLES, file_of, is_reference

TARGETS = targets.names()
Target = Annotated[
    str,
    typer.Argument(
        parser=arguments.choice("target", TARGETS),
        metavar="|".join(TARGETS),
        help="The kind of cluster.",
        show_default=False,
    ),
]
Ids = Annotated[
    list[str] | None, typer.Argument(metavar="ID...", help="What to run; several are reproduced.", show_default=False)
]
Config = Annotated[Path, typer.Option(help="The cluster; cluster/launch/cluster.yaml is an example.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted.")]
OURS = ("target", "ids", "config", "dry_run", "address")
"""Parameters that stay here; the others travel."""
PATHS = ("storage", "data", "train_file", "senteval")


@with_sweep_arguments
def launch(
    ctx: typer.Context,
    target: Target,
    given: SweepArguments,
    ids: Ids = None,
    config: Config = Path("cluster.yaml"),
    dry_run: DryRun = False,
    budget: BudgetOption = None,
) -> int:
    """Run spaces on a cluster: as a Ray job, by KubeRay, Slurm or ray up. Options are those of cse run."""
    cluster = load(config)
    settings, module = settings_of(target, cluster), targets.load(target)
    if not hasattr(module, "submit"):
        print(module.render(Job(cluster), settings), end="")
        exit.say([module.AFTERWARDS])
        return exit.DONE
    job = Job(cluster, tuple(_command(ctx, cluster, given, ids or [], target)))
    print(module.render(job, settings) if dry_run else module.submit(job, settings) + "\n", end="")
    return exit.DONE


def _command(
    ctx: typer.Context, cluster: ClusterConfig, given: SweepArguments, ids: list[str], target: str
) -> list[str]:
    """`run ID` or `reproduce ID...` with all options; nothing for a cluster that stays."""
    if not ids and getattr(targets.load(target), "STAYS", False):
        return []
    if not ids:
        raise ConfigError([f"nothing to run: target={target}; name a table, such as cse launch {target} E7"])
    _check(cluster, given, ids)
    options = _settled(cluster) | _travelling(ctx)
    verb = "run" if len(ids) == 1 and ids[0].lower() != "all" else "reproduce"
    words = [word for name, values in options.items() for value in values for word in (name, value)]
    return [verb, *ids, *words]


def _check(cluster: ClusterConfig, given: SweepArguments, ids: list[str]) -> None:
    """ConfigError for spaces, settings and paths that cannot be, and where not one run fits the nodes of the file."""
    shipped_ids = {name.lower() for name in catalog()} | {ALL}
    problems = [
        f"own file: space={name}; the cluster has only shipped spaces, give an ID"
        for name in ids
        if name.lower() not in shipped_ids and Path(name).exists()
    ]
    problems += [line for name in PATHS if (path := getattr(given, name)) and (line := not_absolute(name, str(path)))]
    if line := wrong_ledger(given.ledger):
        problems.append(line)
    if given.profile is not None and find_profile(given.profile).parent != shipped() / "profiles":
        what = f"own file: profile={given.profile}; the cluster has only shipped profiles"
        problems.append(f"{what}, name one and say the rest by --set")
    if given.address is not None:
        problems.append(f"address of a driver: address={given.address}; leave it out, the cluster's is in cluster.yaml")
    overrides = arguments.settings(given.settings)
    files = {key: overrides[key] for key in ROLES if key in overrides and is_reference(overrides[key])}
    problems += [line for key, file in files.items() if (line := not_absolute(f"--set {key}", file_of(file)))]
    if problems:
        raise ConfigError(problems)
    for space in load_all(ids):
        resolve(space, given.profile, overrides)
    node = Node(cpus=cluster.cpus, gpus=cluster.gpus, memory_gb=cluster.memory_gb or float("1e6"))
    slots_that_fit(dataclasses.replace(given, storage=cluster.storage).unchecked_options(), [node] * cluster.nodes)


def _settled(cluster: ClusterConfig) -> dict[str, list[str]]:
    """What the file says of storage, ledger and data."""
    ledger = cluster.ledger or str(Path(cluster.storage, "ledger.db"))
    data = {"--data": [cluster.data]} if cluster.data else {}
    return {"--storage": [cluster.storage], "--ledger": [ledger], **data}


def _travelling(ctx: typer.Context) -> dict[str, list[str]]:
    """Option -> values, of those on this command line; what the environment here says is of this machine."""
    options = {}
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if parameter.name not in OURS and source is not None and source.name == "COMMANDLINE":
            value = ctx.params[str(parameter.name)]
            words = value if isinstance(value, list | tuple) else [value]
            options[max(parameter.opts, key=len)] = [str(word) for word in words]
    return options
