"""Files of a user's own in settings and spaces: each gets a name, and its path is kept separately and made absolute.

A file is a path or `{file: ..., columns: {...}}`, on a command line or in a space. Relative paths count from the
folder of the space, or of the shell.
"""

import csv
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from cse_train import fields, methods
from cse_train.evaluate.suites import registry
from cse_train.fields import ConfigError, Json
from cse_train.plugins.options import Options
from cse_train.text.corpora import CORPUS_NAMES
from cse_train.user_files import (
    FILE_NAME,
    HUB_PREFIX,
    Metric,
    Role,
    UserFile,
    absolute_place,
    is_file_name,
    make_name,
    map_files,
)
from search_spaces.domains import DOMAIN_WORDS
from search_spaces.file_shape import CLOSED, Give, Text, brief, read
from search_spaces.strict_yaml import Written, parse_yaml
from search_spaces.trainer import list_settings, place_trainer

COLUMNS_ADVICE = Give("give a mapping such as {sentence1: NAME, sentence2: NAME, rating: NAME}")
ENCODER = "train.encoder"
ROLES: Mapping[str, Role] = {"train.dev": "dev", "train.corpus": "corpus"}
"""Settings that may name a file -> the file's role."""
BEST_CHECKPOINT = "best"
"""Name of the dev score's column, whatever the dev set is called."""
ANY_TEXT = "\0"
"""Text that fits an option which takes any text, and no option which takes one of several words."""


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
    problems = _name_problems(name, role, label, "give another" if shape.name else "give a `name:`")
    if role == "corpus" and shape.kind is not None:
        line = f"wrong key: {label}.kind={shape.kind} of training text"
        problems.append(f"{line}; leave it out, its columns say what it is")
    if role != "corpus" and (shape.on_empty or shape.deduplicate):
        option = f"on_empty={shape.on_empty}" if shape.on_empty else "deduplicate=true"
        problems.append(f"wrong key: {label}.{option} of a set; leave it out, a set is scored as it stands")
    columns = tuple(sorted(shape.columns.items()))
    place = {"name": name, "file": _place(shape.file, folder), "role": role, "columns": columns}
    return UserFile(**vars(shape) | place), problems


def _name_problems(name: str, role: Role, label: str, advice: str) -> list[str]:
    if not FILE_NAME.fullmatch(name):
        return [f"wrong name: {label}.name={brief(name)}; {advice} of letters, digits and _ . @ + -, at most 64"]
    kind, shipped = "suite", {*registry.names(), BEST_CHECKPOINT}
    if role == "corpus":
        kind, shipped = "corpus", {corpus.partition(":")[0] for corpus in CORPUS_NAMES}
    return [f"name of a shipped {kind}: {label}.name={name}; {advice} that is no {kind} of ours"] * (name in shipped)


def is_reference(value: Any) -> bool:
    """Tells whether a setting's value means a file rather than a name."""
    return isinstance(value, dict) or (isinstance(value, str) and (value.startswith("{") or is_file_name(value)))


def file_of(value: Any) -> str | None:
    """Returns the path of a reference as written; None where it has no path or names a data set of the hub."""
    reference = mapping(value, "file")
    file = reference.get("file") if isinstance(reference, dict) else reference
    return file if isinstance(file, str) and not file.startswith(HUB_PREFIX) else None


def mapping(value: Any, label: str) -> Any:
    """Returns a mapping that was written as text; anything else unchanged."""
    if isinstance(value, str) and value.strip().startswith("{"):
        return parse_yaml(f"value: {value}", label)["value"]
    return value


@dataclass
class CollectedFiles:
    """A space's YAML with names in place of files, the files, and problems."""

    raw: Written
    folder: Path
    """Folder from which relative paths count."""
    files: list[UserFile] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def name(self, key: str, value: Any, label: str) -> Any:
        """Returns a setting's value with a name in place of a file; records the file and its problems."""
        if key not in ROLES or not is_reference(value):
            return value
        return self.add(mapping(value, label), ROLES[key], label) or "?"

    def add(self, value: Any, role: Role, label: str) -> str | None:
        """Records a file and its problems, and returns its name; None for a file that cannot be used."""
        file, problems = user_file(value, role, self.folder, label)
        self.files += [file] if file else []
        self.problems += problems
        return file.name if file else None

    def block(self, name: str) -> Json:
        """Returns the mapping under a key of the file; an empty one where there is none."""
        value = self.raw.get(name)
        return value if isinstance(value, dict) else {}


