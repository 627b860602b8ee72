"""Collects the files that a space's YAML names, under `dev:`, `corpus:`, `evaluate:` and wherever a setting may be."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cse_train.fields import Json
from cse_train.user_files import UserFile, map_files
from search_spaces.file_shape import brief
from search_spaces.strict_yaml import Written
from search_spaces.user_data.references import ROLES, is_reference, read_reference, user_file

SHORT_KEYS = {"dev": "train.dev", "corpus": "train.corpus"}
"""Short key of a space file -> setting that it gives."""


@dataclass
class CollectedFiles:
    """A space's YAML with names in place of files, the files, and problems."""

    raw: Written
    files: list[UserFile] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def name(self, key: str, value: Any, folder: Path, place: str) -> Any:
        """Returns a setting's value with a name in place of a file; records the file and its problems."""
        value, files, problems = read_reference(key, value, folder, place)
        self.files += files
        self.problems += problems
        return value


def collect(raw: Json, folder: Path) -> CollectedFiles:
    """Collects a space's files; returns its YAML with names in their place, the files, and every problem.

    `dev:` and `corpus:` become settings in `set:`.
    """
    collected = CollectedFiles(dict(raw))
    _short(collected, folder)
    _settings(collected, folder)
    _axes(collected, folder)
    _cells(collected, folder)
    _evaluate(collected, folder)
    collected.problems += _clashes(collected)
    return collected


def _short(collected: CollectedFiles, folder: Path) -> None:
    for short, key in SHORT_KEYS.items():
        if short not in collected.raw:
            continue
        value = collected.raw.pop(short)
        if any(
            key in (collected.raw.get(block) or {}) for block in ("set", "space") if _is_block(collected.raw, block)
        ):
            collected.problems.append(
                f"key set twice: {short}={brief(value)} gives {key}, which the file sets too; keep one"
            )
        elif not isinstance(value, str | dict):
            collected.problems.append(f"wrong type: {short}={brief(value)}; give a name, a path or {{file: PATH}}")
        elif _is_block(collected.raw, "set") or not collected.raw.get("set"):
            reference = collected.name(key, value, folder, short)
            collected.raw["set"] = {**(collected.raw.get("set") or {}), key: reference}


def _settings(collected: CollectedFiles, folder: Path) -> None:
    if _is_block(collected.raw, "set"):
        settings = {
            key: collected.name(key, value, folder, f"set.{key}") for key, value in collected.raw["set"].items()
        }
        collected.raw["set"] = settings


def _axes(collected: CollectedFiles, folder: Path) -> None:
    if not _is_block(collected.raw, "space"):
        return
    collected.raw["space"] = axes = dict(collected.raw["space"])
    for key in ROLES:
        if not isinstance(axes.get(key), dict):
            continue
        axes[key] = {
            word: [collected.name(key, value, folder, f"space.{key}") for value in values]
            if word in ("grid", "choice") and isinstance(values, list)
            else values
            for word, values in axes[key].items()
        }


def _cells(collected: CollectedFiles, folder: Path) -> None:
    cells = collected.raw.get("cells")
    if not isinstance(cells, list):
        return
    collected.raw["cells"] = [
        {**cell, "set": {key: collected.name(key, value, folder, f"cells.{key}") for key, value in cell["set"].items()}}
        if isinstance(cell, dict) and isinstance(cell.get("set"), dict)
        else cell
        for cell in cells
    ]


def _evaluate(collected: CollectedFiles, folder: Path) -> None:
    suites = collected.raw.get("evaluate")
    if not isinstance(suites, list):
        return
    names = []
    for suite in suites:
        file, problems = user_file(suite, "test", folder, "evaluate") if is_reference(suite) else (None, [])
        collected.problems += problems
        collected.files += [file] if file else []
        if not (is_reference(suite) and file is None):
            names.append(file.name if file else suite)
    collected.raw["evaluate"] = names


def _clashes(collected: CollectedFiles) -> list[str]:
    """Returns problems: two sets of one name, a file as dev and test set, a test set that picks checkpoints."""
    problems = two_of_one_name(collected.files)
    tests = {file.file: file.name for file in collected.files if file.role == "test"}
    problems += [
        f"dev set as test set: {file.file} is {file.name} and {tests[file.file]}; hold other data out for the test"
        for file in collected.files
        if file.role == "dev" and file.file in tests
    ]
    names = set(tests.values()) - {file.name for file in collected.files if file.role == "dev"}
    problems += [
        f"test set as dev: train.dev={value}, which `evaluate:` takes as a test set; give another file as `dev:`"
        for value in _dev_names(collected.raw)
        if isinstance(value, str) and value in names
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


def _dev_names(raw: Json) -> Iterator[Any]:
    key = SHORT_KEYS["dev"]
    if _is_block(raw, "set"):
        yield raw["set"].get(key)
    axis = raw["space"].get(key) if _is_block(raw, "space") else None
    if isinstance(axis, dict):
        yield from (value for values in axis.values() if isinstance(values, list) for value in values)
    for cell in raw.get("cells") or [] if isinstance(raw.get("cells"), list) else []:
        if isinstance(cell, dict) and isinstance(cell.get("set"), dict):
            yield cell["set"].get(key)


def _is_block(raw: Json, name: str) -> bool:
    return isinstance(raw.get(name), dict)
