"""Where the shipped YAML files lie, and which file an ID or a path means."""

from collections.abc import Sequence
from pathlib import Path

from cse_train import fields
from cse_train.fields import ConfigError
from search_spaces.parse import parse_file
from search_spaces.space import Space


def find_folder() -> Path:
    """The folder of this package, which holds the YAML files, in a checkout and in an installed wheel alike."""
    return Path(__file__).resolve().parent


def catalog() -> dict[str, Path]:
    """ID -> file of every shipped space: `E7` for papers/E7_esimcse_dup_rate.yaml, `simcse` for methods/simcse.yaml."""
    papers = {path.stem.split("_")[0]: path for path in sorted((find_folder() / "papers").glob("*.yaml"))}
    others = {path.stem: path for path in files_in(find_folder()) if path.parent.name != "papers"}
    return papers | dict(sorted(others.items()))


def find_space(name: str) -> Path:
    """The file that a path or an ID (any case) means; ConfigError with the nearest ID."""
    path = Path(name)
    if path.is_file():
        return path
    by_lower = {space.lower(): file for space, file in catalog().items()}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    if path.suffix or "/" in name:
        raise ConfigError([f"no such file: space={name}; give a YAML file or an ID such as E7"])
    raise ConfigError([f"unknown space: space={name}; {fields.nearest(name, catalog())}"])


def space_name(file: Path) -> str:
    """A space as a command takes it: the ID of a shipped file, else the path."""
    shipped = {path.resolve(): name for name, path in catalog().items()}
    return shipped.get(file.resolve(), str(file))


def profiles() -> dict[str, Path]:
    """Name -> file of every shipped profile."""
    return {file.stem: file for file in (find_folder() / "profiles").glob("*.yaml")}


def find_profile(name: str) -> Path:
    """The file of a shipped profile's name or of a path."""
    path = Path(name)
    if path.is_file():
        return path
    if name not in (files := profiles()):
        raise ConfigError([f"unknown profile: profile={name}; {fields.nearest(name, files)}, or a YAML file"])
    return files[name]


def files_in(folder: Path) -> list[Path]:
    """Every space file under a folder, profiles excepted; ConfigError when there is none."""
    files = sorted(
        (p for p in folder.rglob("*.yaml") if p.parent.name != "profiles"), key=lambda p: fields.natural(str(p))
    )
    if not files:
        raise ConfigError([f"no space files: folder={folder}; give a folder that holds *.yaml"])
    return files


ALL = "all"


def load_all(names: Sequence[str | Path]) -> list[Space]:
    """Every space named, each file once, in order; ConfigError with the problems of all of them."""
    spaces: dict[Path, Space] = {}
    problems: list[str] = []
    for name in names:
        try:
            loaded = load_spaces(find_folder() / "papers" if str(name).lower() == ALL else name)
        except ConfigError as error:
            problems += error.problems
        else:
            spaces |= {space.file.resolve(): space for space in loaded}
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return list(spaces.values())


def load_space(name: str | Path) -> Space:
    """The space that a file or a shipped ID holds; ConfigError lists every problem, one line each."""
    return parse_file(find_space(str(name)))


def load_spaces(name: str | Path) -> list[Space]:
    """One space, or every space of a folder; the problems of all files at once."""
    return load_all(files_in(Path(name))) if Path(name).is_dir() else [load_space(name)]
