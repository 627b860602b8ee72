"""Report on a study: sections of sentences, tables and figures, each only where the ledger has its inputs.

It is written as one HTML page that loads nothing, runs no script, and escapes every text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from analysis.answers.judge import Verdicts
from analysis.figures.canvas import data_uri, save
from analysis.figures.study import budget_plot, effects_plot, histogram_plot, importance_plot, learning_plot, plane_plot
from analysis.figures.table import axis_plot
from analysis.render.formats import render
from analysis.render.templates import fill
from analysis.render.verdicts import headline, order_lines
from analysis.report import facts
from analysis.report.facts import Grid
from analysis.statistics.basics import mean_and_sd
from analysis.statistics.importance import Importance, importance
from analysis.study.figure_data import CURVES_SHOWN, budget, learning_bands, plane, rating_histogram, read_rated
from analysis.study.study import Study, sum_cost
from analysis.tables.aggregate import Table
from analysis.tables.ordering import Ordering
from analysis.tables.results import BEST_COLUMN
from analysis.tables.spec import plain
from cse_train.files import replace_text

LISTED_ROWS = 40
"""Number of rows above which an axis plot is unreadable and left out."""
CURVE_COLUMNS = 3
"""Number of columns of the table that get an axis plot."""
PANELS = 9
"""Number of axes that get a panel of their own."""


@dataclass(frozen=True)
class Picture:
    """One figure of a report with its alternative text and caption."""

    name: str
    """File name of the figure without suffix."""
    alt: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """One heading of a report with its content in the order of the fields."""

    heading: str
    texts: Sequence[str] = ()
    table: Table | None = None
    pictures: Sequence[Picture] = ()
    grids: Sequence[Grid] = ()
    code: str = ""


@dataclass(frozen=True)
class Report:
    """Content of a report's page."""

    title: str
    headline: str
    """Counts of verdicts, and whether the scale is the paper's; empty where nothing was judged."""
    summary: str
    sections: Sequence[Section]

    @property
    def pictures(self) -> list[Picture]:
        return [picture for section in self.sections for picture in section.pictures]


def make_report(
    study: Study,
    table: Table,
    verdicts: Verdicts | None = None,
    ordering: Sequence[Ordering] = (),
    *,
    same_scale: bool = True,
) -> Report:
    """Makes the report of a study with at least one finished run; equal ledgers give equal reports.

    `same_scale` says that the runs are the paper's, setting by setting.
    """
    assert study.finished, study.id
    title = " · ".join(part for part in (study.id, study.title) if part)
    order = order_lines(table, ordering)
    ordered = [Section("Order of the rows", order)] if order else []
    missing = Section("Runs without a result", ["None: every run finished."])
    if study.missing:
        missing = Section("Runs without a result", grids=[facts.missing(study)])
    provenance = [facts.environment(study), facts.inputs(study), facts.protocols(study)]
    sections = [
        _results(table, verdicts or {}),
        *ordered,
        *(make(study) for make in (_learning, _axes, _plane, _cosines, _budget)),
        Section("Cost", grids=[facts.cost(study)]),
        missing,
        Section("Provenance", grids=provenance),
        Section("How to repeat it", code=study.command),
    ]
    cost = sum_cost(study)
    head = headline(table, verdicts or {}, same_scale=same_scale, seconds=cost.seconds / max(1, cost.runs))
    return Report(title, head, _summary(study, table), sections)


def page(report: Report) -> str:
    """Returns the whole page; equal reports give equal text."""
    return fill("analysis/report/page.html", report=report, results=partial(render, format="html"), data_uri=data_uri)


def write_report(report: Report, folder: Path, *, figures: bool = False) -> Path:
    """Writes `index.html` and, on request, each figure as PNG and PDF next to it; returns the page's path."""
    for picture in report.pictures if figures else ():
        for suffix in ("png", "pdf"):
            save(picture.figure, folder / f"{picture.name}.{suffix}")
    target = folder / "index.html"
    replace_text(target, page(report))
    return target


def _summary(study: Study, table: Table) -> str:
    best = study.ranked[0]
    values = [run.best for _, run in study.cells[best] if run.best is not None]
    mean, sd = mean_and_sd(values)
    column = next((name for name in table.spec.columns if name in (BEST_COLUMN, study.dev)), table.spec.columns[0])
    digits = table.digits(column)
    spread = "" if sd is None else f" ± {sd:.{digits}f}"
    methods = ", ".join(sorted({run.method for _, run in study.finished}))
    return (
        f"{methods}: {len(study.finished)} of {len(study.members)} runs finished, {len(study.cells)} cells. "
        f"Best on {study.dev}: {best}, {mean:.{digits}f}{spread} (n {len(values)}), picked as the highest of "
        f"{len(study.cells)} means."
    )


def _results(table: Table, verdicts: Verdicts) -> Section:
    grids = [facts.verdicts(table, verdicts)] if verdicts else []
    columns = [c for c in table.spec.columns if any(row.entries[c].mean is not None for row in table.rows)]
    if len(table.rows) > LISTED_ROWS:
        text = f"{len(table.rows)} rows are too many for one axis; each axis has its own panel below."
        return Section("Results", [text], table, grids=grids)
    pictures = [_axis_picture(table, column) for column in columns[:CURVE_COLUMNS]]
    unscored = [column for column in table.spec.columns if column not in columns]
    texts = [f"No run has a score on {', '.join(unscored)}."] if unscored else []
    return Section("Results", texts, table, pictures, grids)


