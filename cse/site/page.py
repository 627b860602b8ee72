"""Page of one table: its verdicts, the table as the paper prints it, pictures, and the runs behind every entry."""

from collections.abc import Sequence
from dataclasses import dataclass

import markupsafe

from analysis.answers.judge import Verdicts
from analysis.answers.paper_scale import tell_unlike
from analysis.ledger.rows import read_metric
from analysis.render.formats.html import HTML
from analysis.render.grid import baseline_grid, difference_line, grid, remark_lines, text_columns
from analysis.render.signs import sign_word
from analysis.render.templates import fill
from analysis.render.verdicts import order_said
from analysis.report.facts import Grid
from analysis.study.study import Member
from analysis.tables.aggregate import Row, Table
from analysis.tables.columns import Entry
from analysis.tables.labels import duration, number_of
from analysis.tables.results import DEV
from analysis.tables.spec import identify
from cse.site.citation import read
from cse.site.content import Scale, Sheet, tone
from cse.site.drawing import Curve, curves, plot_columns

MEAN = "avg"
"""Column of averages over all others; it comes first, where nothing cuts it off."""
NAME_DIGITS = 12
"""Hexadecimal digits shown of a commit or hash; the JSON has all of them."""
DASH = "–"


def page(sheet: Sheet, before: Sheet | None, after: Sheet | None) -> str:
    """Returns the HTML of tables/ID.html, with links to the tables before and after; equal tables give equal text."""
    conclusions = [scale.headline.partition(": ")[2] or sheet.state.text for scale in sheet.scales]
    at = f" at {sheet.main.title}" if sheet.main else ""
    return fill(
        "cse/site/page.html",
        sheet=sheet,
        before=before,
        after=after,
        headline=f"{sheet.id}{at}: {conclusions[0] if conclusions else sheet.state.text}",
        others=[(scale, text.partition(";")[0]) for scale, text in zip(sheet.scales[1:], conclusions[1:], strict=True)],
        cite=read(sheet.citation, sheet.source) if sheet.citation else None,
        facts=_facts,
        difference_line=difference_line,
        make_table=make_table,
        plot_columns=plot_columns,
        orders=_orders,
        rows=_rows,
        mean_text=_mean_text,
        seeds=_seeds,
        curves=_curves,
        commands=lambda scale, row: scale.commands.get(identify(row.key), ()),
        inputs=_inputs,
        remark_lines=remark_lines,
        sign_word=sign_word,
        tone=tone,
    )


def _facts(sheet: Sheet, scale: Scale) -> str:
    scope = "The paper's own settings" if scale.same else "Not the paper's scale"
    scope = scope if sheet.citation else "No paper's table"
    differences = f": {tell_unlike(scale.unlike)}" if scale.unlike and sheet.citation else ""
    runs = f"{number_of(scale.spent.runs, 'run')}, {number_of(scale.seeds, 'seed')}"
    return f"{scope}{differences}. {runs}, {duration(scale.spent.seconds)} of runs in sum"


def _orders(sheet: Sheet, scale: Scale) -> list[tuple[str, list[str]]]:
    """Returns (column, lines on the order of rows by it); empty where no column has an order to compare."""
    names = [sheet.row_name(row) for row in scale.table.rows]
    is_compared = any(order.tau is not None for order in scale.ordering)
    return [(order.column, order_said(order, names)) for order in scale.ordering] if is_compared else []


@dataclass(frozen=True)
class Value:
    """One entry of a table, as texts; each may be empty."""

    ours: str
    paper: str = ""
    delta: str = ""
    verdict: str = ""
    anchor: str = ""
    """Anchor of the runs behind the value, on the same page."""
    from_reference: str = ""
    """Difference from the reference row, measured and in the paper; only at another scale than the paper's."""


@dataclass(frozen=True)
class RowOnPage:
    """One row of a table on the site; `is_ours` is True for a row that cse-search trained."""

    keys: Sequence[str]
    seeds: str
    values: Sequence[Value]
    is_ours: bool
    is_idle: bool
    """True for a row that was not run, in a table with others that were: it is folded."""


@dataclass(frozen=True)
class TableOnPage:
    """A results table in the form that its page shows."""

    caption: str
    axes: Sequence[str]
    columns: Sequence[str]
    has_seeds: bool
    rows: Sequence[RowOnPage]
    """Rows in the paper's order, then those that are not trained."""
    baselines: Sequence[Sequence[str]]
    """Rows without training, by which runs start: a name, and a score for each column."""


