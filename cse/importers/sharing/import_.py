"""`cse import`: takes runs of a bundle, or of another tool, into a ledger."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from analysis.answers import study
from analysis.answers.bundle_records import check_records
from analysis.answers.imported import Metric
from analysis.bundles import Bundle
from analysis.ledger import Ledger, mask_password
from analysis.ledger.exchange.merge import Merged, RecordSource, merge
from analysis.statistics.looks import TIE_MARGIN
from analysis.tables.labels import number_of, some, varying
from analysis.tables.spec import Sense, identify
from cse.cli import exit, ledgers, options, table_text
from cse.cli.options import positive
from cse.importers import DeclaredMetric, ForeignRun, sources
from cse.importers.published import UNNAMED, TableRow, find_row
from cse.importers.take import ImportRequest, take
from cse_train.fields import ConfigError, Settings, nearest
from search_spaces.cells import full_key

TOOLS = sources.names()
AXES_SHOWN = 6
METRIC_WORDS = re.compile(
    r"(?P<name>.+?)(:(?P<end>max|min))?(:(?P<low>-?\d+(\.\d+)?)-(?P<high>-?\d+(\.\d+)?))?", re.DOTALL
)
METRIC_ADVICE = "write --metric NAME, NAME:max, NAME:min or NAME:min:0-1"
What = Annotated[
    str, typer.Argument(metavar=f"FILE|{'|'.join(TOOLS)}", help="A bundle that cse bundle wrote, or a tool.")
]
Place = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE", help="Of a tool: its file or folder, a database's URL, a tracking URI, or ENTITY/PROJECT."
    ),
]
As = Annotated[str | None, typer.Option("--as", metavar="NAME", help="Of a tool: the sweep's name here.")]
Score = Annotated[str | None, typer.Option(metavar="KEY", help="Of a tool: the metric that counts.")]
Study = Annotated[str | None, typer.Option(metavar="NAME", help="Optuna's study, MLflow's experiment.")]
Rename = Annotated[
    list[str] | None, typer.Option(metavar="NAME=KEY", help="A setting's name here; may be given again.")
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME[:max|min][:0-1]",
        help="Of a tool: a number to take, its better end and its range; the first counts where --score is absent.",
    ),
]
Seed = Annotated[str | None, typer.Option(metavar="NAME", help="Of a tool: the column or setting of the seed.")]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Of a tool: a setting or column to leave out; may be given again."),
]
RowLabel = Annotated[str | None, typer.Option(metavar="LABEL", help="The runs are this row of the table --as ID.")]
About = Annotated[str | None, typer.Option(metavar="TEXT", help="Whose code made the runs: URL, settings.")]
Licence = Annotated[str | None, typer.Option(metavar="NAME", help="Of the runs.")]
Negate = Annotated[bool, typer.Option("--negate", help="The lower score is the better one, as --better lower.")]
Better = Annotated[
    str | None,
    typer.Option(
        parser=options.choice("better", ("lower", "higher")),
        metavar="lower|higher",
        help="Of a tool: which score is the better one (higher; Optuna says it).",
    ),
]
Width = Annotated[
    float | None,
    typer.Option(
        metavar="WIDTH", help="Of a tool: how wide the score's range is, 1 or 100; a tie is half of a hundredth of it."
    ),
]


def import_(
    what: What,
    source: Place = None,
    ledger: ledgers.LedgerUrl = None,
    name: As = None,
    row: RowLabel = None,
    score: Score = None,
    metrics: Metrics = None,
    seed: Seed = None,
    study: Study = None,
    rename: Rename = None,
    drop: Drop = None,
    negate: Negate = False,
    better: Better = None,
    scale: Width = None,
    about: About = None,
    licence: Licence = None,
) -> None:
    """Take the runs of a bundle, or finished runs of another tool, over into a ledger."""
    if source is None:
        names = "--as --row --score --metric --seed --study --rename --drop --negate --better --scale --about --licence"
        values = (name, row, score, metrics, seed, study, rename, drop, negate, better, scale, about, licence)
        unused = [option for option, value in zip(names.split(), values, strict=True) if value]
        if unused and what not in TOOLS:
            line = f"options of a tool: {', '.join(unused)} with the bundle {what}"
            raise ConfigError([f"{line}; leave them out, or name a tool first"])
        _import_bundle(Path(what), ledger)
        return
    if what not in TOOLS:
        raise ConfigError([f"unknown tool: import={what}; {nearest(what, TOOLS)}"])
    module, asked = sources.load(what), _read_metrics(metrics or [])
    main = next((metric for metric in asked if metric.name == score), None)
    if score is None and row is None:
        main = asked[0] if asked else DeclaredMetric(module.SCORE) if module.SCORE else None
    elif main is None and score is not None:
        main = DeclaredMetric(score)
    required = {"--as NAME": name, "--score KEY": main or row}
    if not all(required.values()):
        raise ConfigError([f"nothing given: {option}; give it too" for option, value in required.items() if not value])
    if wrong := [pair for pair in rename or [] if not all(pair.partition("="))]:
        raise ConfigError([f"wrong --rename: rename={pair}; write --rename NAME=KEY" for pair in wrong])
    pairs = (pair.partition("=") for pair in rename or [])
    runs = module.read(source, study)
    request = ImportRequest(
        tool=what,
        source=mask_password(source),
        sweep=str(name),
        score="" if main is None else main.name,
        span=positive(scale, "scale") or (main.span if main else None),
        names={old.strip(): new.strip() for old, _, new in pairs},
        metrics=asked,
        seed=seed,
        drop=drop or [],
        about=about or "",
        licence=licence or "",
        is_local=getattr(module, "LOCAL", False),
    )
    if row is not None:
        runs, request = _place(runs, request, find_row(request.sweep, row))
    lower = {name for run in runs if not run.unfinished for name in run.lower}
    sense = _sense(main or DeclaredMetric(request.score), negate, better, request.score in lower)
    columns = [
        replace(each, better=_sense(each, False, None, each.name in lower)) if each.name != request.score else each
        for each in request.metrics
    ]
    request = replace(request, better=sense, metrics=columns)
    with ledgers.ledger_to_fill(ledger) as opened:
        merged, left_out, metric = take(runs, request, opened)
        print(f"{count_merged(merged)} as {request.sweep}  (ledger {opened.url})\n{describe_metric(metric)}")
        print(describe_settings([link.cell for link in opened.cells(request.sweep)]))
        exit.say(left_out)
        if request.row is not None:
            _print_row(request, opened)


def _place(
    runs: Sequence[ForeignRun], request: ImportRequest, row: TableRow
) -> tuple[Sequence[ForeignRun], ImportRequest]:
    """Returns runs and import settings for a row of a paper's table, with suites as the names of the columns."""
    names = {*row.suites, *row.suites.values(), row.dev}
    assigned = {name: key for name, key in request.names.items() if key in names}
    columns = row.columns_of(runs, assigned, request.score or None)
    placed = ({columns.get(name, name): value for name, value in run.metrics.items()} for run in runs)
    table_runs = [replace(run, metrics=metrics) for run, metrics in zip(runs, placed, strict=True)]
    is_dev = row.dev in columns.values()
    suites = row.metrics(columns, table_runs)
    renamed = [f"{name} is {suite}" for name, suite in columns.items() if name != suite]
    if renamed:
        print(f"taken by name: {', '.join(renamed)}")
    return table_runs, replace(
        request,
        row=row,
        sweep=request.sweep if "@" in request.sweep else f"{row.resolved.space.id}@{UNNAMED}",
        score=row.dev if is_dev else suites[-1].name,
        is_dev=is_dev,
        metrics=suites,
        names={name: key for name, key in request.names.items() if name not in assigned},
    )


