"""Finds and loads spaces and profiles, shipped ones by ID or name and a user's own by path."""

from collections.abc import Sequence
from pathlib import Path

from cse_train import fields
from cse_train.fields import ConfigError
from search_spaces.parse import parse_file
from search_spaces.space import Space


def find_folder() -> Path:
    """Returns the folder of this package, which holds the YAML files, in a checkout or an installed wheel."""
    return Path(__file__).resolve().parent


def catalog() -> dict[str, Path]:
    """Returns ID -> file of every shipped space.

    `E7` for papers/E7_esimcse_dup_rate.yaml, `simcse` for methods/simcse.yaml.
    """
    papers = {path.stem.split("_")[0]: path for path in sorted((find_folder() / "papers").glob("*.yaml"))}
    others = {path.stem: path for path in files_in(find_folder()) if path.parent.name != "papers"}
    return papers | dict(sorted(others.items()))


def _find_space(name: str) -> Path:
    """Returns the file of a space's path or ID (in any case); raises ConfigError with the nearest ID."""
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
    """Returns a space's name for commands: the ID of a shipped file, else the path."""
    shipped = {path.resolve(): name for name, path in catalog().items()}
    return shipped.get(file.resolve(), str(file))


def profiles() -> dict[str, Path]:
    """Returns name -> file of every shipped profile."""
    return {file.stem: file for file in (find_folder() / "profiles").glob("*.yaml")}


HEIRS = {"wiki_small": "small", "wiki_tiny": "tiny"}
"""Profile that is shipped no more -> the one that stands in its place."""


def former() -> dict[str, Path]:
    """Returns name -> file of profiles and spaces as they were shipped once, by which old sweeps are read.

    Ledgers record a shipped profile or space by its name alone. Nothing here is planned or trained any more.
    """
    return {file.stem: file for file in (find_folder() / "former").glob("*.yaml")}


def find_gone(setting: str, profile: str) -> str | None:
    """Returns a line for a setting that names a profile which is shipped no more; None for any other name."""
    if profile not in HEIRS:
        return None
    return f"gone profile: {setting}={profile} is shipped no more; give {HEIRS[profile]}, which stands in its place"


def find_profile(name: str) -> Path:
    """Returns the file of a profile's name or path; raises ConfigError with the nearest name."""
    path = Path(name)
    if path.is_file():
        return path
    if line := find_gone("profile", name):
        raise ConfigError([line])
    if name not in (files := profiles()):
        raise ConfigError([f"unknown profile: profile={name}; {fields.nearest(name, files)}, or a YAML file"])
    return files[name]


def files_in(folder: Path) -> list[Path]:
    """Returns every space file below a folder, leaving out profiles; raises ConfigError when there is none."""
    found = (p for p in folder.rglob("*.yaml") if p.parent.name != "profiles" and p.parent != find_folder() / "former")
    files = sorted(found, key=lambda p: fields.natural(str(p)))
    if not files:
        raise ConfigError([f"no space files: folder={folder}; give a folder that holds *.yaml"])
    return files


ALL = "all"


def load_all(names: Sequence[str | Path]) -> list[Space]:
    """Loads all named spaces, each file once, in order; raises ConfigError with the problems of all of them."""
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
    """Loads the space of a file or a shipped ID; raises ConfigError with every problem, one line each."""
    return parse_file(_find_space(str(name)))


def load_spaces(name: str | Path) -> list[Space]:
    """Loads one space, or every space of a folder; raises ConfigError with the problems of all files."""
    return load_all(files_in(Path(name))) if Path(name).is_dir() else [load_space(name)]
