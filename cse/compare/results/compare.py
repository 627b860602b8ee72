"""`cse compare`: two models side by side, by seeds and by sentence pairs."""

from typing import Annotated

import typer

from analysis.documents import dump_json
from analysis.render.formats import render
from cse.cli import ledgers, options, screen
from cse.cli.table_text import TableFormat
from cse.compare.comparison import Comparison, compare_models, table, text
from cse.compare.missing_scores import Scoring
from cse.compare.question import DifferenceOptions, ModelOptions, ScoringOptions

NAME_HELP = (
    "a run (its signature), SPACE:CELL or SWEEP:CELL with all its seeds, a model's folder or its name on the hub, "
    "several runs or folders with commas"
)
First = Annotated[str, typer.Argument(metavar="A", help=f"A model: {NAME_HELP}.")]
Second = Annotated[
    str,
    typer.Argument(
        metavar="B", help="The model that A is compared with, named alike, or untrained: the encoder that A began with."
    ),
]
Also = Annotated[
    list[str] | None,
    typer.Option(metavar="MODEL", help="A further model that A is compared with; repeatable, all share the level."),
]
Top = Annotated[int, typer.Option(min=0, help="Sentence pairs and queries to list in which A and B differ most.")]

Answer = Comparison


@options.add_arguments
def compare(
    a: First,
    b: Second,
    *,
    also: Also = None,
    difference: DifferenceOptions,
    top: Top = 5,
    scoring: ScoringOptions,
    naming: ModelOptions,
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
    form: TableFormat = None,
) -> None:
    """Compare two models: differences with intervals over seeds and over the sentence pairs or queries of a set."""
    opened = ledgers.existing_ledger(ledger, storage)
    comparison = compare_models(a, b, opened, difference, naming, Scoring.of(scoring), top, also or ())
    if form == "json":
        print(dump_json(comparison))
    elif form in (None, "md"):
        print(text(comparison, screen.width() if form is None else None))
    else:
        print(render(table(comparison), form), end="")
