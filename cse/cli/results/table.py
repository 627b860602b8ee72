"""`cse table`: a space's table from the ledger, finished or not."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.render import formats
from analysis.render.formats import render
from cse.cli import exit, options
from cse.cli.loader import load
from cse.tables.build import build, unfinished
from search_spaces.catalog import load_space
from search_spaces.cells import resolve, sweep_name

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

    Cells that lack seeds or an input are named on stderr.
    """
    resolved = resolve(load_space(space), profile, options.settings(settings))
    opened = options.existing_ledger(ledger)
    if data is not None or senteval is not None:
        paths = options.data_paths(data, None, senteval)
        opened = opened or options.open_ledger(ledger, create=True)
        load("cse.experiments.baselines").ensure(resolved, opened, paths)
    made = build(resolved, opened, range(seeds) if seeds else None)
    print(render(made, form), end="", flush=True)
    if opened is not None and resolved.space.search is None:
        incomplete = opened.sweep_spec(sweep_name(resolved)).get("blocked", {})
        exit.say(unfinished(made, seeds or len(resolved.space.seeds), incomplete))
    if figure is not None:
        load("analysis.figures.table").draw(made, figure)
