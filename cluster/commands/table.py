"""`cse table`: a space's table out of the ledger, finished or not, with the published values beside."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.commands import arguments, baselines, failure, results, sweeping
from cse_train.fields import Scalar

if TYPE_CHECKING:
    from analysis.aggregate import Table
    from analysis.ledger import Ledger, RunRow
    from analysis.results import Planned
    from analysis.table_spec import TableSpec
    from cluster.cells import ResolvedSpace
    from cluster.paper import Paper

UNTRAINED = {"mean": "mean", "first_last": "first_last", "first_last_layer1": "first_last_layer1"}
"""Pooler -> the baseline that it starts from; every [CLS] pooler starts from the bare [CLS]."""
SCALE = ("encoder", "corpus", "examples", "batch_size", "evaluations", "max_seq_length", "learning_rate")


class Markup(StrEnum):
    """What the table is written in."""

    md = "md"
    tex = "tex"
    csv = "csv"
    html = "html"
    json = "json"


FormatOption = Annotated[
    Markup, typer.Option("--format", help="Markdown, LaTeX (booktabs), CSV, an HTML fragment or JSON.")
]
Figure = Annotated[Path | None, typer.Option(help="Also draw the table into this file.", show_default=False)]


def table(
    space: arguments.SpaceName,
    form: FormatOption = Markup.md,
    profile: arguments.Profile = None,
    seeds: arguments.Seeds = None,
    settings: arguments.Set = None,
    ledger: arguments.LedgerUrl = None,
    storage: arguments.Storage = None,
    data: arguments.Data = None,
    senteval: arguments.SentEval = None,
    figure: Figure = None,
) -> None:
    """Print a space's table: rows of its axes, n seeds, mean ± sd, the published value and the difference.

    Cells that lack seeds or are blocked are told on stderr.
    """
    from cluster.space import load_space

    resolved = load_space(space).resolve(profile, arguments.settings(settings))
    folder = arguments.notes_folder(arguments.ledger_url(ledger), arguments.storage_folder(storage))
    if data is not None or senteval is not None:
        paths = arguments.data_paths(data, None, senteval)
        baselines.ensure(setups(resolved), columns_of(resolved), folder, paths)
    opened = arguments.existing_ledger(ledger)
    made = build(resolved, opened, folder, range(seeds) if seeds else None)
    print(rendered(made, form), end="", flush=True)
    if opened is not None and resolved.space.search is None:
        blocked = results.blocked_in(opened, sweeping.sweep_name(resolved))
        failure.say(results.unfinished(made, seeds or len(resolved.space.seeds), blocked))
    if figure is not None:
        draw(made, figure)


def rendered(table: "Table", form: Markup) -> str:
    """The table as text."""
    from analysis.render import render

    return render(table, form.value)


def draw(table: "Table", path: Path) -> None:
    """The table as a figure."""
    from analysis.drawing import save
    from analysis.plots import axis_plot

    save(axis_plot(table), path)


def build(
    resolved: "ResolvedSpace", ledger: "Ledger | None", folder: Path, seeds: Sequence[int] | None = None
) -> "Table":
    """The table as data; `folder` holds the stored rows without training."""
    found = results.answers(resolved, ledger.runs(), seeds) if ledger else []
    planned = [(one.key, one.run.signature, one.run.seed) for one in found]
    return of_planned(resolved, ledger, folder, planned, [one.run for one in found])


def of_planned(
    resolved: "ResolvedSpace",
    ledger: "Ledger | None",
    folder: Path,
    planned: "Sequence[Planned]",
    runs: "Sequence[RunRow] | None" = None,
) -> "Table":
    """`build` of the runs that are named: (cell key, signature, seed); `runs` where they were read before."""
    from analysis.aggregate import Baseline, aggregate
    from analysis.results import results_of

    spec = spec_of(resolved)
    lines = results_of(ledger, planned, spec.columns, spec.scores, runs) if ledger else []
    rows = [Baseline(row["name"], row["cells"]) for row in baselines.stored(setups(resolved), spec.columns, folder)]
    return aggregate(spec, lines, baselines=rows, untrained=_starting_point(resolved, rows))


def spec_of(resolved: "ResolvedSpace") -> "TableSpec":
    """What the space says of its table, for `analysis`."""
    from analysis.table_spec import TableSpec

    space, paper = resolved.space, resolved.space.paper
    rows = [] if resolved.size() is None else [results.full_key(resolved, cell.key) for cell in resolved.cells()]
    printed = [{**row, "key": results.full_key(resolved, row["key"])} for row in paper.as_rows()] if paper else []
    default = results.full_key(resolved, paper.default) if paper and paper.default else None
    return TableSpec(
        id=space.id,
        title=space.title,
        axes=space.axis_names,
        columns=columns_of(resolved),
        rows=rows,
        published=[row for row in printed if row["key"] in rows],
        references=[row.as_dict() for row in paper.references] if paper else [],
        scores=dict(paper.scores) if paper else {},
        default=default if default in rows else None,
        best=paper.best if paper else "max",
        citation=f"{paper.citation}, {paper.table}" if paper else "",
        metric=paper.metric if paper else "",
        protocol=scale(resolved),
        notes=[note for note in (space.notes, *said(paper), scaled(resolved)) if note],
    )


def said(paper: "Paper | None") -> list[str]:
    """What the block says in words: its notes, and the finding of a figure."""
    if paper is None:
        return []
    return [paper.notes, f"The paper's finding: {paper.finding}" if paper.finding else ""]


def scaled(resolved: "ResolvedSpace") -> str:
    """What the profile let run in place of the table's values, and which of them it leaves out; empty for nothing."""
    shown = [f"{name} left out" if v is None else f"{name} is {v}" for name, v in resolved.substitutions().items()]
    return f"At profile {resolved.profile.name}: {', '.join(shown)}." if shown else ""


