"""Formats of a table. The folder is the registry: each module is a format of that name.

A format has one function, `render(table, verdicts, ordering)`. It returns text that ends in a newline; `verdicts` and
`ordering` are None if the table is printed alone.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from types import ModuleType

from analysis.answers.judge import Verdicts
from analysis.tables.aggregate import Table
from analysis.tables.ordering import Ordering

__all__ = ["html", "json", "names", "render"]


def names() -> list[str]:
    """Returns the names of all formats, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    """Returns the module of a format. Raises KeyError for an unknown name."""
    if name not in names():
        raise KeyError(name)
    return importlib.import_module(f"{__name__}.{name}")


def render(
    table: Table,
    format: str = "md",
    verdicts: Verdicts | None = None,
    ordering: Sequence[Ordering] | None = None,
) -> str:
    """Returns the table in one of the formats `names()`, ending in a newline. Raises KeyError for another format.

    Verdicts and order come below the table in Markdown, under keys of their own in JSON, and counted in the remarks of
    LaTeX and HTML.
    """
    text: str = load(format).render(table, verdicts, ordering)
    return text
