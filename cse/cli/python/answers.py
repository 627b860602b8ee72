"""Functions of `import cse` that read or write results of a ledger, each with the content of its command.

Options have the names of the command line. Mistakes of the user raise ConfigError or LedgerError, with one line for
each problem.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from analysis.answers.selection import rank_cells
from analysis.documents import document
from analysis.render.formats import render
from cse.cli import ledgers, options
from cse.cli.listing import listing
from cse.cli.loader import deferred
from cse.cli.python.notebook import PathLike, Settings, Shown, make_arguments
from cse.cli.results import best as bests
from cse.cli.results import explain as cells
from cse.cli.results import ls as sweeps
from cse.cli.results import report as reports
from cse.cli.results import status as states
from cse.cli.results import trials as runs
from cse.cli.sweeps import ablate as ablations
from cse_train.fields import ConfigError, Json

with deferred(__name__):
    from cse.cli.models import export as exports
    from cse.experiments import request as sweeping
    from cse.experiments import run as experiments


@dataclass(frozen=True)
class CommandAnswer(Shown):
    """Result of a command: `print` shows its text, a notebook shows its rows, and `data` has its JSON."""

    data: Json
    """JSON object that the command prints with --format json; `cse schema COMMAND` describes it."""
    rows: Sequence[Mapping[str, object]]
    """List in `data` that the command is about: sweeps, runs, cells or components."""

    def to_frame(self) -> pd.DataFrame:
        """Returns a frame with a line for each of `rows`: scores are in the metric's own units, times in seconds."""
        return pd.DataFrame(list(self.rows))


def ls(*, ledger: str | None = None) -> CommandAnswer:
    """Lists the sweeps of a ledger: rows of `sweep`, `title`, `runs`, and counts of runs by state."""
    rows = sweeps.list_sweeps(ledgers.existing_ledger(ledger))
    return _list(rows, listing(rows, "text", "no sweeps yet"))


def trials(
    sweep: PathLike | None = None, *, ledger: str | None = None, state: Sequence[str] | None = None
) -> CommandAnswer:
    """Lists the runs of a ledger, failed ones too: rows of `signature`, `state`, `seed`, `config`, `best` and others.

    `sweep`: only runs of this sweep or space. `state`: only runs in these states, such as `["failed"]`. `best` is the
    run's best dev score in points, `seconds` its time.
    """
    opened = ledgers.existing_ledger(ledger)
    name = None if sweep is None else options.sweep_named(str(sweep), opened)
    rows = runs.list_runs(opened, name, state)
    return _list(rows, runs.describe_runs(rows, opened, name))


def status(sweep: PathLike | None = None, *, ledger: str | None = None) -> CommandAnswer:
    """Shows how far sweeps are: rows of `id`, `runs`, `counts` by state, `best`, `seconds_left`.

    With `sweep`, only that sweep or the sweeps of that space, with the state of each run. Raises ConfigError if there
    is no ledger yet.
    """
    return _list(*states.read(None if sweep is None else str(sweep), ledger))


def best(
    sweep: PathLike,
    *,
    plugins: Sequence[PathLike] | None = None,
    top: int = 3,
    ledger: str | None = None,
    storage: str | None = None,
) -> CommandAnswer:
    """Ranks a sweep's cells, and estimates how much of the best value is luck.

    Rows have `cell`, `n`, `mean`, `sd` and `best`, the dev score of the cell's best run. `data["pick"]`
    has the expected best of fewer cells, and the optimism of the picked value, in points. `top`: how many cells to
    list. No test set is scored.
    """
    options.use_plugins(plugins)
    opened = ledgers.require_ledger(ledgers.existing_ledger(ledger, storage))
    result = bests.judge_best(opened, rank_cells(opened, options.sweep_named(str(sweep), opened)), top)
    return _answer(result.text(), result, "cells")


