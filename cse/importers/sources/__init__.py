"""The tools of `cse import`. The folder is the registry: each module reads finished runs of the tool of its name.

A module imports its tool's package where it needs it, and has
- `read(source, study)`: every run (`ForeignRun`) at `source`, finished or not; `study` is the study or the experiment,
  or None. ConfigError in one line where there is none, or several to choose from;
- `SCORE`: the name of the metric that counts where --score is not given, or None;
- where its IDs tell the runs of one source apart alone, as a table's do, `LOCAL = True`.
"""

import importlib
import pkgutil
from types import ModuleType

from cse_train.fields import ConfigError
from cse_train.reading import first_line

__all__ = ()


def names() -> list[str]:
    """Every tool's name, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    """The module of a tool. KeyError for an unknown name."""
    if name not in names():
        raise KeyError(name)
    return importlib.import_module(f"{__name__}.{name}")


def package(name: str) -> ModuleType:
    """A tool's package, or a module of it; ConfigError that says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = name.partition(".")[0]
        raise ConfigError(
            [f"tool without its package: import={extra}; {first_line(error)}; pip install 'cse-search[{extra}]'"]
        ) from error
