"""The formats of a bundle. The folder is the registry: each module is one.

A format has `SUFFIX`, how its files' names end, and `write(path, contents)`.
"""

import importlib
import pkgutil
from types import ModuleType


def by_suffix() -> dict[str, ModuleType]:
    """How a file's name ends -> its format."""
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return {module.SUFFIX: module for module in modules}
