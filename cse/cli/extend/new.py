"""`cse new`: a commented file to start from, for a method or a space; for a trainer its script and its space."""

import importlib.resources
import importlib.util
import keyword
import re
import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from cse.cli import options
from cse_train import methods
from cse_train.fields import ConfigError
from search_spaces.catalog import catalog

Kind = Literal["method", "space", "trainer"]
KindArgument = Annotated[Kind, typer.Argument(help="What to begin: a method, a space or a trainer.")]
Name = Annotated[str, typer.Argument(help="Its name, and that of the file.")]
To = Annotated[Path, typer.Option(help="The folder of the file.")]
Method = Annotated[str | None, typer.Option(help="Of a space: the method that it trains (simcse).")]


def new(
    kind: KindArgument, name: Name, to: To = Path(), method: Method = None, plugins: options.Plugins = None
) -> None:
    """Write the commented start of a method, a space or a trainer, which trains as it is; overwrites nothing."""
    if method is not None and kind != "space":
        command = shlex.join(["cse", "new", "space", name, "--method", method])
        raise ConfigError([f"option of a space: --method={method}; leave it out, or write {command}"])
    if not to.is_dir():
        raise ConfigError([f"no such folder: to={to}; make it first"])
    _check_name(name, kind)
    if kind == "method":
        texts = {".py": method_text(name)}
    elif kind == "space":
        texts = {".yaml": _space_text(name, method or "simcse", to, plugins or [])}
    else:
        texts = {".py": _start("trainer.txt"), ".yaml": _start("trainer_space.txt").replace("NAME", name)}
    files = {to / f"{name}{suffix}": text for suffix, text in texts.items()}
    if existing := [file for file in files if file.exists()]:
        raise ConfigError([f"file exists: {existing[0]}; give another name or --to, nothing is overwritten"])
    for file, text in files.items():
        with file.open("x", encoding="utf8") as opened:
            opened.write(text)
        print(f"wrote {file}")
    last = shlex.quote(str(file))
    print(f"next: cse check-method {last}" if kind == "method" else f"next: cse plan {last}; cse run {last}")


def _check_name(name: str, kind: Kind) -> None:
    """Raises ConfigError where a user's method, or a space, cannot have this name."""
    if kind != "method" and not re.fullmatch(r"[A-Za-z][\w-]{0,39}", name, re.ASCII):
        raise ConfigError([f"wrong name: name={name}; give letters, digits, _ and -, a letter first"])
    if kind != "method" and name.lower() in map(str.lower, catalog()):
        raise ConfigError([f"name taken: name={name} is a shipped space; give another"])
    if kind != "method":
        return
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name) or keyword.iskeyword(name):
        line = f"wrong name: name={name}; give lower-case letters, digits and _, a letter first, and no word of Python"
        raise ConfigError([line])
    if name in methods.names():
        raise ConfigError([f"name taken: name={name} is a method; give another"])
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None:
        raise ConfigError([f"name taken: name={name}, `import {name}` gives {spec.origin}; give another"])


def method_text(name: str) -> str:
    """Returns the source of a new method's module, which trains as it is."""
    return _start("method.txt").replace("NAME", name)


def _space_text(name: str, method: str, folder: Path, plugins: list[str]) -> str:
    """Returns the YAML of a new space; its `plugins:` names a method that lies in `folder` or comes from `plugins`."""
    sources = [str(Path(source).resolve()) if Path(source).exists() else source for source in plugins]
    if (folder / f"{method}.py").is_file():
        sources = [f"{method}.py"]
    elif not sources:
        methods.require(method)
    line = f"\nplugins: [{', '.join(sources)}]" if sources else ""
    return _start("space.txt").replace("PLUGINS", line).replace("NAME", name).replace("METHOD", method)


def _start(file: str) -> str:
    return importlib.resources.files("cse.cli.extend").joinpath(file).read_text(encoding="utf8")
