"""`cse ablate`: the best configuration of a sweep, or a run's, without each of its components in turn."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands import arguments, failure, sweeping
from cluster.commands.run import Yes
from cluster.commands.sweep_options import SweepArguments, with_sweep_arguments
from cse_train.fields import ConfigError, Scalar

if TYPE_CHECKING:
    from analysis.ablation import Without
    from analysis.ledger import Ledger
    from cluster.ablation import Ablation, Origin
    from cluster.cells import ResolvedSpace

SEEDS = 3
"""Seeds of an ablation that starts from a single run."""
FOLDER = "ablations"
What = Annotated[
    str,
    typer.Argument(
        metavar="RUN|SWEEP", help="A run's signature (its beginning) or folder, or a sweep: its best cell over seeds."
    ),
]
PlanOnly = Annotated[bool, typer.Option("--plan-only", help="Say what would run, and run nothing.")]


@with_sweep_arguments
def ablate(what: What, given: SweepArguments, yes: Yes = False, plan_only: PlanOnly = False) -> int:
    """Train the full configuration and one without each component (its method's YAML lists them); print the losses."""
    from cluster.ablation import ablation

    if given.profile is not None:
        raise ConfigError(
            [f"no profile: profile={given.profile}; the settings are those of {what}, change one by --set"]
        )
    url, storage = arguments.ledger_url(given.ledger), arguments.storage_folder(given.storage)
    origin = origin_of(what, arguments.existing_ledger(given.ledger), given.seeds, arguments.settings(given.settings))
    made = ablation(origin, arguments.notes_folder(url, storage) / FOLDER)
    request = sweeping.Request(
        resolved=made.space.resolve(),
        seeds=made.space.seeds,
        paths=arguments.data_paths(given.data, given.train_file, given.senteval),
        ledger=url,
        options=given.options(),
    )
    print("\n".join(described(made)), flush=True)
    return plan_alone(request) if plan_only else run_ablation(made, request, yes)


def plan_alone(request: sweeping.Request) -> int:
    """Count the runs, as `cse plan` does, and leave no trace."""
    from cluster.plan import plan

    opened = arguments.open_ledger(request.ledger) if "://" in request.ledger or Path(request.ledger).exists() else None
    space, workers = request.resolved.space, request.options.workers
    found = plan([space], request.resolved.profile, request.seeds, opened, request.paths, workers=workers)
    print("{cells} cells x {seeds} seeds = {runs} runs: {done} done, {to_run} to run".format(**found.counts()))
    failure.say([f"what is done is not known: {line}" for line in found.absent])
    return failure.DONE


def run_ablation(made: "Ablation", request: sweeping.Request, yes: bool) -> int:
    """Run what the ledger lacks and print what each component is worth; returns the exit code."""
    from cluster.commands.run import agreed

    opened = arguments.open_ledger(request.ledger, create=True)
    file = made.write()
    work = sweeping.work_of(request, opened)
    sweeping.announce(work, opened.url)
    if not work.nothing_left and not (yes or agreed(work.total - work.done)):
        return failure.DONE
    code = failure.DONE if work.nothing_left else sweeping.told(sweeping.run_grid(request, work), opened.url)
    if code != failure.INTERRUPTED:
        print(f"\n{losses_text(request.resolved, opened, request.seeds)}\n\nthe table: cse table {file}")
    return code


def described(made: "Ablation") -> list[str]:
    """What is about to be left out."""
    space = made.space
    lines = [f"{space.id}: {space.title}"]
    for cell in space.cells:
        changed = ", ".join(f"{key} {space.settings[key]} -> {value}" for key, value in cell.settings.items())
        lines.append(f"  {cell.label}" + (f": {changed}" if changed else ""))
    return [*lines, *(["  already off: " + ", ".join(made.absent)] if made.absent else [])]


def losses_text(resolved: "ResolvedSpace", ledger: "Ledger", seeds: Sequence[int]) -> str:
    """The losses as a table, the greatest first, on the first column of the space's table."""
    from analysis.statistics import mean_and_sd
    from cluster.ablation import FULL
    from cluster.commands.columns import aligned

    column, full, found = losses(resolved, ledger, seeds)
    mean, sd = mean_and_sd(list(full.values()))
    head = {column: FULL, "n": len(full), "mean": mean, "sd": sd, "difference": None, "95% interval": "", "by": ""}
    return aligned([head, *({column: one.label, **_shown(one)} for one in found)])


def losses(
    resolved: "ResolvedSpace", ledger: "Ledger", seeds: Sequence[int]
) -> "tuple[str, dict[int, float], list[Without]]":
    """The column that is compared, the full configuration's value by seed, and each component's loss."""
    from analysis.ablation import leave_one_out
    from analysis.results import results_of
    from cluster.ablation import FULL
    from cluster.commands.results import answers, full_key
    from cluster.commands.table import columns_of

    column = columns_of(resolved)[0]
    labels = {str(full_key(resolved, cell.key)): str(cell.label) for cell in resolved.cells()}
    found = answers(resolved, ledger.runs(), seeds)
    planned = [({"label": labels[str(dict(answer.key))]}, answer.run.signature, answer.run.seed) for answer in found]
    values: dict[str, dict[int, float]] = {label: {} for label in labels.values()}
    for line in results_of(ledger, planned, [column], runs=[answer.run for answer in found]):
        if not math.isnan(line["value"]):
            values[line["label"]][line["seed"]] = line["value"]
    full = values.pop(FULL)
    return column, full, leave_one_out(full, values)


def _shown(one: "Without") -> dict[str, object]:
    interval = "{:.2f} to {:.2f}".format(*one.interval) if one.interval else "-"
    return {
        "n": one.n,
        "mean": one.mean,
        "sd": one.sd,
        "difference": one.difference,
        "95% interval": interval,
        "by": one.by,
    }


def origin_of(what: str, ledger: "Ledger | None", seeds: int | None, changed: Mapping[str, Scalar]) -> "Origin":
    """The configuration that a run or a sweep's best cell has, with the settings changed that a person fixes."""
    from cluster.ablation import Origin
    from cse_train.config import parse_run

    run, name, sweep = _run_of(what, ledger)
    spec = next((row.spec for row in ledger.sweeps() if row.id == sweep), {}) if ledger and sweep else {}
    flat = parse_run({**run, **changed}).flat()
    own = list(spec.get("seeds", range(SEEDS)))
    told = " ".join([name, *(f"{key}={value}" for key, value in sorted(changed.items()))])
    return Origin(
        name=told,
        flat=flat,
        profile=str(spec.get("profile", "small")),
        seeds=list(range(seeds)) if seeds else own,
        evaluate=_evaluated(sweep, ledger),
    )


def _evaluated(sweep: str | None, ledger: "Ledger | None") -> Sequence[str]:
    from cluster.commands.which_space import space_of_sweep

    resolved = space_of_sweep(sweep, ledger) if sweep and ledger else None
    return resolved.space.evaluate if resolved else ()


def _run_of(what: str, ledger: "Ledger | None") -> tuple[Mapping[str, Scalar], str, str | None]:
    """A flat configuration, what to call it, and the sweep it was chosen in."""
    from cluster.commands.run_folder import by_signature
    from cluster.commands.selected import selected

    if Path(what).is_dir():
        return _of_folder(Path(what), ledger)
    sweeps = [row.id for row in ledger.sweeps()] if ledger else []
    if ledger and what in sweeps:
        return selected(ledger, what).run.config, what, what
    row = by_signature(what, ledger) if ledger else None
    if row is None:
        raise ConfigError([f"no such run: run={what}; give a folder, a signature (cse trials) or a sweep (cse ls)"])
    return row.config, row.signature[:12], None


def _of_folder(folder: Path, ledger: "Ledger | None") -> tuple[Mapping[str, Scalar], str, str | None]:
    from cluster.commands.run_folder import row_of

    run = folder.parent if folder.name == "best" else folder
    row = row_of(run, ledger) if ledger else None
    if row is not None:
        return row.config, row.signature[:12], None
    from cse_train.checkpoint import read_best

    return read_best(folder)[0].flat(), run.resolve().name, None
