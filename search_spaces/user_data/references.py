"""References to a user's file, a path or `{file: ..., columns: {...}}`, on a command line or in a space."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from cse_train.evaluate.suites import registry
from cse_train.fields import ConfigError, Json
from cse_train.text.sources import CORPUS_NAMES
from cse_train.user_files import FILE_NAME, HUB_PREFIX, Kind, Metric, Role, UserFile, is_file_name, make_name
from search_spaces.file_shape import CLOSED, Give, Text, brief, read
from search_spaces.strict_yaml import parse_yaml
from search_spaces.user_data.places import absolute

COLUMNS_ADVICE = Give("give a mapping such as {sentence1: NAME, sentence2: NAME, rating: NAME}")
ROLES: Mapping[str, Role] = {"train.dev": "dev", "train.corpus": "corpus"}
"""Settings that may name a file -> the file's role."""
BEST_CHECKPOINT = "best"
"""Name of the dev score's column, whatever the dev set is called."""


@dataclass(frozen=True, kw_only=True)
class FileShape:
    """A user's file as declared in YAML."""

    __pydantic_config__ = CLOSED
    file: Annotated[Text, Give("give a path, or hf:NAME of a data set of the hub")]
    """Path of the file, from the folder of the space's file, or hf:NAME."""
    name: Text | None = None
    """Name of the set and its column in tables; by default the file's name without its ending."""
    kind: Annotated[Literal["ratings", "labels", "retrieval"] | None, Give("give ratings, labels or retrieval")] = None
    columns: Annotated[dict[str, Text], COLUMNS_ADVICE] = field(default_factory=dict)
    """Column that the project reads -> its name in the file."""
    split: Text | None = None
    quotes: Annotated[bool, Give("give true, or false where quotes are text")] = True
    metric: Annotated[Metric, Give(f"give one of {', '.join(get_args(Metric))}")] = "ndcg@10"
    on_empty: Annotated[Literal["skip", "refuse"] | None, Give("give skip or refuse")] = None
    """Treatment of training rows without words: `skip`, `refuse`, or None for the default of the kind of file."""
    deduplicate: Annotated[bool, Give("give true, or false")] = False
    """True if a training row that equals an earlier one is left out."""


def user_file(value: Any, role: Role, folder: Path, label: str) -> tuple[UserFile | None, list[str]]:
    """Returns the file that a path or mapping means, with paths relative to `folder`, and problems; reads no file."""
    raw = {"file": value} if isinstance(value, str) else value
    if not isinstance(raw, dict):
        return None, [f"wrong type: {label}={brief(value)}; give a name, a path or {{file: PATH, columns: {{...}}}}"]
    shape, problems = read(FileShape, raw, f"{label}.")
    if problems:
        return None, problems
    if "\0" in shape.file:
        return None, [f"wrong path: {label}.file={brief(shape.file)} has a null byte; give a path, or hf:NAME"]
    name = shape.name or make_name(shape.file)
    problems = _name_problems(name, role, label, shape.name is not None)
    if role == "corpus" and shape.kind is not None:
        line = f"wrong key: {label}.kind={shape.kind} of training text"
        problems.append(f"{line}; leave it out, its columns say what it is")
    if role != "corpus" and (shape.on_empty or shape.deduplicate):
        option = f"on_empty={shape.on_empty}" if shape.on_empty else "deduplicate=true"
        problems.append(f"wrong key: {label}.{option} of a set; leave it out, a set is scored as it stands")
    place = shape.file if shape.file.startswith(HUB_PREFIX) else str((folder / Path(shape.file).expanduser()).resolve())
    kind: Kind | None = shape.kind
    columns = tuple(sorted(shape.columns.items()))
    file = UserFile(
        name=name, file=place, role=role, kind=kind, columns=columns, split=shape.split, quotes=shape.quotes,
        metric=shape.metric, on_empty=shape.on_empty, deduplicate=shape.deduplicate,
    )  # fmt: skip
    return file, problems


def _name_problems(name: str, role: Role, label: str, has_name: bool) -> list[str]:
    advice = "give another" if has_name else "give a `name:`"
    if not FILE_NAME.fullmatch(name):
        return [f"wrong name: {label}.name={brief(name)}; {advice} of letters, digits and _ . @ + -, at most 64"]
    shipped = (
        {corpus.partition(":")[0] for corpus in CORPUS_NAMES}
        if role == "corpus"
        else {*registry.names(), BEST_CHECKPOINT}
    )
    if name in shipped:
        kind = "corpus" if role == "corpus" else "suite"
        return [f"name of a shipped {kind}: {label}.name={name}; {advice} that is no {kind} of ours"]
    return []


def is_reference(value: Any) -> bool:
    """Tells whether a setting's value means a file rather than a name."""
    return isinstance(value, dict) or (isinstance(value, str) and (value.startswith("{") or is_file_name(value)))


def file_of(value: Any) -> str | None:
    """Returns the path of a reference as written; None where it has no path or names a data set of the hub."""
    reference = mapping(value, "file")
    file = reference.get("file") if isinstance(reference, dict) else reference
    return file if isinstance(file, str) and not file.startswith(HUB_PREFIX) else None


def read_reference(key: str, value: Any, folder: Path, label: str) -> tuple[Any, list[UserFile], list[str]]:
    """Returns a setting's value with the name in place of a file, the file, and every problem."""
    if key not in ROLES or not is_reference(value):
        return value, [], []
    file, problems = user_file(mapping(value, label), ROLES[key], folder, label)
    return (file.name if file else "?"), [file] if file else [], problems


def read_settings(settings: Json, folder: Path | None) -> tuple[Json, tuple[UserFile, ...]]:
    """Returns command-line settings with names in place of files, and the files; raises ConfigError with every problem.

    Relative paths count from `folder` and become absolute; with None all paths are absolute already.
    """
    values, files, problems = dict(settings), list[UserFile](), list[str]()
    folder, settled = folder or Path("/"), folder is None
    for key, value in settings.items():
        value = value if settled else absolute(key, value, folder)
        values[key], more, lines = read_reference(key, value, folder, key)
        files, problems = files + more, problems + lines
    if problems:
        raise ConfigError([f"--set: {line}" for line in problems])
    return values, tuple(files)


def read_suites(parts: list[str], folder: Path) -> tuple[list[str], tuple[UserFile, ...]]:
    """Returns the names of a command line's suites, and the files among them; raises ConfigError with every problem.

    Each part is several suites with commas between, or one mapping. A path with commas is a part of its own, or stands
    between double quotes.
    """
    names, files, problems = list[str](), list[UserFile](), list[str]()
    for part in parts:
        alone = part.strip().startswith("{") or (folder / Path(part).expanduser()).is_file()
        words = [part] if alone else [word.strip() for word in next(csv.reader([part], skipinitialspace=True), [""])]
        for word in words:
            if not is_reference(word):
                names.append(word)
                continue
            file, lines = user_file(mapping(word, "suite"), "test", folder, "suite")
            problems += lines
            if file:
                names.append(file.name)
                files.append(file)
    if problems:
        raise ConfigError(problems)
    return names, tuple(files)


def mapping(value: Any, label: str) -> Any:
    """Returns a mapping that was written as text; anything else unchanged."""
    if isinstance(value, str) and value.strip().startswith("{"):
        return parse_yaml(f"value: {value}", label)["value"]
    return value
