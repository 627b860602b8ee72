"""`cse best`: a sweep's best cells, how much of the best one's value is luck, and its single test-set score."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from analysis.answers import baselines
from analysis.answers.imported.metric import metric_of_runs
from analysis.answers.lookup import space_of_sweep, sweep_of
from analysis.answers.selection import CellRuns, HeldOutScores, find_cell_differences, rank_cells, require_finished
from analysis.ledger import Ledger
from analysis.render.documents import dump_json
from analysis.statistics.basics import mean_and_sd
from analysis.statistics.selection import Selection, select
from analysis.tables.labels import differing_line, label, number_of
from cse.cli import exit, options, screen
from cse.cli.ledgers import LedgerUrl, existing_ledger
from cse.cli.listing import POINT_DIGITS, FormatOption, Rounded, listing
from cse.cli.loader import deferred
from cse.cli.options import sweep_named
from cse_train.fields import ConfigError
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
    list[str] | None,
    typer.Option("--suite", help="Test sets: sts, sts_test, mr, a file ...; comma-separated (sts_test)."),
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
        print(dump_json(result.as_dict()))
        return
    print(result.text())
    if scores is not None and scores.warning:
        exit.say([scores.warning])


@dataclass(frozen=True)
class Best:
    """Result of `cse best`: a sweep's cells with finished runs, best first, and how far the best one's value may be
    luck."""

    cells: Sequence[CellRuns]
    top: int
    """Number of cells that are listed."""
    apart: str
    """Line on settings, other than the sweep's axes, in which cells differ; "" where none do."""
    turned: str
    """Name of a metric of which lower values are better, whose scores are stored with the opposite sign; "" for any
    other."""
    remarks: Sequence[str]
    """Lines on the picked cell's runs: few seeds, and runs that trained without signal."""
    scores: HeldOutScores | None
    digits: int = POINT_DIGITS
    """Decimals shown of a score."""

    @property
    def rows(self) -> list[dict[str, object]]:
        """Returns the listed cells of a sweep: name, n, mean, sd, score of the best run, and that run's signature and
        folder."""
        return [row_of(cell) for cell in self.cells[: self.top]]

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object that `cse best --format json` prints."""
        differing = {"differing": self.apart} if self.apart else {}
        remarks = {"remarks": list(self.remarks)} if self.cells else {}
        return {**differing, "cells": self.rows, **_facts(self.cells, self.scores), **remarks}

    def text(self) -> str:
        """Returns the sweep's listed cells and the facts about the picked (best) cell as text for people."""
        sign = -1 if self.turned else 1
        short = [
            {
                name: Rounded(value if name == "sd" else sign * value, self.digits)
                if isinstance(value, float)
                else value
                for name, value in row.items()
            }
            | {"cell": label(cell.cell), "signature": str(row["signature"])[:NAME_DIGITS]}
            for row, cell in zip(self.rows, self.cells, strict=False)
        ]
        sense = f"the lower {self.turned} is the better one" if self.turned else ""
        preface = "".join(f"{screen.prose(line)}\n\n" for line in (self.apart, sense) if line)
        table = listing(short, "text", "no finished run yet", spare=("folder", "best"))
        if not self.cells:
            return preface + table
        remarks = [f"of the pick: {line}" for line in self.remarks]
        return f"{preface}{table}\n\n" + screen.prose(
            "\n".join([*lines(self.cells, self.scores, self.digits, sign), *remarks]), indent="  "
        )


def _few_seeds(cells: Sequence[CellRuns]) -> list[str]:
    """Returns a line if the picked cell has fewer seeds than another, since its mean is then more likely to
    be lucky."""
    picked, most = len(cells[0].runs), max(cells, key=lambda cell: len(cell.runs))
    if picked >= len(most.runs):
        return []
    other = f"{label(most.cell)} has {len(most.runs)}"
    return [f"{number_of(picked, 'seed')}, where {other}: a mean of few seeds is high by luck more often"]


def judge_best(opened: Ledger, cells: Sequence[CellRuns], top: int, scores: HeldOutScores | None = None) -> Best:
    """Returns the result of `cse best` for ranked cells."""
    compared = cells if len(cells) <= MOST_SHOWN else cells[:top]
    differing = differing_line(find_cell_differences(compared), label, "Cells")
    metric = metric_of_runs(opened, cells[0].runs) if cells else None
    turned = metric.name if metric and metric.turned else ""
    remarks = [*_few_seeds(cells), *baselines.idle(cells[0].runs, opened).lines()] if cells else []
    digits = metric.scale.digits(score for cell in cells for score in cell.scores) if metric else POINT_DIGITS
    return Best(cells, top, differing, turned, remarks, scores, digits)


def row_of(cell: CellRuns) -> dict[str, object]:
    """Returns one cell with its statistics, and the signature and folder of its best run."""
    first = cell.best_run
    mean, sd = mean_and_sd(cell.scores)
    numbers = {"n": len(cell.scores), "mean": mean, "sd": sd, "best": first.best}
    if cell.lower_bound is not None:
        numbers["lower bound"] = cell.lower_bound
    return {"cell": cell.name, **numbers, "signature": first.signature, "folder": first.folder}


def guard(cells: Sequence[CellRuns]) -> Selection:
    """Estimates how optimistic the choice of the first cell is, from all cells' scores."""
    return select([cell.scores for cell in cells], 0)


def _facts(cells: Sequence[CellRuns], scores: HeldOutScores | None) -> dict[str, object]:
    if not cells:
        return {"pick": None}
    chosen, worth = cells[0], guard(cells)
    pick = {
        "cell": dict(chosen.cell),
        "rule": chosen.rule,
        "ranked_by": chosen.rank,
        "signature": chosen.best_run.signature,
        "checkpoint": _checkpoint(chosen),
        **asdict(worth),
        "optimism_of_run": worth.optimism_of_run,
        "optimism": worth.optimism,
    }
    return {"pick": pick, **({"test": scores.as_dict()} if scores else {})}


def _checkpoint(chosen: CellRuns) -> str | None:
    return str(chosen.best_run.files.best) if chosen.best_run.files else None


def lines(cells: Sequence[CellRuns], scores: HeldOutScores | None, digits: int, sign: int) -> list[str]:
    """Returns sentences on the picked cell: value, expected best of fewer cells, optimism, test scores.

    `sign` is -1 for a metric of which lower values are better.
    """
    chosen, worth = cells[0], guard(cells)

    def tell(value: float) -> str:
        return f"{sign * value:.{digits}f}"

    # With the sign turned back, a lower bound is an upper one, and the highest value the lowest.
    rule = chosen.rule if sign > 0 else chosen.rule.replace("lower", "upper").replace("highest", "lowest")
    curve = ", ".join(f"{tell(value)} of {draws}" for draws, value in worth.expected_best.items())
    sentences = [
        f"pick: {label(chosen.cell)} ({rule} of {worth.candidates} cells, {tell(chosen.rank)}); "
        f"run {chosen.best_run.signature[:NAME_DIGITS]}, checkpoint {_checkpoint(chosen) or 'none'}",
        f"expected best of random cells: {curve}",
    ]
    if worth.other_seeds is not None:
        others = f"{tell(worth.other_seeds)} of its other seeds"
        sentences.append(f"optimism of its best run: {tell(worth.best_run)} against {others}")
    if worth.shrunken is not None:
        means = f"{tell(worth.value)}, shrunk by the seeds' noise {tell(worth.shrunken)}"
        sentences.append(f"optimism of its mean: {means}")
    else:
        sentences.append("optimism of its mean: not known, no two cells or no cell with two seeds")
    return sentences + (scores.lines() if scores else [])
