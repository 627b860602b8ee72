"""`cse eval`: scores any checkpoint on named suites and prints every number with its protocol."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer

from analysis.answers.lookup import encoder_for, row_of
from analysis.documents import OPTIONAL, dump_json
from analysis.run_folder import RunFolder
from analysis.run_state import RunState
from cse.cli import exit, ledgers, options
from cse.cli.listing import align_rows
from cse.cli.loader import deferred
from cse.cli.model_options import Encoder, MaxLength, Model, Pooler, Prompt, model_folder
from cse_train.evaluate.run_suites import evaluate
from cse_train.evaluate.run_suites import options as suite_options
from cse_train.evaluate.suites.registry import suites
from cse_train.results import Score
from search_spaces.identity.user_files import add_user_files, describe_files
from search_spaces.user_data import read_suites

with deferred(__name__):
    from cse_train.evaluate import models
    from cse_train.evaluate import score as scoring

Suites = Annotated[
    list[str] | None,
    typer.Option(
        help=f"{', '.join(suites())}, single sets as sts_test, mr, or files of your own (docs/your_data.md); "
        "comma-separated, repeatable (sts_dev)."
    ),
]
Classifier = Annotated[str, typer.Option(help="Of the transfer tasks: senteval, or fast.")]
Mode = Annotated[str, typer.Option(help="What the transfer tasks report: test, or dev.")]
Aggregation = Annotated[str, typer.Option(help="Of a year's STS subsets: all, mean or wmean.")]
Queries = Annotated[list[str] | None, typer.Option(help="A text whose nearest neighbours retrieval lists; repeatable.")]
Positives = Annotated[list[str] | None, typer.Option(help="Of the alignment: gold > 4, gold == 5; repeatable.")]
Out = Annotated[Path | None, typer.Option("--to", help="Folder of the per-pair cosines (a run's scores).")]


ResultFormat = Literal["text", "md", "json"]
"""Output formats of `cse eval`."""

FormatOption = Annotated[ResultFormat, typer.Option("--format", help="text, md, or json with all details.")]


@dataclass(frozen=True, kw_only=True)
class SuiteScore:
    """One number of a suite, with all that is needed to compare it."""

    suite: str
    metric: str
    value: float | None
    unscored: str = field(default="", metadata=OPTIONAL)
    """Reason why there is no value."""
    protocol: Mapping[str, object]
    """Rules and inputs by which the score was computed."""
    details: Mapping[str, object]
    """Numbers behind the value, such as scores of subsets or folds."""

    @classmethod
    def of(cls, score: Score) -> "SuiteScore":
        return cls(**{name: getattr(score, name) for name in cls.__annotations__} | {"protocol": score.protocol.facts})


Answer = list[SuiteScore]


def eval(
    model: Model,
    plugins: options.Plugins = None,
    suite: Suites = None,
    data: options.Data = None,
    senteval: options.SentEval = None,
    protocol: Classifier = "senteval",
    mode: Mode = "test",
    aggregation: Aggregation = "all",
    pooler: Pooler = None,
    max_length: MaxLength = None,
    prompt: Prompt = None,
    encoder: Encoder = None,
    query: Queries = None,
    positives: Positives = None,
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
    to: Out = None,
    form: FormatOption = "text",
) -> None:
    """Score a run, a transformers folder or a sentence-transformers folder; a run's own scores go into its ledger."""
    folder = model_folder(model, ledger, storage)
    opened_ledger = ledgers.existing_ledger(ledger, storage)
    place = encoder_for(folder, opened_ledger, encoder)
    names, files = read_suites(suite or ["sts_dev"], Path.cwd())
    paths = add_user_files(options.data_paths(data, None, senteval), files)
    exit.say(describe_files(paths))
    chosen = suite_options(protocol, mode, aggregation, query, positives)
    opened = models.open_model(folder, pooler=pooler, max_length=max_length, prompt=prompt, encoder=place)
    recorded = models.is_run(folder) and (pooler, max_length, prompt, aggregation) == (None, None, None, "all")
    run = RunFolder.around(folder)
    out = to.resolve() if to else run.scores if recorded else None
    scores = evaluate(opened, paths, names, chosen)
    if out is not None:
        scores = [scoring.keep_cosines(score, out) for score in scores]
    print(report(scores, form))
    exit.say([f"no score: {score.column} has none here, {score.unscored}" for score in scores if score.unscored])
    row = row_of(run.path, opened_ledger) if recorded and opened_ledger else None
    if opened_ledger and row is not None and row.state == RunState.DONE:
        for score in scores:
            opened_ledger.add_score(row.signature, score)


FINE = ("alignment", "uniformity", "mean_cosine")
"""Metrics that are printed with three decimals in place of two."""
HASH_DIGITS = 12


def report(scores: Sequence[Score], form: ResultFormat) -> str:
    """Returns a table with one line for each score and the protocol fields that differ; shared fields follow below it.

    As JSON, every score has all of its protocol fields and its details.
    """
    if form == "json":
        return dump_json([SuiteScore.of(score) for score in scores])
    protocols = [_protocol(score) for score in scores]
    shared = {name: value for name, value in protocols[0].items() if all(p[name] == value for p in protocols)}
    rows = [
        {"suite": score.suite, "metric": score.metric, "value": _write_value(score)}
        | {name: value for name, value in protocol.items() if name not in shared}
        for score, protocol in zip(scores, protocols, strict=True)
    ]
    width = max(len(row["value"]) for row in rows)
    rows = [row | {"value": row["value"].rjust(width)} for row in rows]
    table = _markdown(rows) if form == "md" else align_rows(rows)
    common = "; ".join(f"{name} {value}" for name, value in shared.items() if value != "")
    lines = [table, "", f"protocol: {common}"]
    for query in (query for score in scores for query in score.details.get("nearest", [])):
        lines += ["", f"nearest to: {query['query']}"]
        lines += [f"  {text['cosine']:.3f}  {text['text']}" for text in query["nearest"]]
    return "\n".join(lines)


def _markdown(rows: Sequence[dict[str, str]]) -> str:
    """Returns a Markdown table with the first row's keys as its head."""
    names = list(rows[0])
    lines = [names, ["--:" if name == "value" else "---" for name in names], *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(cell.strip() for cell in line)} |" for line in lines)


def _protocol(score: Score) -> dict[str, str]:
    fields = {name: str(value) for name, value in score.protocol.facts.items() if name != "suite"}
    return fields | {"data_hash": fields["data_hash"][:HASH_DIGITS]}


def _write_value(score: Score) -> str:
    if math.isnan(score.value):
        return "no score"
    return f"{score.value:.3f}" if score.metric in FINE else f"{score.value:.2f}"
