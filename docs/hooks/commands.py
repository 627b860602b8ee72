"""The commands as the command line itself declares them: a page for each, and all of them as JSON for programs."""

import functools
import inspect
import json
import re
import typing
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.main import get_command

from cse import __version__
from cse.cli import app

PAGE = Path(__file__).resolve().parents[1] / "commands.md"
INDEX = f"""\
# The commands

As `cse --help` lists them, version {__version__}. Programs read [commands.json](../commands.json).
"""


class Parameter(NamedTuple):
    """An argument or an option of a command."""

    kind: str
    """`argument` or `option`."""
    names: list[str]
    """As they are typed; an argument's own name."""
    type: str
    """`text`, `integer`, `float`, `path`, `flag`, or the words that are allowed with a bar between them."""
    required: bool
    multiple: bool
    default: Any
    metavar: str
    environment: str | None
    help: str

    @property
    def heading(self) -> str:
        """What a person types."""
        words = self.metavar or (self.type if "|" in self.type else self.type.upper())
        value = "" if self.type == "flag" else f" {words}"
        return f"{', '.join(self.names)}{value}" if self.kind == "option" else self.metavar


class Command(NamedTuple):
    """A command of the app."""

    name: str
    group: str
    usage: str
    help: str
    parameters: list[Parameter]


@functools.cache
def commands() -> list[Command]:
    """Every command, by folder and name."""
    group: Any = get_command(app.app)
    with typer.Context(group) as context:
        return [
            _command(group.get_command(context, name), name, app.FOLDERS[file.parent.name])
            for name, file in app.command_files().items()
        ]


def pages() -> dict[str, str]:
    """File below reference/ -> text: a page for each command, and the list of them."""
    index = [INDEX]
    for heading, group in groups().items():
        rows = [f"| [`cse {command.name}`]({file_of(command)}) | {_line(command.help)} |" for command in group]
        index += [f"## {heading}", "", "| command | what it does |", "|---|---|", *rows, ""]
    return {"commands.md": "\n".join(index)} | {file_of(command): page(command) for command in commands()}


def groups() -> dict[str, list[Command]]:
    """Heading -> its commands, as `cse --help` lists them."""
    return {title: [command for command in commands() if command.group == title] for title in app.FOLDERS.values()}


def nav() -> dict[str, list[dict[str, str]]]:
    """Heading -> its pages, for the navigation."""
    return {
        heading: [{f"cse {command.name}": f"reference/{file_of(command)}"} for command in group]
        for heading, group in groups().items()
    }


def file_of(command: Command) -> str:
    return f"cse_{command.name.replace('-', '_')}.md"


def page(command: Command) -> str:
    """Usage, what the docstring says, and each argument and option."""
    lines = [f"# cse {command.name}", "", "```text", command.usage, "```", "", command.help, ""]
    for kind, heading in (("argument", "Arguments"), ("option", "Options")):
        parameters = [parameter for parameter in command.parameters if parameter.kind == kind]
        lines += [f"## {heading}", ""] if parameters else []
        for parameter in parameters:
            lines += [f"`{parameter.heading}`", f":   {_about(parameter)}", ""]
    return "\n".join(lines)


def exit_codes() -> dict[str, str]:
    """Code -> what it means, by the table of docs/commands.md."""
    section = PAGE.read_text(encoding="utf8").partition("## Exit codes")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (\d+) \| (.*) \|$", section, re.MULTILINE))


def as_json() -> str:
    """Version, exit codes and every command with its parameters."""
    content = {
        "version": __version__,
        "exit_codes": {code: meaning.replace("`", "") for code, meaning in exit_codes().items()},
        "commands": [
            command._asdict() | {"parameters": [parameter._asdict() for parameter in command.parameters]}
            for command in commands()
        ],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _command(command: Any, name: str, group: str) -> Command:
    with typer.Context(command, info_name=f"cse {name}") as context:
        usage = command.get_usage(context).removeprefix("Usage: ")
        parameters = [_parameter(given, context) for given in command.get_params(context) if given.name != "help"]
    return Command(name, group, " ".join(usage.split()), inspect.cleandoc(command.help or ""), parameters)


def _parameter(given: Any, context: Any) -> Parameter:
    kind = "option" if given.opts[0].startswith("-") else "argument"
    names = [*given.opts, *given.secondary_opts] if kind == "option" else [given.name]
    metavar = (given.metavar or given.name.upper()) if kind == "argument" else (given.metavar or "")
    default = given.get_default(context)
    return Parameter(
        kind,
        names,
        _type(given),
        bool(given.required),
        bool(given.multiple or given.nargs == -1),
        default if default is None or isinstance(default, bool | int | float | str) else str(default),
        metavar,
        given.envvar if isinstance(given.envvar, str) else None,
        " ".join((given.help or "").split()),
    )


def _type(given: Any) -> str:
    if getattr(given, "is_flag", False):
        return "flag"
    annotation = given.type_descriptor.annotation
    inner = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return "|".join(inner)
    name = getattr(inner[0] if inner else annotation, "__name__", "str")
    return {"int": "integer", "float": "float", "Path": "path"}.get(name, "text")


def _about(parameter: Parameter) -> str:
    help = parameter.help
    notes = {
        "Required.": parameter.required,
        "May be given again.": parameter.multiple and "again" not in help and "repeatable" not in help,
        f"Default: `{parameter.default}`.": parameter.default not in (None, False, "") and "default" not in help,
        f"Environment variable: `{parameter.environment}`.": parameter.environment
        and parameter.environment not in help,
    }
    text = _line(help).rstrip(".") + "." if help else ""
    return " ".join([text, *(note for note, holds in notes.items() if holds)]).strip() or "See above."


def _line(text: str) -> str:
    """The first line, with what Markdown and HTML would read as markup left as text."""
    return text.partition("\n")[0].replace("|", "&#124;").replace("<", "&lt;").replace("*", "\\*")
