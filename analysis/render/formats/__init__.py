"""The formats of a table. The folder is the registry: each module is a format of that name.

A format has one function, `render(table, verdicts, ordering)`. It returns text that ends in a newline; `verdicts` and
`ordering` are None where the table is printed alone.
"""

import importlib
import pkgutil
from types import ModuleType


def names() -> list[str]:
    """Every format's name, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    """The module of a format; KeyError for an unknown name."""
    if name not in names():
        raise KeyError(name)
    return importlib.import_module(f"{__name__}.{name}")
