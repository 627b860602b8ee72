"""The `cse` command: the one place that knows all four packages. Each subcommand is one module of `commands`."""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from cluster.commands import (
    ablate,
    best,
    clean,
    dashboard,
    demo,
    doctor,
    embed,
    eval,
    explain,
    export,
    failure,
    launch,
    ls,
    plan,
    pretrain,
    report,
    reproduce,
    run,
    status,
    table,
    train,
    trials,
)

app = typer.Typer(
    name="cse",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A search-space YAML becomes trained runs on Ray and comes back as the paper's table.",
    epilog="Exit codes: 0 done, 1 some runs failed, 2 your mistake (one line says which), 130 interrupted.",
)

QUIET = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""Libraries keep their notes and bars to themselves; what is set already wins."""

COMMANDS: tuple[Callable[..., int | None], ...] = (
    demo.demo,
    doctor.doctor,
    plan.plan,
    run.run,
    launch.launch,
    status.status,
    dashboard.dashboard,
    ls.ls,
    trials.trials,
    best.best,
    clean.clean,
    reproduce.reproduce,
    table.table,
    report.report,
    explain.explain,
    ablate.ablate,
    train.train,
    eval.evaluate,
    embed.embed,
    export.export,
    pretrain.pretrain,
)
OBJECTS = 50_000
"""New objects before the garbage collector looks: of a large ledger's rows all stay, and looking costs a fifth."""
NAMES: dict[Callable[..., int | None], str] = {eval.evaluate: "eval"}


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere.")] = False,
) -> None:
    """Nothing: `main` reads --debug wherever it stands."""


def _returning(command: Callable[..., int | None]) -> Callable[..., None]:
    """Typer drops what a command returns; its exit code leaves by `typer.Exit`."""
    import functools

    @functools.wraps(command)
    def called(*args: object, **options: object) -> None:
        raise typer.Exit(command(*args, **options) or 0)

    return called


for _command in COMMANDS:
    app.command(NAMES.get(_command, _command.__name__))(_returning(_command))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code, and prints one line per problem on stderr."""
    given = list(sys.argv[1:] if argv is None else argv)
    arguments = [word for word in given if word != "--debug"]
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    gc.set_threshold(OBJECTS, 20, 20)
    return failure.ended(lambda: _call(arguments), debug=len(arguments) < len(given))


def _call(arguments: list[str]) -> int:
    try:
        app(arguments, prog_name="cse")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


if __name__ == "__main__":  # `cse launch` starts drivers so, with the Python of its choice
    sys.exit(main())
