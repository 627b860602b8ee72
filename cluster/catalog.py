"""Where the shipped YAML files lie, and which file an ID or a path means."""

import importlib.resources
from pathlib import Path

from cse_train import fields
from cse_train.fields import ConfigError


def shipped() -> Path:
    """The `search_spaces` folder beside this package, in a checkout and in an installed wheel alike.

    It is found from `cluster`, not by its own name: a folder of the user called `search_spaces` must not hide it.
    """
    return Path(str(importlib.resources.files("cluster"))).parent / "search_spaces"


def catalog() -> dict[str, Path]:
    """ID -> file of every shipped space: `E7` for papers/E7_esimcse_dup_rate.yaml, `simcse` for simcse.yaml."""
    papers = {path.stem.split("_")[0]: path for path in sorted((shipped() / "papers").glob("*.yaml"))}
    return papers | {path.stem: path for path in sorted(shipped().glob("*.yaml"))}


def find_space(name: str) -> Path:
    """The file that a path or an ID (any case) means; ConfigError with the nearest ID."""
    path = Path(name)
    if path.is_file():
        return path
    by_lower = {known.lower(): file for known, file in catalog().items()}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    if path.suffix or "/" in name:
        raise ConfigError([f"no such file: space={name}; give a YAML file or an ID such as E7"])
    raise ConfigError([f"unknown space: space={name}; {fields.nearest(name, catalog())}"])


def find_profile(name: str) -> Path:
    """The file of a shipped profile's name or of a path."""
    path = Path(name)
    if path.is_file():
        return path
    known = {file.stem: file for file in (shipped() / "profiles").glob("*.yaml")}
    if name not in known:
        raise ConfigError([f"unknown profile: profile={name}; {fields.nearest(name, known)}, or a YAML file"])
    return known[name]


def files_in(folder: Path) -> list[Path]:
    """Every space file under a folder, profiles excepted; ConfigError when there is none."""
    files = [p for p in sorted(folder.rglob("*.yaml")) if p.parent.name != "profiles"]
    if not files:
        raise ConfigError([f"no space files: folder={folder}; give a folder that holds *.yaml"])
    return files
