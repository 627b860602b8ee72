"""`cse import`: runs of a bundle, or of another tool, into a ledger."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from analysis.answers import study
from analysis.answers.imported.metric import Metric
from analysis.answers.imported.strangers import check_records
from analysis.bundles.reader import Bundle
from analysis.ledger import Ledger, mask_password
from analysis.ledger.exchange.merge import Merged, RecordSource
from analysis.statistics.looks import TIE_MARGIN
from analysis.tables.labels import number_of, some, varying
from analysis.tables.spec import Sense, identify
from cse.cli import exit, ledgers, options, table_text
from cse.cli.options import positive
from cse.importers import ForeignRun, sources
from cse.importers.metrics import Asked, read_metrics
from cse.importers.published import UNNAMED, TableRow, find_row
from cse.importers.records import Taking
from cse.importers.take import take
from cse_train.fields import ConfigError, Settings, nearest
from search_spaces.cells import full_key

TOOLS = sources.names()
AXES_SHOWN = 6
What = Annotated[
    str,
    typer.Argument(
        metavar=f"FILE|{'|'.join(TOOLS)}", help="A bundle that cse bundle wrote, or a tool.", show_default=False
    ),
]
Place = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="Of a tool: its file or folder, a database's URL, a tracking URI, or ENTITY/PROJECT.",
        show_default=False,
    ),
]
As = Annotated[
    str | None, typer.Option("--as", metavar="NAME", help="Of a tool: the sweep's name here.", show_default=False)
]
Score = Annotated[
    str | None,
    typer.Option("--score", metavar="KEY", help="Of a tool: the metric that counts.", show_default=False),
]
Study = Annotated[
    str | None,
    typer.Option("--study", metavar="NAME", help="Optuna's study, MLflow's experiment.", show_default=False),
]
Rename = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar="NAME=KEY", help="A setting's name here; may be given again.", show_default=False),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME[:max|min][:0-1]",
        help="Of a tool: a number to take, its better end and its range; the first counts where --score is absent.",
        show_default=False,
    ),
]
Seed = Annotated[
    str | None,
    typer.Option("--seed", metavar="NAME", help="Of a tool: the column or setting of the seed.", show_default=False),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="NAME",
        help="Of a tool: a setting or column to leave out; may be given again.",
        show_default=False,
    ),
]
RowLabel = Annotated[
    str | None,
    typer.Option("--row", metavar="LABEL", help="The runs are this row of the table --as ID.", show_default=False),
]
About = Annotated[
    str | None,
    typer.Option("--about", metavar="TEXT", help="Whose code made the runs: URL, settings.", show_default=False),
]
Licence = Annotated[str | None, typer.Option("--licence", metavar="NAME", help="Of the runs.", show_default=False)]
Negate = Annotated[bool, typer.Option("--negate", help="The lower score is the better one, as --better lower.")]
Better = Annotated[
    str | None,
    typer.Option(
        parser=options.choice("better", ("lower", "higher")),
        metavar="lower|higher",
        help="Of a tool: which score is the better one (higher; Optuna says it).",
        show_default=False,
    ),
]
Width = Annotated[
    float | None,
    typer.Option(
        "--scale",
        metavar="WIDTH",
        help="Of a tool: how wide the score's range is, 1 or 100; a tie is half of a hundredth of it.",
        show_default=False,
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
        of_tools: dict[str, object] = {
            "--as": name,
            "--row": row,
            "--score": score,
            "--metric": metrics,
            "--seed": seed,
        }
        of_tools |= {
            "--study": study,
            "--rename": rename,
            "--drop": drop,
            "--negate": negate,
            "--better": better,
            "--scale": scale,
        }
        unread = [option for option, value in {**of_tools, "--about": about, "--licence": licence}.items() if value]
        if unread and what not in TOOLS:
            line = f"options of a tool: {', '.join(unread)} with the bundle {what}"
            raise ConfigError([f"{line}; leave them out, or name a tool first"])
        _import_bundle(Path(what), ledger)
        return
    if what not in TOOLS:
        raise ConfigError([f"unknown tool: import={what}; {nearest(what, TOOLS)}"])
    module, asked = sources.load(what), read_metrics(metrics or [])
    given = next((metric for metric in asked if metric.name == score), None)
    if score is None and row is None:
        given = asked[0] if asked else Asked(module.SCORE) if module.SCORE else None
    elif given is None and score is not None:
        given = Asked(score)
    lacking = {"--as NAME": name, "--score KEY": given or row}
    if not all(lacking.values()):
        raise ConfigError([f"nothing given: {option}; give it too" for option, value in lacking.items() if not value])
    names, runs = _names(rename or []), module.read(source, study)
    taking = Taking(
        tool=what,
        source=mask_password(source),
        sweep=str(name),
        score="" if given is None else given.name,
        span=positive(scale, "scale") or (given.span if given else None),
        names=names,
        metrics=asked,
        seed=seed,
        drop=drop or [],
        about=about or "",
        licence=licence or "",
        is_local=getattr(module, "LOCAL", False),
    )
    if row is not None:
        runs, taking = _place(runs, taking, find_row(taking.sweep, row))
    lower = {name for run in runs if not run.unfinished for name in run.lower}
    sense = _sense(given or Asked(taking.score), negate, better, taking.score in lower)
    columns = [
        replace(each, better=_sense(each, False, None, each.name in lower)) if each.name != taking.score else each
        for each in taking.metrics
    ]
    taking = replace(taking, better=sense, metrics=columns)
    with ledgers.ledger_to_fill(ledger) as opened:
        merged, left_out, metric = take(runs, taking, opened)
        print(f"{count_merged(merged)} as {taking.sweep}  (ledger {opened.url})\n{describe_metric(metric)}")
        print(describe_settings([link.cell for link in opened.cells(taking.sweep)]))
        exit.say(left_out)
        if taking.row is not None:
            _print_row(taking, opened)


def _place(runs: Sequence[ForeignRun], taking: Taking, row: TableRow) -> tuple[Sequence[ForeignRun], Taking]:
    """The runs with the table's suites for their columns, and what is asked of them."""
    names = {*row.suites, *row.suites.values(), row.dev}
    given = {name: key for name, key in taking.names.items() if key in names}
    columns = row.columns_of(runs, given, taking.score or None)
    placed = row.place(runs, columns)
    is_dev = row.dev in columns.values()
    suites = row.metrics(columns, placed)
    renamed = [f"{name} is {suite}" for name, suite in columns.items() if name != suite]
    if renamed:
        print(f"taken by name: {', '.join(renamed)}")
    return placed, replace(
        taking,
        row=row,
        sweep=taking.sweep if "@" in taking.sweep else f"{row.resolved.space.id}@{UNNAMED}",
        score=row.dev if is_dev else suites[-1].name,
        is_dev=is_dev,
        metrics=suites,
        names={name: key for name, key in taking.names.items() if name not in given},
    )