def _print_row(request: ImportRequest, ledger: Ledger) -> None:
    """Prints the row's imported values beside the paper's, with a verdict for each."""
    (sweep,) = (each for each in ledger.sweeps() if each.id == request.sweep)
    table, verdicts = study.read_judged(sweep, ledger, None)
    assert request.row is not None
    key = full_key(request.row.resolved, request.row.cell.key)
    place = next(place for place, each in enumerate(table.rows) if identify(each.key) == identify(key))
    row_verdicts = {(0, column): verdict for (index, column), verdict in (verdicts or {}).items() if index == place}
    row_table = replace(table, rows=[table.rows[place]], spec=replace(table.spec, references=[]))
    print("\n" + table_text.show_table(row_table, row_verdicts), end="")


def _sense(score: DeclaredMetric, negate: bool, better: str | None, minimised: bool) -> Sense | None:
    """Returns the better direction of the score, by options and tool. Raises ConfigError where they contradict each
    other."""
    claims = {"--negate": negate, "the study minimises it": minimised, "--metric says min": score.better == "lower"}
    says_lower = [claim for claim, holds in claims.items() if holds]
    says_higher = ["--metric says max"] if score.better == "higher" else []
    (says_higher if better == "higher" else says_lower).extend([f"--better={better}"] if better else [])
    if says_lower and says_higher:
        asked = f"--better={better} of " if better else ""
        other = next(claim for claim in (*says_lower, *says_higher) if claim != f"--better={better}")
        raise ConfigError([f"two directions: {asked}score={score.name}, and {other}; leave one out"])
    return "lower" if says_lower else "higher" if says_higher else None


