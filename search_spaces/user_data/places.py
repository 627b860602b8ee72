"""Settings that may name a file or folder of models or words, and their absolute paths."""

from pathlib import Path
from typing import Any

from cse_train import fields, methods
from cse_train.fields import ConfigError
from cse_train.plugins.options import Options
from cse_train.user_files import absolute_place

ENCODER = "train.encoder"
ANY_TEXT = "\0"
"""Text that fits an option which takes any text, and no option which takes one of several words."""


def absolute(key: str, value: Any, folder: Path) -> Any:
    """Returns a setting's value with a path relative to `folder` made absolute; names and other settings are unchanged.

    Settings that may name a file or folder are `train.encoder`, and options whose files a method hashes (its `inputs`).
    """
    if not isinstance(value, str) or not value or "\0" in value:
        return value
    place = absolute_place(value, folder)
    return place if place != value and is_place(key) else value


def is_place(key: str) -> bool:
    """Tells whether a setting may name a file or folder of an encoder, of words or the like."""
    if key == ENCODER:
        return True
    return key.startswith("method.") and any(_reads(name, key.removeprefix("method.")) for name in methods.names())


def relative_path(key: str, value: Any) -> str | None:
    """Returns the relative path that a command-line setting gives from the shell's folder; None for any other value."""
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
