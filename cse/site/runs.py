"""Runs behind a table's rows: each seed's scores and curve, the command that repeats it, commit and data."""

from collections.abc import Sequence
from dataclasses import dataclass

import markupsafe

from analysis.ledger import RunRow
from analysis.ledger.rows import read_metric
from analysis.render.signs import sign_word
from analysis.report.facts import Grid
from analysis.study.study import Member
from analysis.tables.aggregate import Row
from analysis.tables.results import DEV
from analysis.tables.spec import identify
from cse.site.content import Scale, Sheet, tone
from cse.site.drawing import Curve, curves
from cse.site.grid import anchor

NAME_DIGITS = 12
"""Hexadecimal digits shown of a commit or hash; the JSON has all of them."""
DASH = "–"


@dataclass(frozen=True)
class RowResult:
    """Mean of a row in one column, and the verdict with its reason, if there is one."""

    anchor: str
    column: str
    ours: str
    verdict: str = ""
    tone: str = ""
    reason: str = ""


@dataclass(frozen=True)
class RowRuns:
    """The runs of one row; `box` names their table for screen readers."""

    name: str
    done: int
    results: Sequence[RowResult]
    runs: Grid
    box: str
    curves: markupsafe.Markup | None
    commands: Sequence[str]
    inputs: str
    """Content hashes of the runs' inputs; an input in which seeds differ has several."""


def list_runs(sheet: Sheet, scale: Scale) -> list[RowRuns]:
    """Returns the runs of every row that has some, in the paper's order."""
    rows = [(index, scale.table.rows[index]) for index in sheet.order(scale.table)]
    runs = [(index, row, [member for member in scale.members(row) if member.run is not None]) for index, row in rows]
    return [_row(sheet, scale, index, row, members) for index, row, members in runs if members]


def _row(sheet: Sheet, scale: Scale, index: int, row: Row, members: Sequence[Member]) -> RowRuns:
    name = sheet.row_name(row)
    return RowRuns(
        name=name,
        done=sum(member.done for member in members),
        results=_results(scale, index, row),
        runs=_seeds(scale, row, members),
        box=f"Runs of {name} at {scale.title}",
        curves=_curves(scale, members),
        commands=scale.commands.get(identify(row.key), ()),
        inputs=_inputs(members),
    )


def _results(scale: Scale, index: int, row: Row) -> list[RowResult]:
    results = []
    for column, entry in row.entries.items():
        verdict = scale.verdicts.get((index, column))
        if entry.mean is None and verdict is None:
            continue
        digits = scale.table.digits(column)
        spread = "" if entry.sd is None else f" ± {entry.sd:.{digits}f}"
        mean = "no value" if entry.mean is None else f"{entry.mean:.{digits}f}{spread}"
        judged = (sign_word(verdict.word), tone(verdict.word), verdict.reason) if verdict else ()
        results.append(RowResult(anchor(scale.name, index, column), column, mean, *judged))
    return results


def _seeds(scale: Scale, row: Row, members: Sequence[Member]) -> Grid:
    """Returns a table with a line for each run."""
    columns = [column for column, entry in row.entries.items() if entry.values]
    digits = {column: scale.table.digits(column) for column in columns}
    by_seed = {c: dict(zip(row.entries[c].seeds, row.entries[c].values, strict=True)) for c in columns}
    header = ["seed", "state", *columns, "best at", "examples", "minutes", "commit", "run"]
    body = [
        [str(member.seed), member.state]
        + [f"{by_seed[c][member.seed]:.{digits[c]}f}" if member.seed in by_seed[c] else DASH for c in columns]
        + _facts(scale, member.run)
        for member in members
        if member.run is not None
    ]
    return Grid("Runs, one for each seed", header, body, texts=2)


def _facts(scale: Scale, run: RunRow) -> list[str]:
    counts = [DASH if number is None else f"{number:,}" for number in (run.best_examples, run.examples)]
    minutes = DASH if run.seconds is None else f"{run.seconds / 60:.1f}"
    details = [a.details for a in scale.study.attempts.get(run.signature, ()) if a.attempt == run.attempt]
    commit = next((str(each["commit"]) for each in details if each.get("commit")), "")
    return [*counts, minutes, commit[:NAME_DIGITS] or DASH, run.signature[:NAME_DIGITS]]


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
    hashes: dict[str, dict[str, None]] = {}
    for member in members:
        for name, value in member.run.identity.items() if member.run else ():
            hashes.setdefault(str(name), {})[str(value)[:NAME_DIGITS]] = None
    return "; ".join(f"{name} {', '.join(values)}" for name, values in sorted(hashes.items()))