def describe_metric(metric: Metric) -> str:
    """Returns a line on the direction and range assumed for the score."""
    span = metric.scale.span
    unknown = "its range is not known, so that nothing is called a tie: --scale 1, or 100, says it"
    width = unknown if span is None else f"its range is {span:g} wide, and a tie within ±{TIE_MARGIN * span / 100:g}"
    return f"{metric.name}: the {metric.scale.better} value is the better one; {width}"


def describe_settings(cells: Sequence[Settings]) -> str:
    """Returns a line on the settings that distinguish the sweep's cells, and on those that are equal in all."""
    names = list(dict.fromkeys(itertools.chain(*cells)))
    varied = varying(cells, names)
    count = number_of(len({json.dumps(cell, sort_keys=True) for cell in cells}), "cell")
    equal = [name for name in names if name not in varied]
    axes_text = f", told apart by {some(varied, AXES_SHOWN)}" if varied else ""
    texts = {name: {cell[name] for cell in cells if isinstance(cell.get(name), str)} for name in varied}
    labels = [name for name in varied if len(texts[name]) == len(cells) > 2 and len(varied) > 1]
    hints = [f"{name} differs in every run: --drop {name} if it is a name, so that seeds meet" for name in labels]
    equal_text = [f"equal in all: {some(equal, AXES_SHOWN)}"] if equal else []
    return "; ".join([f"{count}{axes_text}", *hints, *equal_text])


def _read_metrics(words: Sequence[str]) -> list[DeclaredMetric]:
    """Returns the metrics of --metric in order; ConfigError for a malformed one, and for two of one name."""
    metrics = []
    better: dict[str | None, Sense] = {"max": "higher", "min": "lower"}
    for word in words:
        match = METRIC_WORDS.fullmatch(word.strip())
        if match is None:
            raise ConfigError([f"wrong metric: metric={word}; {METRIC_ADVICE}"])
        span = None if match["low"] is None else float(match["high"]) - float(match["low"])
        if span is not None and span <= 0:
            raise ConfigError([f"wrong range: metric={word} has no width; {METRIC_ADVICE}"])
        metrics.append(DeclaredMetric(match["name"], better.get(match["end"]), span))
    counts = Counter(metric.name for metric in metrics)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise ConfigError([f"two metrics of one name: metric={name}; give it once" for name in repeated])
    return metrics


def _import_bundle(file: Path, ledger: str | None) -> None:
    """Imports all runs of a bundle, or none if one contradicts a run in the ledger."""
    if not file.is_file():
        hint = f"name a bundle (cse bundle writes one), or a tool and its source ({', '.join(TOOLS)})"
        raise ConfigError([f"no such file: file={file}; {hint}"])
    bundle = Bundle(file)
    with ledgers.ledger_to_fill(ledger) as opened:
        merged = merge(opened, check_records(bundle), RecordSource(file.name, bundle.header.sha256))
    print(f"{count_merged(merged)}  (ledger {opened.url})")
    exit.say(list_left_out(merged))


def count_merged(merged: Merged) -> str:
    """Returns counts of the runs and scores that an import added."""
    parts = [f"{number_of(merged.added, 'run')} imported", f"{merged.there + merged.renewed} already there"]
    parts += [f"{merged.renewed} of them with more settings or metrics than before"] if merged.renewed else []
    parts += [f"{merged.replaced} that had no result here replaced"] if merged.replaced else []
    parts += [f"{number_of(merged.scores, 'score')} of runs here added"] if merged.scores else []
    return ", ".join(parts)


def list_left_out(merged: Merged) -> list[str]:
    """Returns lines on what an import left out: runs that train now, and differing sweeps and baselines."""
    lines = [f"left out: {number_of(merged.held, 'run')} that a driver trains here now"] if merged.held else []
    if merged.other_sweeps:
        names = ", ".join(merged.other_sweeps)
        lines.append(f"another space, profile or settings under the same name: {names}; the ledger's stays")
    if merged.other_baselines:
        columns = ", ".join(dict.fromkeys(merged.other_baselines))
        lines.append(f"rows without training differ: {columns}; those of the ledger stay")
    return lines
