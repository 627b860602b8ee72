"""Packs a user's own files (spaces with data, a profile, plug-ins) as text into a job's command line.

`python -m cluster.launch.files FOLDER TEXT WORDS...` writes them on the cluster and runs `cse WORDS` there.
"""

import base64
import binascii
import json
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.runtime.code_version import package_parents
from cse_train.fields import ConfigError
from cse_train.plugins import registry
from cse_train.plugins.registry import Plugin
from cse_train.plugins.snapshot import path_of
from search_spaces.catalog import ALL, catalog, find_folder, find_profile, load_spaces
from search_spaces.profiles import load_profile
from search_spaces.space import Space
from search_spaces.strict_yaml import read_yaml
from search_spaces.trainer import BLOCK, place_trainer
from search_spaces.user_data import absolute_models

MOST_FILES = 100_000
"""Maximum number of characters of all files, packed; Linux takes 131,072 in one word of a command line."""
LARGEST_UPLOAD = 20 * MOST_FILES
"""Maximum size in bytes of a data file to be packed at all; compression shrinks text to about a third."""


@dataclass(frozen=True)
class LaunchFiles:
    """Arguments and files of a command as the cluster receives them."""

    ids: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Options `--profile` and `--plugins` for files of the user's own."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Relative path on the cluster -> text of the file."""


def bring_files(ids: Sequence[str], profile: str | None, plugins: Sequence[str]) -> LaunchFiles:
    """Packs the spaces of IDs, files and folders, a profile and plug-ins; raises ConfigError for what cannot travel.

    Texts and tables that lie beside a space travel with it where there is room for all; other data of a space are named
    by their absolute paths, which the nodes must see.
    """
    sent = _gather(ids, profile, plugins, data=True)
    if len(pack_files(sent.files)) > MOST_FILES:
        sent = _gather(ids, profile, plugins, data=False)
    if len(pack_files(sent.files)) > MOST_FILES:
        size = f"files={len(pack_files(sent.files))} characters packed, {MOST_FILES} at most"
        line = f"too much to bring: {len(sent.files)} {size}"
        raise ConfigError([f"{line}; install the methods on the cluster as a package (docs/your_method.md)"])
    return sent


def _gather(ids: Sequence[str], profile: str | None, plugins: Sequence[str], *, data: bool) -> LaunchFiles:
    files: dict[str, str] = {}
    names: list[str] = []
    for source in ids:
        # An ID stays as it is, a user's files are named by where the cluster has them.
        if source.lower() in {name.lower() for name in catalog()} | {ALL} and not Path(source).is_file():
            names.append(source)
        else:
            names += [_space(space, files, data) for space in load_spaces(source)]
    options: list[str] = []
    if profile is not None and find_profile(profile).parent != find_folder() / "profiles":
        place = f"profiles/{Path(profile).name}"
        content = load_profile(profile).written
        files[place] = Path(profile).read_text(encoding="utf8") if content is None else json.dumps(content, indent=1)
        options += ["--profile", place]
    for plugin in registry.use(plugins):
        options += ["--plugins", _plugin(plugin, files)]
    return LaunchFiles(tuple(names), tuple(options), files)


def _space(space: Space, files: dict[str, str], data: bool) -> str:
    folder, raw = space.file.resolve().parent, read_yaml(space.file)
    sent = absolute_models(raw, folder)  # encoders and the like do not travel
    if BLOCK in raw and place_trainer(raw[BLOCK], folder) != raw[BLOCK]:
        line = f"a trainer does not travel: {space.file} names its program or data by relative paths"
        raise ConfigError([f"{line}; give absolute ones, which every node sees"])
    stay = []
    for path in filter(None, (file.path for file in space.files)):
        text = _text(path, folder) if data else None
        if text is None:
            stay.append(path)
        else:
            _add(files, f"spaces/{path.relative_to(folder)}", text, path)
    if stay:
        sent = _rename_paths(sent, folder, stay)
    if space.plugins:
        plugins = registry.use(space.plugins, folder)
        sent = {**sent, "plugins": [f"../{_plugin(plugin, files)}" for plugin in plugins]}
    place = f"spaces/{space.file.name}"
    text = space.file.read_text(encoding="utf8") if sent == raw else json.dumps(sent, indent=1)
    _add(files, place, text, space.file)
    return place


def _add(files: dict[str, str], place: str, text: str, file: Path) -> None:
    if files.setdefault(place, text) != text:
        raise ConfigError([f"two files of one name: file={file}; rename one, they travel into one folder"])


def _text(path: Path, folder: Path) -> str | None:
    """Returns the text of a file below `folder`; None for a file elsewhere, one that is not text, and a large one."""
    if not path.is_relative_to(folder) or not path.is_file() or path.stat().st_size > LARGEST_UPLOAD:
        return None
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        return None


def _rename_paths(raw: Any, folder: Path, stay: Sequence[Path]) -> Any:
    """Returns a space's YAML in which every spelling of the paths `stay` is made absolute."""
    if isinstance(raw, Mapping):
        return {key: _rename_paths(value, folder, stay) for key, value in raw.items()}
    if isinstance(raw, list):
        return [_rename_paths(value, folder, stay) for value in raw]
    path = (folder / Path(raw).expanduser()).resolve() if isinstance(raw, str) else None
    return str(path) if path in stay else raw


def _plugin(plugin: Plugin, files: dict[str, str]) -> str:
    """Adds a plug-in, with all that it imports of the user's code, to `files`; returns its path on the cluster."""
    modules = plugin.files()
    places = {module: f"plugins/{path_of(module, file)}" for module, file in modules.items()}
    files.update({places[module]: file.read_text(encoding="utf8") for module, file in modules.items()})
    return places[plugin.module]


def pack_files(files: Mapping[str, str]) -> str:
    """Packs files into one word of letters, digits, `_`, `-` and `=`; equal files give equal words."""
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(files, sort_keys=True).encode(), 9)).decode()


def unpack_files(folder: Path, text: str) -> Path:
    """Writes packed files below `folder`, in a subfolder named by their checksum, and returns that subfolder."""
    try:
        files = json.loads(zlib.decompress(base64.urlsafe_b64decode(text)))
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"no packed files: {error}") from error
    place = folder / f"{binascii.crc32(text.encode()):08x}"
    for name, content in files.items():
        path = place / name
        if not path.resolve().is_relative_to(place.resolve()):
            raise ValueError(f"no place for a file: {name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf8")
    return place


def main(folder: str, text: str, *words: str) -> None:
    """Unpacks the files and replaces this process by `cse WORDS` in their folder."""
    place = unpack_files(Path(folder), text)
    before = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, package_parents()), *before])
    os.chdir(place)
    os.execv(sys.executable, [sys.executable, "-m", "cse", *words])


if __name__ == "__main__":
    main(*sys.argv[1:])