def columns_of(resolved: "ResolvedSpace") -> list[str]:
    """The paper's columns and what the space evaluates beside them, or else the dev set alone.

    Beside a paper's columns a group of suites shows its average alone.
    """
    from cse_train.evaluate.columns import columns

    paper, suites = resolved.space.paper, resolved.space.evaluate
    printed = list(paper.columns) if paper else []
    stored = {paper.scores.get(name, name) for name in printed} if paper else set()
    evaluated = [column for name in suites for column in columns(name) if not printed or column == name]
    named = list(dict.fromkeys([*printed, *(column for column in evaluated if column not in stored)]))
    return named or list(dict.fromkeys(str(setup["train.dev"]) for setup in setups(resolved)))


def setups(resolved: "ResolvedSpace") -> list[dict[str, Scalar]]:
    """Every cell's settings, defaults spelled out; of an endless space those of one cell per method."""
    if resolved.size() is not None:
        return [cell.flat for cell in resolved.cells()]
    import numpy as np

    return [resolved.sample(np.random.default_rng(0)).run(0).flat()]


def scale(resolved: "ResolvedSpace") -> dict[str, Any]:
    """The scale that all cells share, for the line under the table."""
    flats = setups(resolved)
    shared: dict[str, Any] = {"profile": resolved.profile.name} if resolved.profile.train else {}
    for name in SCALE:
        key = f"train.{name}"
        values = {flat[key] for flat in flats}
        if len(values) == 1 and (key not in resolved.axes or resolved.axes[key].finite):
            shared[name] = values.pop()
    return shared


def _starting_point(resolved: "ResolvedSpace", rows: Sequence[Any]) -> dict[str, float] | None:
    """Column -> the untrained encoder's value under the cells' pooler; None where they differ or it is not stored."""
    poolers = {UNTRAINED.get(str(flat.get("method.pooler")), "cls") for flat in setups(resolved)}
    label = baselines.NAMES[poolers.pop()] if len(poolers) == 1 else None
    return next((dict(row.cells) for row in rows if row.label == label), None)