def read_settings(settings: Json, folder: Path | None) -> tuple[Mapping[str, Any], tuple[UserFile, ...]]:
    """Returns command-line settings with names in place of files, and the files; raises ConfigError with every problem.

    Relative paths count from `folder` and become absolute; with None all paths are absolute already.
    """
    collected = CollectedFiles({}, folder or Path("/"))
    for key, value in settings.items():
        collected.raw[key] = collected.name(key, absolute(key, value, folder) if folder else value, key)
    if collected.problems:
        raise ConfigError([f"--set: {line}" for line in collected.problems])
    return collected.raw, tuple(collected.files)


def read_suites(parts: list[str], folder: Path) -> tuple[list[str], tuple[UserFile, ...]]:
    """Returns the names of a command line's suites, and the files among them; raises ConfigError with every problem.

    Each part is several suites with commas between, or one mapping. A path with commas is a part of its own, or stands
    between double quotes.
    """
    collected, names = CollectedFiles({}, folder), list[str]()
    for part in parts:
        alone = part.strip().startswith("{") or (folder / Path(part).expanduser()).is_file()
        words = [part] if alone else [word.strip() for word in next(csv.reader([part], skipinitialspace=True), [""])]
        for word in words:
            names.append(collected.add(mapping(word, "suite"), "test", "suite") or "" if is_reference(word) else word)
    if collected.problems:
        raise ConfigError(collected.problems)
    return names, tuple(collected.files)


SHORT_KEYS = {"dev": "train.dev", "corpus": "train.corpus"}
"""Short key of a space file -> setting that it gives."""


def collect(raw: Json, folder: Path) -> CollectedFiles:
    """Collects a space's files; returns its YAML with names in their place, the files, and every problem.

    Files are named under `dev:`, `corpus:` and `evaluate:`, and wherever a setting may be. `dev:` and `corpus:` become
    settings in `set:`.
    """
    collected = CollectedFiles(dict(raw), folder)
    raw, name, problems = collected.raw, collected.name, collected.problems
    for short, key in SHORT_KEYS.items():
        if short not in raw:
            continue
        value = raw.pop(short)
        if key in collected.block("set") or key in collected.block("space"):
            problems.append(f"key set twice: {short}={brief(value)} gives {key}, which the file sets too; keep one")
        elif not isinstance(value, str | dict):
            problems.append(f"wrong type: {short}={brief(value)}; give a name, a path or {{file: PATH}}")
        elif isinstance(raw.get("set"), dict) or not raw.get("set"):
            raw["set"] = {**collected.block("set"), key: name(key, value, short)}
    if settings := collected.block("set"):
        raw["set"] = {key: name(key, value, f"set.{key}") for key, value in settings.items()}
    if axes := dict(collected.block("space")):
        raw["space"] = axes
        for key in ROLES:
            if isinstance(domain := axes.get(key), dict):
                axes[key] = {
                    word: [name(key, value, f"space.{key}") for value in values]
                    if word in ("grid", "choice") and isinstance(values, list)
                    else values
                    for word, values in domain.items()
                }
    if isinstance(cells := raw.get("cells"), list):
        raw["cells"] = [
            {**cell, "set": {key: name(key, value, f"cells.{key}") for key, value in cell["set"].items()}}
            if isinstance(cell, dict) and isinstance(cell.get("set"), dict)
            else cell
            for cell in cells
        ]
    if isinstance(suites := raw.get("evaluate"), list):
        names = [collected.add(suite, "test", "evaluate") if is_reference(suite) else suite for suite in suites]
        raw["evaluate"] = [suite for suite in names if suite is not None]
    problems += _clashes(collected)
    return collected


def _clashes(collected: CollectedFiles) -> list[str]:
    """Returns problems: two sets of one name, a file as dev and test set, a test set that picks checkpoints."""
    problems = two_of_one_name(collected.files)
    tests = {file.file: file.name for file in collected.files if file.role == "test"}
    dev_sets = [file for file in collected.files if file.role == "dev"]
    problems += [
        f"dev set as test set: {file.file} is {file.name} and {tests[file.file]}; hold other data out for the test"
        for file in dev_sets
        if file.file in tests
    ]
    names = set(tests.values()) - {file.name for file in dev_sets}
    for key, value in list_settings(collected.raw):
        lists = [each for each in value.values() if isinstance(each, list)] if isinstance(value, dict) else [[value]]
        problems += [
            f"test set as dev: train.dev={name}, which `evaluate:` takes as a test set; give another file as `dev:`"
            for name in itertools.chain(*lists)
            if key == SHORT_KEYS["dev"] and isinstance(name, str) and name in names
        ]
    return list(dict.fromkeys(problems))


def two_of_one_name(files: list[UserFile]) -> list[str]:
    """Returns a line for each name that two files have, unless they are one file as dev and as test set."""
    last = map_files(files)
    pairs = [(file, last[file.role == "corpus", file.name]) for file in files]
    return [
        f"two sets of one name: name={file.name} is {file.file} and {other.file}; give one another `name:`"
        for file, other in dict.fromkeys(pairs)
        if file != other and not (file.file == other.file and file.role != other.role)
    ]