def explain(
    space: PathLike,
    cell: str | Sequence[str] = (),
    *,
    plugins: Sequence[PathLike] | None = None,
    profile: str | None = None,
    seeds: int | None = None,
    set: Settings | None = None,
    data_hash: str | None = None,
    ledger: str | None = None,
    storage: str | None = None,
) -> CommandAnswer:
    """Explains one cell of a space or a sweep's table: rows are its runs, with values, attempts and commits.

    `cell`: its label, or axis values such as "dup_rate=0.32". Raises ConfigError unless it names a single cell.
    """
    options.use_plugins(plugins)
    words = [cell] if isinstance(cell, str) else list(cell)
    opened = ledgers.existing_ledger(ledger, storage)
    explained = cells.find_cell(str(space), words, opened, profile, seeds, set or {}, data_hash)
    return _answer(cells.text(explained), explained, "runs")


def write_report(
    name: PathLike,
    *,
    out: PathLike | None = None,
    figures: bool = False,
    plugins: Sequence[PathLike] | None = None,
    profile: str | None = None,
    seeds: int | None = None,
    set: Settings | None = None,
    data_hash: str | None = None,
    ledger: str | None = None,
    storage: str | None = None,
) -> Path:
    """Writes the HTML page of a space or a sweep, as `cse report` does, and returns its path.

    `out`: folder of the page, by default beside the ledger. `figures`: also write each figure as PNG and PDF. The name
    `cse.report` belongs to training scripts.
    """
    options.use_plugins(plugins)
    folder = None if out is None else Path(out).expanduser()
    return reports.write(str(name), ledger, folder, figures, profile, seeds, set or {}, data_hash, storage)


def ablate(what: PathLike, *, set: Settings | None = None, **given: Any) -> CommandAnswer:
    """Trains a configuration in full and without each of its components, as `cse ablate` does.

    `what`: a run's signature or folder, a sweep, or a space, whose best cell is taken. Rows have `label`, `n`, `mean`,
    `sd`, and `difference` from the full configuration with its 95% `interval`, in the column's units. Takes the options
    of `cse.run`. Raises ConfigError if a run fails.
    """
    request, new_ablation = ablations.prepare(str(what), make_arguments(set, given))
    opened = ledgers.open_ledger(request.ledger, request.options.storage, create=True)
    if new_ablation is not None:
        new_ablation.write()
    work = sweeping.work_of([request], opened)
    if not work.nothing_left:
        outcome = experiments.run_grid(request, work)
        if outcome.failures:
            raise ConfigError([f"failed: {failure.reason}" for failure in outcome.failures])
    space = request.resolved.space
    worth = ablations.compare_components(request.resolved, opened, request.seeds)
    html = render(ablations.worth_table(worth, space), "html")
    data = document(worth)
    return CommandAnswer(ablations.worth_text(worth), html, data, _rows(data, "rows"))


def export(
    run: PathLike,
    to: PathLike,
    *,
    form: Literal["sentence-transformers", "hf"] = "sentence-transformers",
    data: PathLike | None = None,
    ledger: str | None = None,
    storage: str | None = None,
    encoder: str | None = None,
) -> Path:
    """Writes a run's best checkpoint as a model folder, as `cse export` does, and returns the folder.

    `run`: a run's folder or signature, or a sweep, whose best run is taken. `form`: "sentence-transformers", or "hf"
    for the transformers library. `to` must be new or empty.
    """
    place, folder = Path(to).expanduser(), None if data is None else Path(data).expanduser()
    exports.export(str(run), place, form=form, data=folder, ledger=ledger, storage=storage, encoder=encoder)
    return place.resolve()


def _list(rows: Sequence[object], text: str) -> CommandAnswer:
    return _answer(text, rows, "rows")


def _answer(text: str, answer: object, key: str) -> CommandAnswer:
    data = document(answer)
    rows = _rows(data, key)
    return CommandAnswer(text, pd.DataFrame(rows).to_html(index=False), data, rows)


def _rows(data: Json, key: str) -> list[Mapping[str, object]]:
    return [dict(row) for row in data[key]]
