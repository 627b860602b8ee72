"""The spaces that a person names: IDs, files and folders, and `all` for every table of the papers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cse_train.fields import ConfigError

if TYPE_CHECKING:
    from cluster.space import Space

ALL = "all"


def load_all(names: Sequence[str]) -> "list[Space]":
    """Every space named, each file once, in order; ConfigError with the problems of all of them."""
    from cluster.catalog import shipped
    from cluster.space import load_spaces

    spaces: dict[str, Space] = {}
    found: list[str] = []
    for name in names:
        try:
            loaded = load_spaces(shipped() / "papers" if name.lower() == ALL else name)
        except ConfigError as error:
            found += error.problems
        else:
            spaces |= {str(space.file.resolve()): space for space in loaded}
    if found:
        raise ConfigError(list(dict.fromkeys(found)))
    return list(spaces.values())