def absolute(key: str, value: Any, folder: Path) -> Any:
    """Returns a setting's value with a path relative to `folder` made absolute; names and other settings are unchanged.

    Settings that may name a file or folder are `train.encoder`, and options whose files a method hashes (its `inputs`).
    """
    if not isinstance(value, str) or not value or "\0" in value:
        return value
    place = absolute_place(value, folder)
    may_be_place = key == ENCODER or (
        key.startswith("method.") and any(_reads(name, key.removeprefix("method.")) for name in methods.names())
    )
    return place if place != value and may_be_place else value


def _reads(method: str, option: str) -> bool:
    try:
        config = methods.config_class(method)
    except ConfigError:  # a plug-in that cannot be imported; what names it says so
        return False
    annotation = fields.hints(config).get(option) if config.inputs is not Options.inputs else None
    return annotation is not None and fields.fits(annotation, ANY_TEXT)


def absolute_models(raw: Any, folder: Path) -> Any:
    """Returns YAML content with absolute paths of encoders and of files that methods read, in any setting."""
    if isinstance(raw, list):
        return [absolute_models(value, folder) for value in raw]
    if not isinstance(raw, Mapping):
        return raw
    content = {}
    for key, value in raw.items():
        if key == "evaluated" and isinstance(value, Mapping):
            content[key] = {name: absolute(ENCODER, v, folder) if name == "encoder" else v for name, v in value.items()}
        elif key == ENCODER or key.startswith("method."):
            content[key] = _absolute_values(key, value, folder)
        else:
            content[key] = absolute_models(value, folder)
    return content


def _absolute_values(key: str, value: Any, folder: Path) -> Any:
    """Makes paths under a setting absolute, in a value, a domain with its condition, or a mapping of substitutions."""
    if isinstance(value, list):
        return [_absolute_values(key, each, folder) for each in value]
    if not isinstance(value, Mapping):
        return absolute(key, value, folder)
    return {
        name if name in (*DOMAIN_WORDS, "when") else absolute(key, name, folder): absolute_models(each, folder)
        if name == "when"
        else _absolute_values(key, each, folder)
        for name, each in value.items()
    }


def absolute_paths(raw: Json, folder: Path) -> Json:
    """Returns a space's YAML with every path absolute, so that it means the same wherever it is read again."""
    content = {key: _absolute_files(key, value, folder) for key, value in absolute_models(raw, folder).items()}
    content |= {key: _absolute_file(content[key], folder) for key in ("dev", "corpus", "evaluate") if key in content}
    if isinstance(sources := content.get("plugins"), list):
        content["plugins"] = [  # a folder or file; a module stays
            absolute_place(source, folder) if isinstance(source, str) and "\0" not in source else source
            for source in sources
        ]
    if "trainer" in content:
        content["trainer"] = place_trainer(content["trainer"], folder)
    if isinstance(profile := content.get("profile"), str):
        content["profile"] = find_beside(profile, folder)
    return content


def find_beside(profile: str, folder: Path) -> str:
    """Returns the path of a profile's file that lies beside a space; a shipped profile's name is unchanged."""
    place = folder / Path(profile).expanduser()
    return str(place) if place.suffix and place.is_file() else profile


def absolute_settings(settings: Json, folder: Path) -> Mapping[str, Any]:
    """Returns command-line settings with absolute paths, also of files of text and sets."""
    return {key: _absolute_files(key, absolute(key, value, folder), folder) for key, value in settings.items()}


def _absolute_files(key: str, value: Any, folder: Path) -> Any:
    """Makes paths of files of text and sets absolute, wherever a setting may be."""
    if key in ROLES:
        return _absolute_file(value, folder)
    if isinstance(value, Mapping):
        return {name: _absolute_files(name, each, folder) for name, each in value.items()}
    return [_absolute_files("", each, folder) for each in value] if isinstance(value, list) else value


def _absolute_file(value: Any, folder: Path) -> Any:
    """Makes the paths of one file, or of a list or mapping of files, absolute."""
    if isinstance(value, Mapping):
        if isinstance(path := value.get("file"), str):
            return {**value, "file": _place(path, folder)}
        return {name: _absolute_file(each, folder) for name, each in value.items()}
    if isinstance(value, list):
        return [_absolute_file(each, folder) for each in value]
    if not isinstance(value, str) or not is_reference(value):
        return value
    return _absolute_file(mapping(value, "file"), folder) if value.startswith("{") else _place(value, folder)


def _place(file: str, folder: Path) -> str:
    if file.startswith(HUB_PREFIX) or "\0" in file:
        return file
    return str((folder / Path(file).expanduser()).resolve())
