"""A table as text, in any of the formats."""

from collections.abc import Sequence

from analysis.render import formats
from analysis.tables.aggregate import Table
from analysis.tables.ordering import Ordering
from analysis.tables.verdict import Verdicts


def render(
    table: Table,
    format: str = "md",
    verdicts: Verdicts | None = None,
    ordering: Sequence[Ordering] | None = None,
) -> str:
    """The table in one of `formats.names()`, ending in a newline. Raises KeyError for another format.

    Verdicts and order stand below the table in Markdown, under keys of their own in JSON, and counted in the remarks
    of LaTeX and HTML.
    """
    text: str = formats.load(format).render(table, verdicts, ordering)
    return text
