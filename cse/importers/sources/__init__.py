"""The tools of `cse import`; each module in this folder reads the runs of the tool with its name.

A module imports its tool's package where it needs it, and has
- `read(source, study)`: returns every run (`ForeignRun`) at `source`, finished or not; `study` is the study or the
  experiment, or None. Raises ConfigError in one line where there is none, or several to choose from;
- `SCORE`: the name of the metric that counts where --score is not given, or None;
- `LOCAL = True` if its IDs are unique only within one source, like the rows of a table.
"""

import importlib
import pkgutil
from types import ModuleType

from cse_train.fields import ConfigError
from cse_train.reading import first_line

__all__ = ()


def names() -> list[str]:
    """Returns the name of every tool, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    """Returns the module that reads a tool's runs. Raises KeyError for an unknown name."""
    if name not in names():
        raise KeyError(name)
    return importlib.import_module(f"{__name__}.{name}")


def package(name: str) -> ModuleType:
    """Imports a tool's package, or a module of it. Raises ConfigError that says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = name.partition(".")[0]
        raise ConfigError(
            [f"tool without its package: import={extra}; {first_line(error)}; pip install 'cse-search[{extra}]'"]
        ) from error
