"""`cse doctor`: checks whether a sweep could run here, or on a cluster; one line for each finding, with its fix."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from analysis.documents import dump_json
from cluster.runtime.storage import inputs_of
from cse.cli import exit, ledgers, screen
from cse.cli import options as arguments
from cse.cli.listing import FormatOption
from cse.cli.loader import deferred
from cse.cli.sweep_options import SweepArguments
from cse.doctor import checks
from cse.doctor.checks import Finding, needs, stops
from cse.doctor.nodes import cluster
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from cse_train.user_files import absolute_place
from search_spaces.catalog import load_space
from search_spaces.cells import ResolvedSpace, resolve

with deferred(__name__):
    from cse.doctor import encoders as describing
    from cse.doctor import probe as probing
    from cse.doctor import repair as repairing
    from cse.doctor import try_program as trying
    from cse_train import numerics

Space = Annotated[
    str | None, typer.Argument(metavar="FILE|ID", help="Also what this space needs (cse ls).", show_default=False)
]
Probe = Annotated[
    bool,
    typer.Option(
        "--probe", help="Also train the space's largest cell for 200 steps and suggest how many runs fit at once."
    ),
]
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
EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="FOLDER|NAME",
        help="Only say how this encoder will be read; with --train-file also how its vocabulary covers it.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="With --repair: put it right.")]


@arguments.add_arguments
def doctor(
    space: Space = None,
    probe: Probe = False,
    try_script: TryOption = False,
    form: FormatOption = "text",
    repair: RepairOption = False,
    yes: Yes = False,
    encoder: EncoderOption = None,
    *,
    sweep: SweepArguments,
) -> int:
    """Check what would stop a sweep with these options of `cse run`; exit code 2 when something would."""
    if repair:
        return repair_ledger(sweep, yes)
    if probe and (space is None or sweep.address is not None):
        raise ConfigError(["no probe: --probe trains one run here; give FILE or ID, and leave --address out"])
    if encoder is not None and space is not None:
        raise ConfigError([f"two questions: --encoder={encoder} and {space}; give one, a space names its encoders"])
    if try_script:
        require_trainer(sweep, space)
    findings = examine(sweep, space) if encoder is None else describe(sweep, encoder)
    if probe and space is not None and not stops(findings):
        findings += run_probe(sweep, space)
    if try_script and space is not None and not stops(findings):
        resolved = _resolve(sweep, space)
        findings += trying.try_program(resolved, _paths(sweep, resolved)[0])
    if form == "json":
        print(dump_json([dataclasses.asdict(finding) for finding in findings]))
    else:
        print(screen.prose(text(findings), indent="  "))
    return exit.MISTAKE if stops(findings) else exit.DONE


def require_trainer(sweep: SweepArguments, space: str | None) -> None:
    """Raises ConfigError unless the space trains with a script of the user's own, and on this machine."""
    if space is None or sweep.address is not None:
        raise ConfigError(["nothing to try: --try runs a script here; give FILE, and leave --address out"])
    if not _resolve(sweep, space).own_loop:
        raise ConfigError(
            [f"no trainer: --try runs a script of your own, and {space} names none; --probe trains a run"]
        )


def repair_ledger(sweep: SweepArguments, yes: bool) -> int:
    """Prints the defects of ledger and storage; with `yes`, repairs them."""
    defects = repairing.repairs(ledgers.open_ledger(sweep.ledger), ledgers.storage_folder(sweep.storage))
    defects = [item for item in defects if sweep.user is None or item.user in ("", sweep.user)]
    if yes:
        ledgers.require_own((item.user for item in defects if item.do), sweep.user)
    for item in defects:
        if yes and item.do:
            item.do()
        print(screen.prose(item.line, indent="  "))
    unrepaired = sum(item.do is None for item in defects)
    print(
        f"{len(defects) - unrepaired} {'put right' if yes else 'would be put right; --yes does it'}"
        + (f"; {unrepaired} left alone" if unrepaired else "")
    )
    return exit.DONE


def examine(sweep: SweepArguments, space: str | None) -> list[Finding]:
    """Runs every check of this machine, then those of the cluster if an address is given."""
    resolved = None if space is None else _resolve(sweep, space)
    options, (paths, absent) = sweep.unchecked_options(), _paths(sweep, resolved)
    url = ledgers.ledger_url(sweep.ledger)
    findings = [*checks.try_check("versions", checks.check_versions), *checks.try_check("token", checks.check_token)]
    if options.address is None:
        findings += checks.try_check("machine", lambda: checks.check_machine(options))
        findings += checks.try_check("products", products)
        findings += [*checks.gpus(options.gpus_per_worker), *checks.ports()]
    findings += checks.try_check("storage", lambda: checks.check_storage(options.storage))
    findings += checks.ray_disk(Path("/tmp/ray"))
    findings += checks.try_check("ledger", lambda: checks.check_ledger(url))
    is_program = resolved is not None and resolved.own_loop is not None
    findings += absent or ([] if is_program else checks.data(paths, alone=resolved is None))
    if resolved is not None:
        seeds = range(sweep.seeds) if sweep.seeds else resolved.space.seeds
        findings += needs(resolved, seeds, paths, options.workers)
        findings += [] if is_program else describing.describe_space(resolved, paths)
    return findings if options.address is None else [*findings, *cluster(options, inputs_of(paths))]


def describe(sweep: SweepArguments, encoder: str) -> list[Finding]:
    """Describes how an encoder will be read, and how its vocabulary covers the corpus, if one is given."""
    paths = sweep.paths()
    name = absolute_place(encoder, Path.cwd())
    return describing.describe_encoder(name, describing.texts_of("file", paths) if paths.train_file else ())


def products() -> str:
    """Returns a line on the speed of one thread's matrix products, by precision and library; measured on first use."""
    rates, fp32, bf16 = numerics.gemm_rates(), numerics.fp32_path(), numerics.bf16_path()
    prefix = f"of one thread: fp32 by {fp32}, {rates[fp32]:.0f} GFLOP/s; "
    return prefix + (
        "bf16 as fp32, which is no slower" if bf16 == fp32 else f"bf16 by {bf16}, {rates[bf16]:.0f} GFLOP/s"
    )


def run_probe(sweep: SweepArguments, space: str) -> list[Finding]:
    """Trains one short run of the space on this machine, and reports its memory, its speed and how many runs fit."""
    examples = arguments.settings(sweep.settings).get("train.examples")
    short_examples = int(str(examples)) if examples else None
    resolved = _resolve(sweep, space)
    return probing.probe(resolved, _paths(sweep, resolved)[0], sweep.unchecked_options(), short_examples)


def _resolve(sweep: SweepArguments, space: str) -> ResolvedSpace:
    return resolve(load_space(space), sweep.profile, arguments.settings(sweep.settings))


def _paths(sweep: SweepArguments, space: ResolvedSpace | None) -> tuple[DataPaths, list[Finding]]:
    """Returns the paths of the inputs, or a `stop` finding for each path that is absent and each unreadable
    user file."""
    try:
        return sweep.paths([space] if space else []), []
    except ConfigError as error:
        none = arguments.data_paths(None, None, None)
        return none, [Finding("stop", "data", line) for line in error.problems]


def text(findings: list[Finding]) -> str:
    """Returns a line for each finding, and a last line with the number of those that stop a sweep."""
    lines = [f"{finding.level:<5} {finding.part:<9} {finding.line}" for finding in findings]
    number = stops(findings)
    return "\n".join([*lines, f"{number} of these stop a sweep" if number else "nothing here stops a sweep"])
