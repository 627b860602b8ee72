"""What lies behind a row of a table: each seed's scores, its curve, the command that repeats it, commit and data."""

from collections.abc import Sequence

from analysis.ledger import RunRow
from analysis.ledger.queries import measured
from analysis.render.formats.html import HTML
from analysis.render.signs import signed
from analysis.report.facts import Grid
from analysis.report.page import boxed, grid_table
from analysis.site.content import Scale, Sheet, tone
from analysis.site.drawing import Curve, curves, swatch
from analysis.site.grid import anchor
from analysis.study.study import Member
from analysis.tables.aggregate import Row
from analysis.tables.results import DEV
from analysis.tables.spec import identify

DIGITS = 12
"""Hexadecimal digits shown of a commit and a hash; the JSON has them all."""
DASH = "–"


def behind(sheet: Sheet, scale: Scale) -> str:
    """One closed block for each row that has a run; a link to an entry opens it."""
    blocks = []
    for index in sheet.order(scale.table):
        row = scale.table.rows[index]
        members = [member for member in scale.members(row) if member.run is not None]
        if members:
            blocks.append(_row(sheet, scale, index, row, members))
    return "\n".join(blocks)


def _row(sheet: Sheet, scale: Scale, index: int, row: Row, members: Sequence[Member]) -> str:
    done = sum(member.done for member in members)
    name = HTML.escape(sheet.row_name(row))
    parts = [
        f'<details class="row"><summary><b>{name}</b> <span class="soft">'
        f"{done} of {len(members)} runs finished</span></summary>",
        f'<ul class="said">{_said(scale, index, row)}</ul>',
        boxed(
            grid_table(_seeds(scale, row, members)),
            len(members),
            f"Runs of {sheet.row_name(row)} at profile {scale.name}",
        ),
        _curves(scale, members),
        "<h4>Repeat it</h4>",
        *(f"<pre><code>{HTML.escape(text)}</code></pre>" for text in scale.commands.get(identify(row.key), ())),
        _inputs(members),
        "</details>",
    ]
    return "\n".join(part for part in parts if part)


def _said(scale: Scale, index: int, row: Row) -> str:
    """A line for each result of the row: our mean, the verdict and its reason."""
    lines = []
    for column, entry in row.entries.items():
        verdict = scale.verdicts.get((index, column))
        if entry.mean is None and verdict is None:
            continue
        spread = "" if entry.sd is None else f" ± {entry.sd:.2f}"
        ours = "no value" if entry.mean is None else f"{entry.mean:.2f}{spread}"
        word = ""
        if verdict is not None:
            word = f', <b class="{tone(verdict.word)}">{HTML.escape(signed(verdict.word))}</b>: '
            word += HTML.escape(verdict.reason)
        lines.append(f'<li id="{anchor(scale.name, index, column)}"><b>{HTML.escape(column)}</b> {ours}{word}</li>')
    return "".join(lines)


def _seeds(scale: Scale, row: Row, members: Sequence[Member]) -> Grid:
    """The runs, a line each."""
    columns = [column for column, entry in row.entries.items() if entry.values]
    of_seed = {c: dict(zip(row.entries[c].seeds, row.entries[c].values, strict=True)) for c in columns}
    header = ["seed", "state", *columns, "best at", "examples", "minutes", "commit", "run"]
    body = [
        [str(member.seed), member.state]
        + [f"{of_seed[c][member.seed]:.2f}" if member.seed in of_seed[c] else DASH for c in columns]
        + _facts(scale, member.run)
        for member in members
        if member.run is not None
    ]
    return Grid("Runs, one for each seed", header, body, texts=2)


def _facts(scale: Scale, run: RunRow) -> list[str]:
    counts = [DASH if number is None else f"{number:,}" for number in (run.best_examples, run.examples)]
    minutes = DASH if run.seconds is None else f"{run.seconds / 60:.1f}"
    return [*counts, minutes, _commit(scale, run), run.signature[:DIGITS]]


def _commit(scale: Scale, run: RunRow) -> str:
    details = [a.details for a in scale.study.attempts.get(run.signature, ()) if a.attempt == run.attempt]
    commit = next((str(each["commit"]) for each in details if each.get("commit")), "")
    return commit[:DIGITS] or DASH


def _curves(scale: Scale, members: Sequence[Member]) -> str:
    """The figure, with a list of whose line is whose; empty where no run has a curve."""
    lines = []
    metrics: dict[str, None] = {}
    for member in members:
        run = member.run
        if run is None or DEV not in run.config:
            continue
        points = measured(scale.study.curves.get(run.signature, ()), str(run.config[DEV]))
        if points:
            metrics[str(run.config[DEV])] = None
            lines.append(Curve(member.seed, list(points), list(points.values()), run.best_examples))
    if not lines:
        return ""
    keys = "".join(f"<li>{swatch(place)} seed {line.seed}</li>" for place, line in enumerate(lines))
    return curves(lines, ", ".join(metrics)) + f'<ul class="legend">{keys}</ul>'


def _inputs(members: Sequence[Member]) -> str:
    """What the runs read, by content hash; an input in which seeds differ has a hash for each."""
    hashes: dict[str, dict[str, None]] = {}
    for member in members:
        for name, value in member.run.identity.items() if member.run else ():
            hashes.setdefault(str(name), {})[str(value)[:DIGITS]] = None
    shown = "; ".join(f"{name} {', '.join(values)}" for name, values in sorted(hashes.items()))
    return f'<p class="soft">Data and code, by content hash: <code>{HTML.escape(shown)}</code></p>' if shown else ""
