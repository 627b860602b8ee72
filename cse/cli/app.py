"""The `cse` command. A module of a folder named in `FOLDERS` is a command, here or in a side's folder beside this one.

It is imported when it is called. The function with the module's name is the command; its first line of documentation is
its help.
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
"""Libraries keep their notes and bars to themselves; what is set already wins."""
OBJECTS_A_COLLECTION = 50_000
"""New objects before the garbage collector looks: of a large ledger's rows all stay, and looking costs a fifth."""


def command_files() -> dict[str, Path]:
    """Command -> its file, by folder; a command whose name is a keyword has a file that ends in `_`."""
    package = Path(cse.__file__).parent
    files = [
        file for folder in FOLDERS for file in sorted(package.glob(f"*/{folder}/[a-z]*.py"), key=lambda file: file.stem)
    ]
    return {file.stem.rstrip("_").replace("_", "-"): file for file in files}


def summary(file: Path) -> str:
    """The first line of a command's documentation, read without importing its module."""
    tree = ast.parse(file.read_text(encoding="utf8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == file.stem]
    return (ast.get_docstring(functions[0]) or "").partition("\n")[0] if functions else ""


class Commands(TyperGroup):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(command_files())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or None where there is no such module."""
        file = command_files().get(cmd_name)
        if file is None:
            return None
        module = load(f"cse.{file.parts[-3]}.{file.parent.name}.{file.stem}")
        single = _typer()
        single.command(cmd_name)(_exit_with_code(getattr(module, file.stem)))
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A list for each folder."""
        width = max(map(len, command_files()))
        for folder, heading in FOLDERS.items():
            mine = {name: file for name, file in command_files().items() if file.parent.name == folder}
            if mine:  # a side that is taken off may have held all commands of a folder's name
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(width), summary(file)) for name, file in mine.items()])


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


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cse-search {cse.__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; at any place of the line.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version)] = False,
) -> None:
    """Nothing: `main` reads --debug wherever it stands."""


def _exit_with_code(command: Callable[..., int | None]) -> Callable[..., None]:
    """Typer drops what a command returns; its exit code leaves by `typer.Exit`."""

    @functools.wraps(command)
    def called(*args: object, **options: object) -> None:
        raise typer.Exit(command(*args, **options) or 0)

    return called


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code, and prints one line per problem on stderr."""
    given = list(sys.argv[1:] if argv is None else argv)
    arguments = [word for word in given if word != "--debug"]
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    gc.set_threshold(OBJECTS_A_COLLECTION, 20, 20)
    with plain_output(), signals_interrupt():
        return exit.run_to_end(lambda: _call(arguments), debug=len(arguments) < len(given))


def _call(arguments: list[str]) -> int:
    try:
        app(arguments, prog_name="cse")
    except SystemExit as end:
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            raise KeyboardInterrupt from end  # of which Typer says nothing
        return end.code if isinstance(end.code, int) else 0
    return 0
