"""`cse doctor`: would a sweep run here, or on that cluster? Each finding in one line, with its fix."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from analysis.render.documents import dump_json
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
    given: SweepArguments,
) -> int:
    """Check what would stop a sweep with these options of `cse run`; exit code 2 when something would."""
    if repair:
        return repair_ledger(given, yes)
    if probe and (space is None or given.address is not None):
        raise ConfigError(["no probe: --probe trains one run here; give FILE or ID, and leave --address out"])
    if encoder is not None and space is not None:
        raise ConfigError([f"two questions: --encoder={encoder} and {space}; give one, a space names its encoders"])
    if try_script:
        require_trainer(given, space)
    findings = examine(given, space) if encoder is None else describe(given, encoder)
    if probe and space is not None and not stops(findings):
        findings += run_probe(given, space)
    if try_script and space is not None and not stops(findings):
        resolved = _resolve(given, space)
        findings += trying.try_program(resolved, _paths(given, resolved)[0])
    if form == "json":
        print(dump_json([dataclasses.asdict(finding) for finding in findings]))
    else:
        print(screen.prose(text(findings), indent="  "))
    return exit.MISTAKE if stops(findings) else exit.DONE


def require_trainer(given: SweepArguments, space: str | None) -> None:
    """ConfigError unless the space is of a program of the user's own, which would run here."""
    if space is None or given.address is not None:
        raise ConfigError(["nothing to try: --try runs a script here; give FILE, and leave --address out"])
    if not _resolve(given, space).own_loop:
        raise ConfigError(
            [f"no trainer: --try runs a script of your own, and {space} names none; --probe trains a run"]
        )


def repair_ledger(given: SweepArguments, yes: bool) -> int:
    """Print what is wrong with ledger and storage and, with `yes`, put it right."""
    broken = repairing.repairs(ledgers.open_ledger(given.ledger), ledgers.storage_folder(given.storage))
    broken = [item for item in broken if given.user is None or item.user in ("", given.user)]
    if yes:
        ledgers.require_own((item.user for item in broken if item.do), given.user)
    for item in broken:
        if yes and item.do:
            item.do()
        print(screen.prose(item.line, indent="  "))
    left = sum(item.do is None for item in broken)
    print(
        f"{len(broken) - left} {'put right' if yes else 'would be put right; --yes does it'}"
        + (f"; {left} left alone" if left else "")
    )
    return exit.DONE


def examine(given: SweepArguments, space: str | None) -> list[Finding]:
    """Every check of this machine, then of the cluster where an address is given."""
    resolved = None if space is None else _resolve(given, space)
    options, (paths, absent) = given.unchecked_options(), _paths(given, resolved)
    url = ledgers.ledger_url(given.ledger)
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
        seeds = range(given.seeds) if given.seeds else resolved.space.seeds
        findings += needs(resolved, seeds, paths, options.workers)
        findings += [] if is_program else describing.describe_space(resolved, paths)
    return findings if options.address is None else [*findings, *cluster(options, inputs_of(paths))]


def describe(given: SweepArguments, encoder: str) -> list[Finding]:
    """How an encoder will be read, and how it covers the corpus that is given."""
    paths = given.paths()
    name = absolute_place(encoder, Path.cwd())
    return describing.describe_encoder(name, describing.texts_of("file", paths) if paths.train_file else ())


def products() -> str:
    """How fast a thread multiplies matrices here, and by which library; measured where no run has yet."""
    rates, fp32, bf16 = numerics.gemm_rates(), numerics.fp32_path(), numerics.bf16_path()
    said = f"of one thread: fp32 by {fp32}, {rates[fp32]:.0f} GFLOP/s; "
    return said + ("bf16 as fp32, which is no slower" if bf16 == fp32 else f"bf16 by {bf16}, {rates[bf16]:.0f} GFLOP/s")


def run_probe(given: SweepArguments, space: str) -> list[Finding]:
    """One short run of the space here."""
    examples = arguments.settings(given.settings).get("train.examples")
    few = int(str(examples)) if examples else None
    resolved = _resolve(given, space)
    return probing.probe(resolved, _paths(given, resolved)[0], given.unchecked_options(), few)


def _resolve(given: SweepArguments, space: str) -> ResolvedSpace:
    return resolve(load_space(space), given.profile, arguments.settings(given.settings))


def _paths(given: SweepArguments, space: ResolvedSpace | None) -> tuple[DataPaths, list[Finding]]:
    """The inputs, or a stop for each path that is given and absent, and each file of the user's that cannot be read."""
    try:
        return given.paths([space] if space else []), []
    except ConfigError as error:
        none = arguments.data_paths(None, None, None)
        return none, [Finding("stop", "data", line) for line in error.problems]


def text(findings: list[Finding]) -> str:
    """A line for each finding, and one for all of them."""
    lines = [f"{finding.level:<5} {finding.part:<9} {finding.line}" for finding in findings]
    number = stops(findings)
    return "\n".join([*lines, f"{number} of these stop a sweep" if number else "nothing here stops a sweep"])
