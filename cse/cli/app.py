"""The `cse` command line; each module in a folder named in `FOLDERS` is a subcommand, imported when it is called.

Such folders lie in `cse/cli` and in the other sub-packages of `cse`. The function with the module's name is the
command; the first line of its docstring is its help.
"""

import ast
import functools
import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import cse
from cluster.runtime.background import signals_interrupt
from cse.cli import exit
from cse.cli.loader import load
from cse.cli.printing import plain_output

FOLDERS = {
    "sweeps": "Plan and train",
    "results": "Read results",
    "sharing": "Pass results on",
    "models": "Work with one model",
    "extend": "Write methods and spaces of your own",
    "upkeep": "Look after machine and disk",
}
"""Folder of command modules -> its heading in `cse --help`."""
QUIET = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""Environment variables that keep libraries' notes and progress bars off the terminal; values set by the user win."""
OBJECTS_A_COLLECTION = 50_000
"""Threshold of the garbage collector's first generation, in objects: a large ledger's rows all stay, and collecting
them costs a fifth of the time."""


def command_files() -> dict[str, Path]:
    """Returns command -> its file, in the order of the help; a command named like a keyword has a file that ends in
    `_`."""
    package = Path(cse.__file__).parent
    files = [
        file for folder in FOLDERS for file in sorted(package.glob(f"*/{folder}/[a-z]*.py"), key=lambda file: file.stem)
    ]
    return {file.stem.rstrip("_").replace("_", "-"): file for file in files}


def summary(file: Path) -> str:
    """Returns the first line of a command's docstring, read without importing its module."""
    tree = ast.parse(file.read_text(encoding="utf8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == file.stem]
    return (ast.get_docstring(functions[0]) or "").partition("\n")[0] if functions else ""


class Commands(TyperGroup):
    """Click group that imports the module of a command when the command is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(command_files())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns the command, or None where no module has this name."""
        file = command_files().get(cmd_name)
        if file is None:
            return None
        module = load(f"cse.{file.parts[-3]}.{file.parent.name}.{file.stem}")
        single = _typer()
        single.command(cmd_name)(_exit_with_code(getattr(module, file.stem)))
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the list of commands in `cse --help`, under one heading for each folder."""
        width = max(map(len, command_files()))
        for folder, heading in FOLDERS.items():
            commands = {name: file for name, file in command_files().items() if file.parent.name == folder}
            if commands:  # a side that is taken off may have held all commands of a folder's name
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(width), summary(file)) for name, file in commands.items()])


def _typer(**settings: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)


app = _typer(
    name="cse",
    cls=Commands,
    no_args_is_help=True,
    help="Train what a search-space YAML describes on Ray and print it as the paper's table.",
    epilog="Exit codes: 0 done, 1 some runs failed, 2 your mistake (one line says which), 130 interrupted; "
    "a command with codes of its own says so in its --help.",
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"cse-search {cse.__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; at any place of the line.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version)] = False,
) -> None:
    """Declares the options of `cse` itself; `main` reads --debug, wherever it is on the command line."""


def _exit_with_code(command: Callable[..., int | None]) -> Callable[..., None]:
    """Wraps a command so that its return value becomes the exit code: Typer drops it, so `typer.Exit` carries it."""

    @functools.wraps(command)
    def wrapper(*args: object, **options: object) -> None:
        raise typer.Exit(command(*args, **options) or 0)

    return wrapper


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code; prints one line for each problem on stderr."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = [word for word in words if word != "--debug"]
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    gc.set_threshold(OBJECTS_A_COLLECTION, 20, 20)
    with plain_output(), signals_interrupt():
        return exit.run_to_end(lambda: _call(arguments), debug=len(arguments) < len(words))


def _call(arguments: list[str]) -> int:
    try:
        app(arguments, prog_name="cse")
    except SystemExit as end:
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            raise KeyboardInterrupt from end  # of which Typer says nothing
        if end.code is not None and not isinstance(
            end.code, int
        ):  # as Python does: the text is said, and the code is 1
            exit.say([str(end.code)])
            return exit.SOME_FAILED
        return end.code or 0
    return 0
