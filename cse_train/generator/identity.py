"""Finds a generator's files and hashes them, without torch."""

from pathlib import Path

from cse_train.backbone.folders import content_hash, locate
from cse_train.backbone.weight_files import require_numbers
from cse_train.fields import ConfigError


def generator_folder(name: str) -> Path:
    """Returns the folder of a generator's weights; raises ConfigError that names `method.generator`."""
    try:
        return locate(name)
    except ConfigError as error:
        raise ConfigError(line.replace("train.encoder=", "method.generator=") for line in error.problems) from error


def generator_hash(name: str) -> str:
    """Returns the content hash of the model `Generator(name, ...)`: an input of the run like its corpus."""
    folder = generator_folder(name)
    require_numbers(folder, f"method.generator={name}")
    return content_hash(folder)
