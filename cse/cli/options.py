"""Options that several commands share, and the functions that check their values."""

import dataclasses
import functools
import inspect
import math
import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from analysis.ledger import Ledger, sweeps_named
from analysis.statistics.looks import LOOKS, looks_until
from cse.cli.loader import deferred
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError, Scalar, nearest
from cse_train.files import cache_folder
from cse_train.plugins import registry
from cse_train.text.file_corpora import file_source, reads_by_name, user_source
from cse_train.user_files import UserFile
from search_spaces.catalog import catalog
from search_spaces.space import MOST_SEEDS
from search_spaces.strict_yaml import parse_yaml, read_yaml
from search_spaces.user_data import ROLES

with deferred(__name__):
    from analysis.answers import judge

PLUGINS_VARIABLE = "CSE_PLUGINS"
"""Environment variable with default values of --plugins, separated as in PATH."""

SpaceName = Annotated[str, typer.Argument(metavar="FILE|ID", help="A space: a YAML file, or a shipped ID such as E7.")]
SpaceOrSweep = Annotated[str, typer.Argument(metavar="ID|FILE|SWEEP", help="A space, or a sweep (cse ls).")]
SpaceNames = Annotated[
    list[str],
    typer.Argument(metavar="FILE|DIR|ID...", help="Spaces, folders of them, shipped IDs, or `all` for every paper"),
]
SCALES = "Scale: paper, mid, small, tiny, or a file (default: the space's)."
Profile = Annotated[str | None, typer.Option(help=SCALES)]
Data = Annotated[Path | None, typer.Option(envvar="CSE_DATA", help="Folder with wiki/, nli/ and senteval/downstream.")]
TrainFile = Annotated[
    Path | None,
    typer.Option(
        help="Training text: .txt (one sentence a line), .csv, .tsv, .jsonl, .parquet, or a data set's folder."
    ),
]
TrainColumns = Annotated[
    str | None,
    typer.Option(
        metavar="text=NAME|sent0=NAME,sent1=NAME",
        help="Which columns of --train-file are read; hard_neg or label may stand beside sent0 and sent1.",
    ),
]
SentEval = Annotated[Path | None, typer.Option(help="SentEval's downstream folder.")]
Seeds = Annotated[int | None, typer.Option(min=1, max=MOST_SEEDS, help="Seeds per cell (default: the space's).")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Fix a setting; may be given again.")]
DataHash = Annotated[
    str | None, typer.Option(help="Show runs on the data (or by the code) whose hash begins so (default: the newest).")
]


def add_arguments(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Decorator: replaces a parameter whose type is a dataclass of options by one option for each of its fields."""
    parameters = inspect.signature(command, eval_str=True).parameters
    types = {name: p.annotation for name, p in parameters.items() if isinstance(p.annotation, type)}
    shared = {name: options for name, options in types.items() if dataclasses.is_dataclass(options)}
    fields = {name: inspect.signature(options).parameters for name, options in shared.items()}
    flattened = [each for name, p in parameters.items() for each in (fields[name].values() if name in fields else [p])]
    keywords = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in flattened]

    @functools.wraps(command)
    def wrapper(**values: Any) -> int | None:
        groups = {
            name: options(**{field: values.pop(field) for field in fields[name] if field in values})
            for name, options in shared.items()
        }
        return command(**groups, **values)

    wrapper.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
    return wrapper


def use_plugins(plugins: Sequence[str | Path] | None) -> list[str]:
    """Registers the given plug-ins, else those in CSE_PLUGINS, and returns them; ConfigError for one that fails."""
    sources = list(map(str, plugins or filter(None, os.environ.get(PLUGINS_VARIABLE, "").split(os.pathsep))))
    registry.use(sources)
    return sources


Plugins = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DIR|FILE|MODULE",
        callback=use_plugins,
        is_eager=True,
        help="Methods and suites of your own; may be given again (CSE_PLUGINS).",
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|file:///PATH", help="Folder of runs, checkpoints and logs, seen by every node (default: results)."
    ),
]

KeepTop = Annotated[
    int | None, typer.Option(min=1, help="Keep checkpoints of this many best runs of each sweep (default: all).")
]
DiskQuota = Annotated[
    str | None, typer.Option(metavar="20GB", help="Free checkpoints, worst runs first, until runs take less.")
]


def choice(name: str, valid: Sequence[str]) -> Callable[[str], str]:
    """Returns a parser that accepts one of the `valid` words, and refuses any other with the nearest valid one."""

    def parse(word: str) -> str:
        if word not in valid:
            raise typer.BadParameter(f"unknown {name}: {name}={word}; {nearest(word, valid)}")
        return word

    return parse


Until = Annotated[
    str | None,
    typer.Option(
        parser=choice("until", ("decided",)),
        metavar="decided",
        help=f"Look after {', '.join(map(str, LOOKS))} seeds, and give more to rows that are open.",
    ),
]
MaxSeeds = Annotated[
    int | None, typer.Option(min=LOOKS[0], max=MOST_SEEDS, help=f"With --until: seeds of a row at most ({LOOKS[-1]}).")
]
Margin = Annotated[
    float, typer.Option(metavar="POINTS", help="A difference that is surely smaller than this is a tie.")
]


def terms(until: str | None, max_seeds: int | None, margin: float, seeds: int | None) -> "judge.Terms":
    """Returns the terms of verdicts. Raises ConfigError for a margin of 0, and for options that exclude each other."""
    if until is None and max_seeds is not None:
        raise ConfigError([f"no looks: --max-seeds={max_seeds}; give --until decided with it, or --seeds instead"])
    if until is not None and seeds is not None:
        raise ConfigError([f"two answers: --until={until} --seeds={seeds}; give --max-seeds in place of --seeds"])
    try:
        return judge.Terms(margin=margin, looks=None if until is None else looks_until(max_seeds or LOOKS[-1]))
    except ValueError as error:
        raise ConfigError([str(error)]) from error


def positive(value: float | None, name: str) -> float | None:
    """Returns the number, or None. Raises ConfigError unless it is above 0 and finite."""
    if value is not None and not 0 < value < math.inf:
        raise ConfigError([f"wrong {name}: {name}={value:g}; give a number above 0, such as 1 or 100"])
    return value


def read_workers(value: object) -> int:
    """Parses `--workers`: one whole number.

    A range and `auto` are refused, since the number of ranks changes the result and must be known.
    """
    text = str(value).strip()
    if text.removeprefix("-").isdigit():
        return int(text)
    if text == "auto" or set(text) <= set("0123456789-:.,"):
        line = f"elastic workers: workers={text}; the ranks of a run are fixed, since each draws dropout of its own"
        raise typer.BadParameter(f"{line}: give one number, such as --workers 2")
    raise typer.BadParameter(f"wrong type: workers={text}; give a whole number")


Workers = Annotated[int, typer.Option(parser=read_workers, metavar="INTEGER", help="Data-parallel ranks of one run.")]
USER_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)


def _read_user(name: object) -> str:
    """Parses `--user`: letters, digits, dots, `-` and `_`, since the ledger stores it before an @."""
    if not USER_NAME.fullmatch(str(name)):
        raise typer.BadParameter(f"wrong name: user={name}; give letters, digits, dots, - and _, such as anna")
    return str(name)


User = Annotated[
    str | None,
    typer.Option(
        parser=_read_user, metavar="NAME", envvar="CSE_USER", help="Whose runs these are (default: who is logged in)."
    ),
]
SaveMinutes = Annotated[float, typer.Option(min=0, metavar="N", help="From one write of a run's state to the next.")]


def settings(pairs: list[str] | None) -> dict[str, Scalar]:
    """Parses `--set KEY=VALUE` pairs, with values as YAML. Raises ConfigError that lists every malformed pair."""
    wrong = [pair for pair in pairs or [] if "=" not in pair.strip("=")]
    if wrong:
        raise ConfigError([f"wrong --set: set={pair}; write --set key=value" for pair in wrong])
    split = (pair.split("=", 1) for pair in pairs or [])
    values = {key.strip(): parse_yaml(f"value: {value}", f"--set {key}")["value"] for key, value in split}
    nested = {k: v for k, v in values.items() if isinstance(v, list) or (isinstance(v, dict) and k not in ROLES)}
    if nested:
        raise ConfigError([f"wrong --set: {key}={value}; give one plain value" for key, value in nested.items()])
    return values


def data_paths(
    data: Path | None, train_file: Path | None, senteval: Path | None, train_columns: str | None = None
) -> DataPaths:
    """Returns absolute paths of the inputs. Raises ConfigError for paths that do not exist, and for malformed columns.

    `train_columns`: `text=NAME`, or `sent0=NAME,sent1=NAME` and optionally hard_neg or label.
    """
    if train_columns is not None and train_file is None:
        raise ConfigError([f"no file: --train-columns={train_columns} without --train-file; give it too"])
    path_options = {"--data": data, "--train-file": train_file, "--senteval": senteval}
    absent = {name: path for name, path in path_options.items() if path is not None and not path.exists()}
    if absent:
        raise ConfigError([f"no such path: {name}={path}; give one that exists" for name, path in absent.items()])
    paths = DataPaths.from_folder(data) if data is not None else DataPaths()
    inputs = {"senteval": senteval, "train_file": train_file}
    files = list[UserFile]()
    if train_file is not None:  # beside what `corpus: file` reads it is the text or the NLI file, over that of --data
        file = UserFile(name="file", file=str(train_file.resolve()), role="corpus", columns=_columns(train_columns))
        by_name = reads_by_name(file)
        pairs = "sent1" in (user_source(file) if by_name else file_source("file", train_file)).columns
        names = [*(["nli"] if pairs else []), *([] if pairs and paths.wiki else ["wiki"])]
        inputs |= dict.fromkeys(names, train_file)
        files = [dataclasses.replace(file, name=name) for name in ("file", *names)] if by_name else []
    resolved = {name: path.resolve() for name, path in inputs.items() if path is not None}
    return dataclasses.replace(paths, cache=cache_folder().resolve(), files=tuple(files), **resolved)


def _columns(text: str | None) -> tuple[tuple[str, str], ...]:
    """Parses `--train-columns` into sorted (role, column) pairs. Raises ConfigError for a malformed pair."""
    pairs = [tuple(part.split("=", 1)) for part in text.split(",")] if text else []
    if wrong := [part for part in pairs if len(part) != 2 or not all(part)]:
        line = f"wrong columns: --train-columns={text}, at {'='.join(wrong[0])}"
        raise ConfigError([f"{line}; write text=NAME, or sent0=NAME,sent1=NAME"])
    return tuple(sorted((role.strip(), name.strip()) for role, name in pairs))


def sweep_named(name: str, ledger: Ledger | None) -> str:
    """Returns the sweep of this name, or the only sweep of the space with this ID or file; else ConfigError."""
    sweeps = sweeps_of(name, ledger)
    if len(sweeps) > 1:
        raise ConfigError([f"several sweeps: space={name} has {', '.join(sweeps)}; give one of them"])
    return sweeps[0]


def sweeps_of(name: str, ledger: Ledger | None) -> list[str]:
    """Returns the sweep of this name, else all sweeps of the space with this ID or file; ConfigError for none."""
    sweeps = ledger.sweeps() if ledger else []
    is_file = Path(name).is_file()
    matches = sweeps_named(name, sweeps)
    if is_file and not matches:  # the same file at another place
        matches = sweeps_named(str(read_yaml(Path(name)).get("id")), sweeps)
    if matches:
        return [sweep.id for sweep in matches]
    if is_file or name.lower() in map(str.lower, catalog()):
        raise ConfigError([f"no runs yet: sweep={name}; cse run {shlex.quote(name)} starts them"])
    hint = nearest(name, [*(sweep.id for sweep in sweeps), *catalog()])
    raise ConfigError([f"unknown sweep: sweep={name}; {hint}"])
