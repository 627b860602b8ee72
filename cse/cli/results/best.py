"""`cse best`: a sweep's best cells, how much of the best one's value is luck, and its single test-set score."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from analysis.answers import baselines
from analysis.answers.imported import metric_of_runs
from analysis.answers.lookup import space_of_sweep, sweep_of
from analysis.answers.picks import Rivals, rivals_of
from analysis.answers.selection import CellRuns, HeldOutScores, find_cell_differences, rank_cells, require_finished
from analysis.documents import HIDDEN, OPTIONAL, convert_row, dump_json, spell_key
from analysis.ledger import Ledger
from analysis.statistics.basics import mean_and_sd
from analysis.statistics.selection import Selection, select
from analysis.tables.labels import differing_line, label, number_of
from cse.cli import exit, options, screen
from cse.cli.ledgers import LedgerUrl, existing_ledger
from cse.cli.listing import POINT_DIGITS, FormatOption, Rounded, listing
from cse.cli.loader import deferred
from cse.cli.options import sweep_named
from cse_train.fields import ConfigError, Settings
from cse_train.user_files import map_files
from search_spaces.identity.user_files import add_user_files
from search_spaces.user_data import read_suites

with deferred(__name__):
    from cse.experiments import held_out

MOST_SHOWN = 200
"""Maximum number of cells whose settings are all compared; in a larger sweep, only the listed cells are."""
NAME_DIGITS = 12
"""Hexadecimal digits shown of a signature."""
Sweep = Annotated[str, typer.Argument(metavar="ID|FILE|SWEEP", help="A sweep (cse ls), or a space that has one.")]
Top = Annotated[int, typer.Option(min=1, help="Cells to show.")]
ScoreTest = Annotated[bool, typer.Option("--score-test", help="Score the picked run on test sets and log this look.")]
Suites = Annotated[
    list[str] | None, typer.Option(help="Test sets: sts, sts_test, mr, a file ...; comma-separated (sts_test).")
]


def best(
    sweep: Sweep,
    plugins: options.Plugins = None,
    ledger: LedgerUrl = None,
    top: Top = 3,
    form: FormatOption = "text",
    score_test: ScoreTest = False,
    suite: Suites = None,
    data: options.Data = None,
    senteval: options.SentEval = None,
    storage: options.Storage = None,
) -> None:
    """Show a sweep's best cells, the pick, and how much of its value is luck."""
    if suite and not score_test:
        raise ConfigError([f"nothing to score: suite={','.join(suite)}; add --score-test"])
    opened = existing_ledger(ledger, storage)
    sweep = sweep_named(sweep, opened)
    assert opened is not None
    cells = require_finished(opened, sweep) if score_test else rank_cells(opened, sweep)
    scores: HeldOutScores | None = None
    if score_test:
        names, files_of_suites = read_suites(suite or [], Path.cwd())
        row = sweep_of(sweep, opened)
        space = space_of_sweep(row) if row else None
        files = map_files([*(space.files if space else ()), *files_of_suites])
        paths = add_user_files(options.data_paths(data, None, senteval), files.values())
        scores = held_out.score_once(sweep, cells, opened, names, paths)
    result = judge_best(opened, cells, top, scores)
    if form == "json":
        print(dump_json(result))
        return
    print(result.text())
    if scores is not None and scores.warning:
        exit.say([scores.warning])


@dataclass(frozen=True, kw_only=True)
class RankedCell:
    """One cell of a sweep with the scores of its finished runs, one for each seed."""

    cell: str
    """Axes and values of the cell."""
    n: int
    """Number of finished runs."""
    mean: float
    sd: float | None
    best: float | None
    """Score of the best run."""
    lower_bound: float | None = field(default=None, metadata=spell_key("lower bound") | OPTIONAL)
    """Lower bound of the cell's expected score, by which the cells of a search are ranked."""
    signature: str
    """Signature of the best run."""
    folder: str | None
    """Folder of the best run."""
    label: str = field(metadata=HIDDEN)
    """Short form of `cell`."""


@dataclass(frozen=True, kw_only=True)
class PickedCell:
    """Picked cell of a sweep and its best run."""

    cell: Settings
    rule: str
    """Rule by which the cells of a sweep are ranked, in words."""
    ranked_by: float
    """Number of the picked cell under the rule."""
    signature: str
    """Signature of the best run."""
    checkpoint: str | None
    """Folder of the best run's checkpoint."""


@dataclass(frozen=True)
class Pick(Selection, PickedCell):
    """Picked cell of a sweep, and estimates of how much of its value is luck."""