def _print_row(taking: Taking, ledger: Ledger) -> None:
    """The row's values beside the paper's, with a verdict for each."""
    (sweep,) = (each for each in ledger.sweeps() if each.id == taking.sweep)
    made, verdicts = study.read_judged(sweep, ledger, None)
    assert taking.row is not None
    key = full_key(taking.row.resolved, taking.row.cell.key)
    place = next(place for place, each in enumerate(made.rows) if identify(each.key) == identify(key))
    shown = {(0, column): verdict for (index, column), verdict in (verdicts or {}).items() if index == place}
    alone = replace(made, rows=[made.rows[place]], spec=replace(made.spec, references=[]))
    print("\n" + table_text.show_table(alone, shown), end="")


def _sense(score: Asked, negate: bool, better: str | None, minimised: bool) -> Sense | None:
    """Which score is better, by the options and by the tool. ConfigError where they contradict each other."""
    lower = {"--negate": negate, "the study minimises it": minimised, "--metric says min": score.better == "lower"}
    says_lower = [what for what, said in lower.items() if said]
    says_higher = ["--metric says max"] if score.better == "higher" else []
    (says_higher if better == "higher" else says_lower).extend([f"--better={better}"] if better else [])
    if says_lower and says_higher:
        asked = f"--better={better} of " if better else ""
        other = next(what for what in (*says_lower, *says_higher) if what != f"--better={better}")
        raise ConfigError([f"two directions: {asked}score={score.name}, and {other}; leave one out"])
    return "lower" if says_lower else "higher" if says_higher else None


def describe_metric(metric: Metric) -> str:
    """What is taken for granted of the score."""
    span = metric.scale.span
    unknown = "its range is not known, so that nothing is called a tie: --scale 1, or 100, says it"
    width = unknown if span is None else f"its range is {span:g} wide, and a tie within ±{TIE_MARGIN * span / 100:g}"
    return f"{metric.name}: the {metric.scale.better} value is the better one; {width}"


def describe_settings(cells: Sequence[Settings]) -> str:
    """Which settings make the runs of a sweep cells of their own, and which are equal in all."""
    names = list(dict.fromkeys(itertools.chain(*cells)))
    varied = varying(cells, names)
    count = number_of(len({json.dumps(cell, sort_keys=True) for cell in cells}), "cell")
    equal = [name for name in names if name not in varied]
    apart = f", told apart by {some(varied, AXES_SHOWN)}" if varied else ""
    return f"{count}{apart}" + (f"; equal in all: {some(equal, AXES_SHOWN)}" if equal else "")


def _names(pairs: list[str]) -> dict[str, str]:
    wrong = [pair for pair in pairs if not all(pair.partition("="))]
    if wrong:
        raise ConfigError([f"wrong --rename: rename={pair}; write --rename NAME=KEY" for pair in wrong])
    return {left.strip(): right.strip() for left, _, right in (pair.partition("=") for pair in pairs)}


def _import_bundle(file: Path, ledger: str | None) -> None:
    """All of its runs or, where one contradicts a run that is there, none."""
    if not file.is_file():
        hint = f"name a bundle (cse bundle writes one), or a tool and its source ({', '.join(TOOLS)})"
        raise ConfigError([f"no such file: file={file}; {hint}"])
    bundle = Bundle(file)
    with ledgers.ledger_to_fill(ledger) as opened:
        merged = opened.merge(check_records(bundle), RecordSource(file.name, bundle.header.sha256))
    print(f"{count_merged(merged)}  (ledger {opened.url})")
    exit.say(list_left_out(merged))


def count_merged(merged: Merged) -> str:
    """What was taken over."""
    parts = [f"{number_of(merged.added, 'run')} imported", f"{merged.there + merged.renewed} already there"]
    parts += [f"{merged.renewed} of them with more settings or metrics than before"] if merged.renewed else []
    parts += [f"{merged.replaced} that had no result here replaced"] if merged.replaced else []
    parts += [f"{number_of(merged.scores, 'score')} of runs here added"] if merged.scores else []
    return ", ".join(parts)


def list_left_out(merged: Merged) -> list[str]:
    """What was not."""
    lines = [f"left out: {number_of(merged.held, 'run')} that a driver trains here now"] if merged.held else []
    if merged.other_sweeps:
        names = ", ".join(merged.other_sweeps)
        lines.append(f"another space, profile or settings under the same name: {names}; the ledger's stays")
    if merged.other_baselines:
        columns = ", ".join(dict.fromkeys(merged.other_baselines))
        lines.append(f"rows without training differ: {columns}; those of the ledger stay")
    return lines
