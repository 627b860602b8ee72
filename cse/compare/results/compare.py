"""`cse compare`: two models side by side, by seeds and by sentence pairs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer

from analysis.ledger import Ledger
from analysis.render.formats import render
from cse.cli import ledgers, options, screen
from cse.cli.loader import deferred
from cse.cli.table_text import TableFormat
from cse.compare.by_pairs import PairComparison, compare_by_pairs
from cse.compare.by_seeds import ColumnComparison, compare_by_seeds
from cse.compare.gathered import Gathered, gather, suites_to_score
from cse.compare.question import DifferenceOptions, ModelOptions, words
from cse.compare.text import Comparison, table, text
from cse.tables.models import Model
from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.fields import ConfigError

with deferred(__name__):
    from cse.compare import scoring as scoring

NAME_HELP = "a run (its signature), SPACE:CELL or SWEEP:CELL with all its seeds, several with commas, a model's folder"
First = Annotated[str, typer.Argument(metavar="A", help=f"A model: {NAME_HELP}.")]
Second = Annotated[str, typer.Argument(metavar="B", help="The model that A is compared with, named alike.")]
Top = Annotated[int, typer.Option(min=0, help="Sentence pairs to list that A and B rank most differently.")]
Suites = Annotated[
    list[str] | None,
    typer.Option("--suite", help="First score what lacks these suites; comma-separated.", show_default=False),
]


@options.add_arguments
def compare(
    a: First,
    b: Second,
    *,
    difference: DifferenceOptions,
    top: Top = 5,
    suite: Suites = None,
    named: ModelOptions,
    data: options.Data = None,
    senteval: options.SentEval = None,
    pooler: options.Pooler = None,
    max_length: options.MaxLength = None,
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
    form: TableFormat = None,
) -> None:
    """Compare two models: differences with intervals over seeds, and over sentence pairs where cosines are kept."""
    terms = difference.terms()
    paths, opened = options.data_paths(data, None, senteval), ledgers.existing_ledger(ledger, storage)
    models = named.read_two(a, b, opened)
    columns = difference.columns()
    lacking = words(suite), columns
    left, right = (
        _score(model, other, *lacking, opened, paths, pooler, max_length) for model, other in (models, models[::-1])
    )
    common = gather(left, right, opened, columns, spans=difference.spans())
    pairs = compare_by_pairs(common.cosines, terms, sides=common.columns, columns=len(common.columns), top=top)
    texts = _texts(pairs, common, paths)
    made = Comparison(left, right, terms, common, compare_by_seeds(common.columns, terms), pairs, texts)
    if form == "json":
        print(json.dumps(list_facts(made), indent=1, ensure_ascii=False, allow_nan=False))
    elif form in (None, "md"):
        print(text(made, screen.width() if form is None else None))
    else:
        print(render(table(made), form), end="")


def _score(
    model: Model,
    other: Model,
    suites: Sequence[str] | None,
    columns: Sequence[str] | None,
    ledger: Ledger | None,
    paths: DataPaths,
    pooler: str | None,
    max_length: int | None,
) -> Model:
    """The model with the scores that the comparison needs: those of a folder, and of runs those that are asked for."""
    if model.folder is not None:
        names = suites or columns or suites_to_score(other, ledger)
        screen.note(f"scoring {model.name}")
        return replace(model, scores=scoring.score_folder(model.folder, names, paths, pooler, max_length))
    if suites and ledger is not None:
        screen.note(f"scoring {len(model.runs)} runs of {model.name}")
        scoring.score_runs(model, suites, ledger, paths)
    return model


def _texts(pairs: Sequence[PairComparison], common: Gathered, paths: DataPaths) -> dict[str, Pairs]:
    """The sets whose disagreements are listed, as far as they are at hand and are those that were scored."""
    texts = {}
    for column in (entry.column for entry in pairs if entry.disagreements):
        try:
            loaded = load_pairs(column, paths)
        except ConfigError:
            continue
        if loaded.content_hash == common.data.get(column):
            texts[column] = loaded
    return texts


def list_facts(made: Comparison) -> dict[str, object]:
    """Everything, for programs."""
    apart = made.gathered.difference_line()
    return {
        **({"differing": apart} if apart else {}),
        "A": model_dict(made.left),
        "B": model_dict(made.right),
        "margin": made.terms.margin,
        "level": made.terms.family,
        "columns": [column_dict(column) for column in made.columns],
        "settings": [asdict(setting) for setting in made.gathered.differing],
        "pairs": [_pairs_dict(pairs, made.texts.get(pairs.column)) for pairs in made.pairs],
        "notes": [*made.gathered.notes, *made.gathered.unread],
    }


def model_dict(model: Model) -> dict[str, object]:
    runs = [{"signature": run.signature, "seed": run.seed} for run in model.runs]
    return {"name": model.name, "label": model.label, "folder": model.folder and str(model.folder), "runs": runs}


def column_dict(column: ColumnComparison) -> dict[str, object]:
    """A column with its single values; a model without seeds has none."""
    facts = {name: value for name, value in asdict(column).items() if name not in ("left", "right", "collapsed")}
    sides = {
        name: {"n": entry.n, "mean": entry.mean, "sd": entry.sd, "values": list(entry.values), "collapsed": fallen}
        | {"seeds": [seed for seed in entry.seeds if seed >= 0], "idle": list(entry.idle)}
        for name, entry, fallen in zip("AB", (column.left, column.right), column.collapsed, strict=True)
    }
    return {**facts, **sides}


def _pairs_dict(pairs: PairComparison, texts: Pairs | None) -> dict[str, object]:
    listed = [
        asdict(pair)
        | {"nearer": pair.nearer}
        | ({"texts": [texts.left[pair.index], texts.right[pair.index]]} if texts else {})
        for pair in pairs.disagreements
    ]
    return asdict(pairs) | {"difference": pairs.difference, "disagreements": listed}