@dataclass(frozen=True, kw_only=True)
class Best:
    """A sweep's cells with finished runs, best first, and how far the best one's value may be luck."""

    differing: str = field(default="", metadata=OPTIONAL)
    """Line on settings, other than the sweep's axes, in which cells differ."""
    cells: Sequence[RankedCell]
    pick: Pick | None
    """None where no run is finished."""
    rivals: Rivals | None = field(default=None, metadata=OPTIONAL)
    """Cells that cannot be told from the pick; left out where the sweep has no other one."""
    test: HeldOutScores | None = field(default=None, metadata=OPTIONAL)
    remarks: Sequence[str] | None = field(default=None, metadata=OPTIONAL)
    """Lines on the picked cell's runs: few seeds, and runs that trained without signal."""
    turned: str = field(default="", metadata=HIDDEN)
    """Name of a metric of which lower values are better, whose scores are stored with the opposite sign; "" for any
    other."""
    digits: int = field(default=POINT_DIGITS, metadata=HIDDEN)
    """Decimals shown of a score."""

    def text(self) -> str:
        """Returns the sweep's listed cells and the facts about the picked (best) cell as text for people."""
        sign = -1 if self.turned else 1
        rows = [
            convert_row(cell) | {"cell": cell.label, "signature": cell.signature[:NAME_DIGITS]} for cell in self.cells
        ]
        for row in rows:
            for name, value in row.items():
                if isinstance(value, float):
                    row[name] = Rounded(value if name == "sd" else sign * value, self.digits)
        sense = f"the lower {self.turned} is the better one" if self.turned else ""
        preface = "".join(f"{screen.prose(line)}\n\n" for line in (self.differing, sense) if line)
        table = listing(rows, "text", "no finished run yet", spare=("folder", "best"))
        if self.pick is None:
            return preface + table
        sentences = describe_pick(self.pick, self.digits, sign)
        sentences += [self.rivals.line(self.digits)] if self.rivals else []
        sentences += self.test.lines() if self.test else []
        remarks = [f"of the pick: {line}" for line in self.remarks or ()]
        return f"{preface}{table}\n\n" + screen.prose("\n".join([*sentences, *remarks]), indent="  ")


Answer = Best


def judge_best(opened: Ledger, cells: Sequence[CellRuns], top: int, scores: HeldOutScores | None = None) -> Best:
    """Returns the result of `cse best` for ranked cells, of which `top` are listed."""
    compared = cells if len(cells) <= MOST_SHOWN else cells[:top]
    differing = differing_line(find_cell_differences(compared), label, "Cells")
    if not cells:
        return Best(differing=differing, cells=[], pick=None)
    picked, metric = cells[0], metric_of_runs(opened, cells[0].runs)
    pick = Pick(
        **vars(select([cell.scores for cell in cells], 0)),
        cell=picked.cell,
        rule=picked.rule,
        ranked_by=picked.rank,
        signature=picked.best_run.signature,
        checkpoint=str(picked.best_run.files.best) if picked.best_run.files else None,
    )
    return Best(
        differing=differing,
        cells=[_rank(cell) for cell in cells[:top]],
        pick=pick,
        rivals=rivals_of(cells, opened) if len(cells) > 1 else None,
        test=scores,
        remarks=[*_few_seeds(cells), *baselines.idle(picked.runs, opened).lines()],
        turned=metric.name if metric and metric.turned else "",
        digits=metric.scale.digits(score for cell in cells for score in cell.scores) if metric else POINT_DIGITS,
    )


def _rank(cell: CellRuns) -> RankedCell:
    mean, sd = mean_and_sd(cell.scores)
    assert mean is not None
    return RankedCell(
        cell=cell.name,
        n=len(cell.scores),
        mean=mean,
        sd=sd,
        best=cell.best_run.best,
        lower_bound=cell.lower_bound,
        signature=cell.best_run.signature,
        folder=cell.best_run.folder,
        label=label(cell.cell),
    )


def _few_seeds(cells: Sequence[CellRuns]) -> list[str]:
    """Returns a line if the picked cell has fewer seeds than another, since its mean is then more likely to
    be lucky."""
    picked, most = len(cells[0].runs), max(cells, key=lambda cell: len(cell.runs))
    if picked >= len(most.runs):
        return []
    other = f"{label(most.cell)} has {len(most.runs)}"
    return [f"{number_of(picked, 'seed')}, where {other}: a mean of few seeds is high by luck more often"]


def describe_pick(pick: Pick, digits: int, sign: int) -> list[str]:
    """Returns sentences on the picked cell: value, expected best of fewer cells, optimism.

    `sign` is -1 for a metric of which lower values are better.
    """

    def tell(value: float) -> str:
        return f"{sign * value:.{digits}f}"

    # With the sign turned back, a lower bound is an upper one, and the highest value the lowest.
    rule = pick.rule if sign > 0 else pick.rule.replace("lower", "upper").replace("highest", "lowest")
    curve = ", ".join(f"{tell(value)} of {draws}" for draws, value in pick.expected_best.items())
    sentences = [
        f"pick: {label(pick.cell)} ({rule} of {pick.candidates} cells, {tell(pick.ranked_by)}); "
        f"run {pick.signature[:NAME_DIGITS]}, checkpoint {pick.checkpoint or 'none'}",
        f"expected best of random cells: {curve}",
    ]
    if pick.other_seeds is not None:
        others = f"{tell(pick.other_seeds)} of its other seeds"
        sentences.append(f"optimism of its best run: {tell(pick.best_run)} against {others}")
    if pick.shrunken is not None:
        means = f"{tell(pick.value)}, shrunk by the seeds' noise {tell(pick.shrunken)}"
        sentences.append(f"optimism of its mean: {means}")
    else:
        sentences.append("optimism of its mean: not known, no two cells or no cell with two seeds")
    return sentences
