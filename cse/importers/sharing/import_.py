"""`cse import`: runs of a bundle, or of another tool, into a ledger."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.bundles.reader import Bundle
from analysis.ledger import mask_password
from analysis.ledger.exchange.merge import Merged, RecordSource
from analysis.statistics.looks import TIE_MARGIN
from analysis.tables.labels import number_of
from analysis.tables.spec import Sense
from cse.cli import exit, ledgers, options
from cse.cli.options import positive
from cse.importers import sources
from cse.importers.take import Taking, take
from cse.tables.imported.metric import Metric
from cse.tables.imported.strangers import check_records
from cse_train.fields import ConfigError, nearest

TOOLS = sources.names()
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
    score: Score = None,
    study: Study = None,
    rename: Rename = None,
    negate: Negate = False,
    better: Better = None,
    scale: Width = None,
) -> None:
    """Take the runs of a bundle, or finished runs of another tool, over into a ledger."""
    if source is None:
        of_tools = {"--as": name, "--score": score, "--study": study, "--rename": rename, "--negate": negate}
        unread = [name for name, value in {**of_tools, "--better": better, "--scale": scale}.items() if value]
        if unread and what not in TOOLS:
            line = f"options of a tool: {', '.join(unread)} with the bundle {what}"
            raise ConfigError([f"{line}; leave them out, or name a tool first"])
        _import_bundle(Path(what), ledger)
        return
    if what not in TOOLS:
        raise ConfigError([f"unknown tool: import={what}; {nearest(what, TOOLS)}"])
    module = sources.load(what)
    score = score or module.SCORE
    lacking = {"--as NAME": name, "--score KEY": score}
    if not (name and score):
        raise ConfigError([f"nothing given: {option}; give it too" for option, value in lacking.items() if not value])
    names = _names(rename or [])
    runs = module.read(source, study)
    sense = _sense(score, negate, better, any(score in run.lower and not run.unfinished for run in runs))
    span = positive(scale, "scale")
    taking = Taking(
        tool=what, source=mask_password(source), sweep=name, score=score, better=sense, span=span, names=names
    )
    with ledgers.ledger_to_fill(ledger) as opened:
        merged, left_out, metric = take(runs, taking, opened)
    print(f"{count_merged(merged)} as {name}  (ledger {opened.url})\n{describe_metric(metric)}")
    exit.say(left_out)


def _sense(score: str, negate: bool, better: str | None, minimised: bool) -> Sense | None:
    """Which score is better, by the options and by the tool. ConfigError where they contradict each other."""
    if better == "higher" and (negate or minimised):
        other = "--negate" if negate else "the study minimises it"
        raise ConfigError([f"two directions: --better={better} of score={score}, and {other}; leave one out"])
    return "lower" if negate or minimised or better == "lower" else "higher" if better else None


def describe_metric(metric: Metric) -> str:
    """What is taken for granted of the score."""
    span = metric.scale.span
    unknown = "its range is not known, so that nothing is called a tie: --scale 1, or 100, says it"
    width = unknown if span is None else f"its range is {span:g} wide, and a tie within ±{TIE_MARGIN * span / 100:g}"
    return f"{metric.name}: the {metric.scale.better} value is the better one; {width}"


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
    parts = [f"{number_of(merged.added, 'run')} imported", f"{merged.there} already there"]
    parts += [f"settings of {number_of(merged.renewed, 'run')} renewed"] if merged.renewed else []
    parts += [f"{merged.replaced} that had no result here replaced"] if merged.replaced else []
    parts += [f"{number_of(merged.scores, 'score')} of runs here added"] if merged.scores else []
    return ", ".join(parts)


def list_left_out(merged: Merged) -> list[str]:
    """What was not."""
    lines = [f"left out: {number_of(merged.held, 'run')} that a driver trains here now"] if merged.held else []
    if merged.other_baselines:
        columns = ", ".join(dict.fromkeys(merged.other_baselines))
        lines.append(f"rows without training differ: {columns}; those of the ledger stay")
    return lines
