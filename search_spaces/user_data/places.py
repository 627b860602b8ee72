"""Settings that may name a file or folder of models or words: paths become absolute where they are written."""

from pathlib import Path
from typing import Any

from cse_train import fields, methods
from cse_train.fields import ConfigError
from cse_train.plugins.options import Options
from cse_train.user_files import absolute_place

ENCODER = "train.encoder"
ANY_TEXT = "\0"
"""Fits an option that takes any text, and none that takes one of several words."""


def absolute(key: str, value: Any, folder: Path) -> Any:
    """A setting's value with an absolute path in place of one that counts from `folder`; names stay.

    Settings that may name a file or folder are `train.encoder`, and the options of which a method hashes what they name
    (its `inputs`).
    """
    if not isinstance(value, str) or not value or "\0" in value:
        return value
    place = absolute_place(value, folder)
    return place if place != value and is_place(key) else value


def is_place(key: str) -> bool:
    """Whether a setting may name a file or folder of an encoder, of words or the like."""
    if key == ENCODER:
        return True
    return key.startswith("method.") and any(_reads(name, key.removeprefix("method.")) for name in methods.names())


def relative_path(key: str, value: Any) -> str | None:
    """The path that a setting of the command line gives from the shell's folder; None for any other value."""
    if not isinstance(value, str) or absolute(key, value, Path.cwd()) == value:
        return None
    return value


def _reads(method: str, option: str) -> bool:
    try:
        config = methods.config_class(method)
    except ConfigError:  # a plug-in that cannot be imported; what names it says so
        return False
    annotation = fields.hints(config).get(option) if config.inputs is not Options.inputs else None
    return annotation is not None and fields.fits(annotation, ANY_TEXT)
