"""`cse table`: a space's table from the ledger, finished or not."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.render import formats
from analysis.render.table import render
from cse.cli import exit, options
from cse.cli.loader import load
from cse.tables import build as tables_build
from cse.tables.build import build, columns_of
from search_spaces import cells
from search_spaces.catalog import load_space
from search_spaces.cells import resolve, setups

FORMATS = formats.names()
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        parser=options.choice("format", FORMATS),
        metavar="|".join(FORMATS),
        help="Markdown, LaTeX (booktabs), CSV, an HTML fragment or JSON.",
    ),
]
Figure = Annotated[Path | None, typer.Option(help="Also draw the table into this file.", show_default=False)]


def table(
    space: options.SpaceName,
    form: FormatOption = "md",
    profile: options.Profile = None,
    seeds: options.Seeds = None,
    settings: options.Set = None,
    ledger: options.LedgerUrl = None,
    storage: options.Storage = None,
    data: options.Data = None,
    senteval: options.SentEval = None,
    figure: Figure = None,
) -> None:
    """Print a space's table: rows of its axes, n seeds, mean ± sd, the published value and the difference.

    Cells that lack seeds or are blocked are told on stderr.
    """
    resolved = resolve(load_space(space), profile, options.settings(settings))
    folder = options.notes_folder(options.ledger_url(ledger), options.storage_folder(storage))
    if data is not None or senteval is not None:
        paths = options.data_paths(data, None, senteval)
        load("cse.experiments.baselines").ensure(setups(resolved), columns_of(resolved), folder, paths)
    opened = options.existing_ledger(ledger)
    made = build(resolved, opened, folder, range(seeds) if seeds else None)
    print(render(made, form), end="", flush=True)
    if opened is not None and resolved.space.search is None:
        blocked = tables_build.blocked_in(opened, cells.sweep_name(resolved))
        exit.say(tables_build.unfinished(made, seeds or len(resolved.space.seeds), blocked))
    if figure is not None:
        load("analysis.figures.table").draw(made, figure)