def _axis_picture(table: Table, column: str) -> Picture:
    means = [row.entries[column].mean for row in table.rows]
    measured = [mean for mean in means if mean is not None]
    axes = ", ".join(table.named) or "one cell"
    published, digits = any(row.entries[column].published is not None for row in table.rows), table.digits(column)
    return Picture(
        f"axis-{facts.slug(column)}",
        f"{column} over {axes}: {len(measured)} means from {min(measured):.{digits}f} to {max(measured):.{digits}f}",
        "A ring per seed; a dot for the mean with its 95% interval, from the row's own seeds where it has three"
        + (
            "; squares for the published values, in a panel whose scale begins elsewhere and has the same span."
            if published
            else "."
        ),
        axis_plot(table, column),
    )


def _learning(study: Study) -> Section:
    bands = learning_bands(study)
    if not bands:
        return Section("Learning curves", ["The ledger has no curve of a finished run."])
    few = (
        f"The {CURVES_SHOWN - 1} best of {len(study.cells)} cells, and the worst. "
        if len(study.cells) > CURVES_SHOWN
        else ""
    )
    ends = [band.means[-1] for band in bands]
    reached = f"at the end from {min(ends):.2f} to {max(ends):.2f}"
    alt = f"{study.dev} over training examples for {len(bands)} cells; {reached}"
    caption = f"{few}Mean over seeds at each evaluation, with a band of one standard deviation."
    return Section("Learning curves", pictures=[Picture("learning", alt, caption, learning_plot(bands, study.dev))])


def _axes(study: Study) -> Section:
    keys = [{axis: plain(value) for axis, value in member.key.items()} for member, _ in study.finished]
    scores = [run.best or 0.0 for _, run in study.finished]
    parts = importance(keys, scores, study.axes)
    if parts is None:
        return Section("Importance of axes", ["No axis has two values with finished runs."])
    names = [axis.axis for axis in sorted(parts.axes, key=lambda axis: (-axis.share, axis.axis))]
    largest = ", ".join(f"{axis.axis} {axis.share:.0%}" for axis in parts.axes)
    share = Picture("importance", f"Share of each axis: {largest}", _importance_caption(parts), importance_plot(parts))
    effects = Picture(
        "effects",
        f"{study.dev} over the values of {', '.join(names[:PANELS])}, one panel each",
        "A ring per run, a diamond for the best. Where an axis has few values: means with 95% intervals, those of rows "
        "that differ in more than the axis in colours of their own; where such rows are many, means only if each value "
        "has equally many runs of each.",
        effects_plot(keys, scores, names[:PANELS], study.dev),
    )
    pictures = [share, effects] if len(names) > 1 else [share]
    return Section("Importance of axes", pictures=pictures, grids=[facts.shares(parts)])


def _importance_caption(effects: Importance) -> str:
    parts = [
        f"Sums of squares of an additive model over {effects.runs} runs (type II): what it loses without an axis.",
        "The mark is the share that seeds alone reach once in twenty times (F test against differences within cells)."
        if effects.seeds is not None
        else "No cell has two seeds: what seeds alone would show is not known.",
        "" if effects.balanced else "The runs are not balanced over the axes: what two axes share counts for neither.",
    ]
    return " ".join(part for part in parts if part)


def _plane(study: Study) -> Section:
    points = plane(study)
    if points is None:
        return Section("Alignment and uniformity", ["No finished run has both numbers."])
    alt = f"Alignment over uniformity of {len(points.points)} runs, coloured by {study.dev}"
    caption = f"A mark per run; measured on: {points.source}."
    return Section("Alignment and uniformity", pictures=[Picture("plane", alt, caption, plane_plot(points, study.dev))])


def _cosines(study: Study) -> Section:
    cells = list(dict.fromkeys([study.ranked[0], study.ranked[-1]]))
    suite, cosines = read_rated(study, cells)
    histograms = [rating_histogram(cell, runs) for cell, runs in cosines.items() if runs]
    if not histograms:
        return Section("Cosines by rating", ["No kept per-pair cosines of the best or the worst cell are at hand."])
    alt = f"Histograms of cosines on {suite} in five rating groups for {' and '.join(h.label for h in histograms)}"
    caption = f"{suite}, all seeds together; the line is the group's mean. Best cell" + (
        " and worst cell." if len(histograms) > 1 else "."
    )
    return Section("Cosines by rating", pictures=[Picture("cosines", alt, caption, histogram_plot(histograms))])


def _budget(study: Study) -> Section:
    progress = budget(study)
    reached = f"from {progress.scores[0]:.2f} to {progress.best[-1]:.2f}"
    alt = f"Best {study.dev} so far over {progress.spent[-1]} training examples: {reached}"
    caption = (
        "Cells in the order in which they ended. Dashed: the expected best of as many of these cells drawn at random."
    )
    return Section("Budget against best", pictures=[Picture("budget", alt, caption, budget_plot(progress, study.dev))])
