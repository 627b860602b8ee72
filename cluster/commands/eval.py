"""`cse eval`: any checkpoint on named suites, every number with its protocol."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands import arguments
from cluster.commands.eval_report import ResultFormat, report
from cluster.commands.models import MaxLength, Model, Pooler, model_folder
from cluster.commands.run_folder import row_of

if TYPE_CHECKING:
    from cse_train.evaluate.results import Result
    from cse_train.evaluate.score import Score
    from cse_train.evaluate.sts_suite import ScoredPairs

Suites = Annotated[
    list[str] | None,
    typer.Option(
        "--suite",
        help="sts, transfer, retrieval, geometry, lengths, repetition, declutr, or single sets as sts_test, mr; "
        "comma-separated, repeatable (sts_dev).",
    ),
]
Classifier = Annotated[str, typer.Option("--protocol", help="Of the transfer tasks: senteval, or fast.")]
Mode = Annotated[str, typer.Option(help="What the transfer tasks report: test, or dev.")]
Aggregation = Annotated[str, typer.Option(help="Of a year's STS subsets: all, mean or wmean.")]
Queries = Annotated[
    list[str] | None, typer.Option("--query", help="A text whose nearest neighbours retrieval lists; repeatable.")
]
Positives = Annotated[
    list[str] | None, typer.Option("--positives", help="Of the alignment: gold > 4, gold == 5; repeatable.")
]
Out = Annotated[
    Path | None, typer.Option("--to", help="Folder of the per-pair cosines (a run's scores).", show_default=False)
]
FormatOption = Annotated[ResultFormat, typer.Option("--format", help="text, md, or json with all details.")]


def evaluate(
    model: Model,
    suite: Suites = None,
    data: arguments.Data = None,
    senteval: arguments.SentEval = None,
    protocol: Classifier = "senteval",
    mode: Mode = "test",
    aggregation: Aggregation = "all",
    pooler: Pooler = None,
    max_length: MaxLength = None,
    query: Queries = None,
    positives: Positives = None,
    ledger: arguments.LedgerUrl = None,
    to: Out = None,
    form: FormatOption = ResultFormat.text,
) -> None:
    """Score a run, a transformers folder or a sentence-transformers folder; a run's own scores go into its ledger."""
    folder = model_folder(model, ledger)
    paths = arguments.data_paths(data, None, senteval)
    from cse_train.evaluate import suites
    from cse_train.evaluate.models import is_run, open_model
    from cse_train.evaluate.score import store

    chosen = suites.options(protocol, mode, aggregation, query, positives)
    opened = open_model(folder, pooler=pooler, max_length=max_length)
    own = is_run(folder) and (pooler, max_length, aggregation) == (None, None, "all")
    run = folder.parent if folder.name == "best" else folder
    out = to.resolve() if to else run / "scores" if own else None
    kept: dict[str, Score] = {}

    def keep(scored: "ScoredPairs") -> None:
        if out is not None:
            kept[scored.result.suite] = store(scored, out)

    wanted = [name.strip() for part in suite or ["sts_dev"] for name in part.split(",")]
    results = suites.evaluate(opened, paths, wanted, chosen, keep)
    print(report(results, form))
    if own:
        _book(run, ledger, results, kept)


def _book(run: Path, url: str | None, results: "list[Result]", kept: "dict[str, Score]") -> None:
    """Into the ledger that knows the run, if one does; scores under other settings would stand in its tables."""
    ledger = arguments.existing_ledger(url)
    row = row_of(run, ledger) if ledger else None
    if ledger is None or row is None or row.state != "done":
        return
    from cse_train.evaluate.columns import column_of

    for result in results:
        score = kept.get(result.suite) if result.metric == "spearman" else None
        file, digest = (str(score.cosines_file), score.cosines_hash) if score else (None, None)
        ledger.add_score(row.signature, column_of(result), result.value, result.protocol.as_dict(), file, digest)
