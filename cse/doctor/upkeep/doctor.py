"""`cse doctor`: checks whether a sweep could run here, or on a cluster; one line for each finding, with its fix."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.documents import dump_json
from cluster.runtime.storage import inputs_of
from cluster.sweep.retention import require_own
from cse.cli import exit, ledgers, screen
from cse.cli import options as arguments
from cse.cli.listing import FormatOption
from cse.cli.loader import deferred
from cse.cli.sweep_options import SweepArguments
from cse.doctor import checks
from cse.doctor.checks import Finding
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import ResolvedSpace, resolve

with deferred(__name__):
    from cse.doctor import encoders as describing
    from cse.doctor import repair as repairing
    from cse.doctor import try_program as trying
    from cse_train import numerics

Space = Annotated[str | None, typer.Argument(metavar="FILE|ID", help="Also what this space needs (cse ls).")]
TryOption = Annotated[
    bool,
    typer.Option(
        "--try", help="Also run a trainer's script shortly, twice by one seed: does it report, and set its seed?"
    ),
]


RepairOption = Annotated[
    bool,
    typer.Option(
        "--repair", help="Show what is broken in ledger and storage: orphans, lost or damaged models, partial files."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="With --repair: put it right.")]


Answer = list[Finding]


@arguments.add_arguments
def doctor(
    space: Space = None,
    try_script: TryOption = False,
    form: FormatOption = "text",
    repair: RepairOption = False,
    yes: Yes = False,
    *,
    sweep: SweepArguments,
) -> int:
    """Check what would stop a sweep with these options of `cse run`; exit code 2 when something would."""
    if repair:
        return _repair(sweep, yes)
    if try_script and (space is None or sweep.address is not None):
        raise ConfigError(["nothing to try: --try runs a script here; give FILE, and leave --address out"])
    resolved = None if space is None else resolve(load_space(space), sweep.profile, arguments.settings(sweep.settings))
    if try_script and not (resolved and resolved.own_loop):
        raise ConfigError([f"no trainer: --try runs a script of your own, and {space} names none; name its space"])
    paths, findings = _examine(sweep, resolved)
    if try_script and resolved is not None and not _stops(findings):
        findings += trying.try_program(resolved, paths)
    number = _stops(findings)
    if form == "json":
        print(dump_json(findings))
    else:
        lines = [f"{finding.level:<5} {finding.part:<9} {finding.line}" for finding in findings]
        lines.append(f"{number} of these stop a sweep" if number else "nothing here stops a sweep")
        print(screen.prose("\n".join(lines), indent="  "))
    return exit.MISTAKE if number else exit.DONE


def _stops(findings: list[Finding]) -> int:
    return sum(finding.level == "stop" for finding in findings)


def _repair(sweep: SweepArguments, yes: bool) -> int:
    """Prints the defects of ledger and storage; with `yes`, repairs them."""
    defects = repairing.repairs(ledgers.open_ledger(sweep.ledger), ledgers.storage_folder(sweep.storage))
    defects = [item for item in defects if sweep.user is None or item.user in ("", sweep.user)]
    if yes:
        require_own((item.user for item in defects if item.do), sweep.user)
    for item in defects:
        if yes and item.do:
            item.do()
        print(screen.prose(item.line, indent="  "))
    unrepaired = sum(item.do is None for item in defects)
    done = "put right" if yes else "would be put right; --yes does it"
    print(f"{len(defects) - unrepaired} {done}" + (f"; {unrepaired} left alone" if unrepaired else ""))
    return exit.DONE


def _examine(sweep: SweepArguments, resolved: ResolvedSpace | None) -> tuple[DataPaths, list[Finding]]:
    """Runs every check of this machine, then those of the cluster if an address is given; returns the inputs too."""
    options, url = sweep.options(), ledgers.ledger_url(sweep.ledger)
    findings = [*checks.try_check("versions", checks.check_versions), *checks.try_check("token", checks.check_token)]
    if options.address is None:
        findings += checks.try_check("machine", lambda: checks.check_machine(options))
        findings += checks.try_check("products", products)
        findings += checks.gpus(options.gpus_per_worker)
    findings += checks.try_check("storage", lambda: checks.check_storage(options.storage))
    findings += checks.ray_disk(Path("/tmp/ray"))
    findings += checks.try_check("ledger", lambda: checks.check_ledger(url))
    is_program = resolved is not None and resolved.own_loop is not None
    try:
        paths = sweep.paths([resolved] if resolved else [])
        findings += [] if is_program else checks.data(paths, alone=resolved is None)
    except ConfigError as error:  # a path that is absent, or an unreadable file of the user's
        paths = arguments.data_paths(None, None, None)
        findings += [Finding("stop", "data", line) for line in error.problems]
    if resolved is not None:
        seeds = range(sweep.seeds) if sweep.seeds else resolved.space.seeds
        findings += checks.needs(resolved, seeds, paths, options.workers)
        findings += [] if is_program else describing.describe_space(resolved, paths)
    if options.address is not None:
        findings += checks.check_cluster(options, inputs_of(paths))
    return paths, findings


def products() -> str:
    """Returns a line on the speed of one thread's matrix products, by precision and library; measured on first use."""
    rates, fp32, bf16 = numerics.gemm_rates(), numerics.fp32_path(), numerics.bf16_path()
    prefix = f"of one thread: fp32 by {fp32}, {rates[fp32]:.0f} GFLOP/s; "
    return prefix + (
        "bf16 as fp32, which is no slower" if bf16 == fp32 else f"bf16 by {bf16}, {rates[bf16]:.0f} GFLOP/s"
    )