def make_table(sheet: Sheet, table: Table, verdicts: Verdicts, scale: Scale | None) -> TableOnPage:
    """Returns a table in the paper's layout; measured values have their verdicts, and link to the runs behind them."""
    (header, body), texts, own_rows = grid(table, HTML), text_columns(table), len(table.rows)
    places, place = {}, texts + 1
    for column in table.spec.columns:  # a column with published values has two more: theirs, and the difference
        places[column] = slice(place, place + (3 if header[place + 1 : place + 2] == [f"{column} paper"] else 1))
        place = places[column].stop
    columns = sorted(table.spec.columns, key=lambda column: column != MEAN)
    some_run = any(line[places[column].start] for line in body[:own_rows] for column in columns)
    rows = []
    for index, line in enumerate(body):
        is_ours = index < own_rows
        keys = line[:texts]
        if sheet.names:
            keys = [sheet.row_name(table.rows[index])] if is_ours else keys[:1]
        values = [_value(line[places[column]], verdicts, index, column, scale) for column in columns]
        is_idle = is_ours and some_run and not any(value.ours for value in values)
        rows.append(RowOnPage(keys, line[texts], values, is_ours, is_idle))
    baselines = [dict(zip(("", *table.spec.columns), line, strict=True)) for line in baseline_grid(table, HTML)[1]]
    return TableOnPage(
        caption=". ".join(part for part in (sheet.where, sheet.metric) if part),
        axes=["row"] if sheet.names else header[:texts],
        columns=columns,
        has_seeds=scale is not None,
        rows=[*(rows[index] for index in sheet.order(table)), *rows[own_rows:]],
        baselines=[[line[column] for column in ("", *columns)] for line in baselines],
    )


def _value(texts: Sequence[str], verdicts: Verdicts, row: int, column: str, scale: Scale | None) -> Value:
    """Returns an entry from its texts (ours, the paper's, the difference), with its verdict and its link."""
    verdict = verdicts.get((row, column))
    is_linked = texts[0] and scale is not None and row < len(scale.table.rows)
    from_reference = ""
    if verdict is not None and scale is not None and not scale.same and verdict.interval is not None:
        mean = sum(verdict.interval) / 2
        from_reference = f"{mean:+.2f} from ○, paper {verdict.published:+.6g}".replace("-", "−")
    ours, paper, delta = (*texts, "", "")[:3]
    anchor = scale.anchor(row, column) if scale is not None and is_linked else ""
    return Value(ours, paper, delta, verdict.word if verdict else "", anchor, from_reference)


def _rows(sheet: Sheet, scale: Scale) -> list[tuple[int, Row, list[Member]]]:
    """Returns (index, row, its runs by seed) for every row that has some, in the paper's order."""
    rows = [(index, scale.table.rows[index]) for index in sheet.order(scale.table)]
    runs = [(index, row, [member for member in scale.members(row) if member.run is not None]) for index, row in rows]
    return [(index, row, members) for index, row, members in runs if members]


def _mean_text(table: Table, column: str, entry: Entry) -> str:
    digits = table.digits(column)
    spread = "" if entry.sd is None else f" ± {entry.sd:.{digits}f}"
    return "no value" if entry.mean is None else f"{entry.mean:.{digits}f}{spread}"


def _seeds(scale: Scale, row: Row, members: Sequence[Member]) -> Grid:
    """Returns a table with a line for each run."""
    columns = [column for column, entry in row.entries.items() if entry.values]
    by_seed = {c: dict(zip(row.entries[c].seeds, row.entries[c].values, strict=True)) for c in columns}
    body = []
    for member in members:
        if (run := member.run) is None:
            continue
        scores = [(by_seed[column].get(member.seed), scale.table.digits(column)) for column in columns]
        counts = [DASH if number is None else f"{number:,}" for number in (run.best_examples, run.examples)]
        minutes = DASH if run.seconds is None else f"{run.seconds / 60:.1f}"
        details = [a.details for a in scale.study.attempts.get(run.signature, ()) if a.attempt == run.attempt]
        commit = next((str(each["commit"]) for each in details if each.get("commit")), "")
        texts = [DASH if score is None else f"{score:.{digits}f}" for score, digits in scores]
        facts = [*counts, minutes, commit[:NAME_DIGITS] or DASH, run.signature[:NAME_DIGITS]]
        body.append([str(member.seed), member.state, *texts, *facts])
    header = ["seed", "state", *columns, "best at", "examples", "minutes", "commit", "run"]
    return Grid("Runs, one for each seed", header, body, texts=2)


def _curves(scale: Scale, members: Sequence[Member]) -> markupsafe.Markup | None:
    """Draws the learning curves of the runs; None where no run has a curve."""
    lines = []
    metrics: dict[str, None] = {}
    for member in members:
        run = member.run
        if run is None or DEV not in run.config:
            continue
        points = read_metric(scale.study.curves.get(run.signature, ()), str(run.config[DEV]))
        if points:
            metrics[str(run.config[DEV])] = None
            lines.append(Curve(member.seed, list(points), list(points.values()), run.best_examples))
    return curves(lines, ", ".join(metrics)) if lines else None


def _inputs(members: Sequence[Member]) -> str:
    """Returns the content hashes of the runs' inputs; an input in which seeds differ has several."""
    hashes: dict[str, dict[str, None]] = {}
    for member in members:
        for name, value in member.run.identity.items() if member.run else ():
            hashes.setdefault(str(name), {})[str(value)[:NAME_DIGITS]] = None
    return "; ".join(f"{name} {', '.join(values)}" for name, values in sorted(hashes.items()))
