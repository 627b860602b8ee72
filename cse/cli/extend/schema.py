"""`cse schema`: the JSON Schema of what a command prints with --format json."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.render.documents import JSON_VERSION
from cse.cli.app import command_files
from cse_train.fields import ConfigError, nearest

Verb = Annotated[str, typer.Argument(metavar="COMMAND", help="A command that takes --format json, such as gate.")]
Version = Annotated[int, typer.Option(help="The version that your program was written for.")]


def schema(verb: Verb, version: Version = JSON_VERSION) -> None:
    """Print the JSON Schema of a command's --format json; every such document has this `version`."""
    files = list_schemas()
    if verb not in files:
        raise ConfigError([f"no JSON: command={verb} has no --format json; {nearest(verb, files)}"])
    if version != JSON_VERSION:
        line = f"unknown schema version: version={version}, this cse-search prints {JSON_VERSION}"
        raise ConfigError(
            [f"{line}; adapt the program to it (CHANGELOG.md), or install the release it was written for"]
        )
    print(files[verb].read_text(encoding="utf8"), end="")


def list_schemas() -> dict[str, Path]:
    """Returns command -> its JSON Schema file, which lies beside the command's module."""
    files = {name: file.with_suffix(".schema.json") for name, file in command_files().items()}
    return {name: file for name, file in files.items() if file.is_file()}
