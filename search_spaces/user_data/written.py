"""Makes every path in the content of spaces and profiles absolute, so that it can be read again from any folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cse_train.fields import Json
from cse_train.user_files import HUB_PREFIX, absolute_place
from search_spaces.domains import DOMAIN_WORDS
from search_spaces.user_data.places import ENCODER, absolute
from search_spaces.user_data.references import ROLES, is_reference, mapping
from search_spaces.user_data.trainer import place_trainer


def absolute_models(raw: Any, folder: Path) -> Any:
    """Returns YAML content with absolute paths of encoders and of files that methods read, in any setting."""
    if isinstance(raw, list):
        return [absolute_models(value, folder) for value in raw]
    if not isinstance(raw, Mapping):
        return raw
    return {key: _models(key, value, folder) for key, value in raw.items()}


def absolute_paths(raw: Json, folder: Path) -> Json:
    """Returns a space's YAML with every path absolute, so that it means the same wherever it is read again."""
    content = {key: _files(key, value, folder) for key, value in absolute_models(raw, folder).items()}
    content |= {key: _file_values(content[key], folder) for key in ("dev", "corpus", "evaluate") if key in content}
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


def absolute_settings(settings: Json, folder: Path) -> Json:
    """Returns command-line settings with absolute paths, also of files of text and sets."""
    return {key: _files(key, absolute(key, value, folder), folder) for key, value in settings.items()}


def _models(key: str, value: Any, folder: Path) -> Any:
    if key == "evaluated" and isinstance(value, Mapping):
        return {name: absolute(ENCODER, v, folder) if name == "encoder" else v for name, v in value.items()}
    if key == ENCODER or key.startswith("method."):
        return _values(key, value, folder)
    return absolute_models(value, folder)


def _values(key: str, value: Any, folder: Path) -> Any:
    """Makes paths under a setting absolute, in a value, a domain with its condition, or a mapping of substitutions."""
    if isinstance(value, list):
        return [_values(key, each, folder) for each in value]
    if not isinstance(value, Mapping):
        return absolute(key, value, folder)
    return {
        name if name in (*DOMAIN_WORDS, "when") else absolute(key, name, folder): absolute_models(each, folder)
        if name == "when"
        else _values(key, each, folder)
        for name, each in value.items()
    }


def _files(key: str, value: Any, folder: Path) -> Any:
    """Makes paths of files of text and sets absolute, wherever a setting may be."""
    if key in ROLES:
        return _file_values(value, folder)
    if isinstance(value, Mapping):
        return {name: _files(name, each, folder) for name, each in value.items()}
    return [_files("", each, folder) for each in value] if isinstance(value, list) else value


def _file_values(value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping):
        path = value.get("file")
        if isinstance(path, str):
            return {**value, "file": _file(path, folder)}
        return {name: _file_values(each, folder) for name, each in value.items()}
    if isinstance(value, list):
        return [_file_values(each, folder) for each in value]
    if not isinstance(value, str) or not is_reference(value):
        return value
    return _file_values(mapping(value, "file"), folder) if value.startswith("{") else _file(value, folder)


def _file(text: str, folder: Path) -> str:
    if text.startswith(HUB_PREFIX) or "\0" in text:
        return text
    return str((folder / Path(text).expanduser()).resolve())
