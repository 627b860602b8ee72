"""Results of a ledger as functions: `import cse` gives them; each answers with what its command prints.

Options have the names of the command line. Mistakes are ConfigError and LedgerError, a line for each problem.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from analysis.answers.selection import rank_cells
from analysis.ledger import Ledger
from analysis.progress.follower import Follower
from analysis.progress.plain import short, whole
from analysis.render.documents import document
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
    from cse.experiments import ablation
    from cse.experiments import request as sweeping
    from cse.experiments import run as experiments


@dataclass(frozen=True)
class CommandAnswer(Shown):
    """What a command says: `print` gives its text, a notebook shows its rows, and `data` is its JSON."""

    data: Json
    """As --format json prints it, in plain values: `cse schema COMMAND` says what stands in it."""
    rows: Sequence[Mapping[str, object]]
    """Of `data` what the command lists: sweeps, runs, cells or components."""

    def to_frame(self) -> pd.DataFrame:
        """A line for each of `rows`, with the numbers of `data`: scores in the metric's own units, times in seconds."""
        return pd.DataFrame(list(self.rows))


def ls(*, ledger: str | None = None) -> CommandAnswer:
    """The sweeps of a ledger: rows of `sweep`, `title`, `runs`, and how many of these are done, running, ..."""
    rows = sweeps.list_sweeps(ledgers.existing_ledger(ledger))
    return _list(rows, listing(rows, "text", "no sweeps yet"))


def trials(
    sweep: PathLike | None = None, *, ledger: str | None = None, state: Sequence[str] | None = None
) -> CommandAnswer:
    """The runs of a ledger, failed ones too: rows of `signature`, `state`, `seed`, `config`, `best` (points), `seconds`
    and others. `state`: only runs in these states."""
    opened, wanted = ledgers.existing_ledger(ledger), None if state is None else list(state)
    name = None if sweep is None else str(sweep)
    text = listing(runs.list_runs(opened, name, wanted, "text"), "text", "no runs yet")
    return _list(runs.list_runs(opened, name, wanted), text)


def status(sweep: PathLike | None = None, *, ledger: str | None = None) -> CommandAnswer:
    """How far sweeps are: rows of `id`, `runs`, `counts` by state, `best`, `seconds_left`; of one its runs too."""
    follower = Follower(ledgers.connect_ledger(ledger))
    every = follower.overview().sweeps
    if sweep is None:
        return _list([short(row) for row in every], "\n".join(map(states.block, every)))
    chosen = states.choose(options.sweeps_of(str(sweep), ledgers.existing_ledger(ledger)), every)
    full = [row for named in chosen if (row := follower.detail(named.id))]
    return _list([whole(row) for row in full], "\n".join(map(states.long_block, full)))


def best(
    sweep: PathLike,
    *,
    plugins: Sequence[PathLike] | None = None,
    top: int = 3,
    ledger: str | None = None,
    storage: str | None = None,
) -> CommandAnswer:
    """A sweep's best cells and what the pick is worth: rows of `cell`, `n`, `mean`, `sd`, `best` (dev score of the best
    run); `data["pick"]` has the expected best of fewer cells and the optimism, in points. Scores no test set."""
    options.use_plugins(plugins)
    opened = _require(ledgers.existing_ledger(ledger, storage))
    made = bests.judge_best(opened, rank_cells(opened, options.sweep_named(str(sweep), opened)), top)
    return _answer(made.text(), made.as_dict(), "cells")


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
    """What is behind one cell ("dup_rate=0.32" or its label): rows are its runs, with values, attempts and commits."""
    options.use_plugins(plugins)
    words = [cell] if isinstance(cell, str) else list(cell)
    opened = ledgers.existing_ledger(ledger, storage)
    made = cells.find_cell(str(space), words, opened, profile, seeds, set or {}, data_hash)
    return _answer(cells.text(made), cells.list_facts(made), "runs")


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
    """Write the HTML page of a space or a sweep, as `cse report` does, and return its path; `cse.report` is for
    training scripts."""
    options.use_plugins(plugins)
    folder = None if out is None else Path(out).expanduser()
    return reports.write(str(name), ledger, folder, figures, profile, seeds, set or {}, data_hash, storage)


def ablate(what: PathLike, *, set: Settings | None = None, **given: Any) -> CommandAnswer:
    """Train a configuration in full and without each component, as `cse ablate` does: rows of `label`, `n`, `mean`,
    `sd`, and `difference` from the full one with its 95% `interval`, in the column's units. Options as `cse.run` takes
    them."""
    request, made = ablations.prepare(str(what), make_arguments(set, given))
    opened = ledgers.open_ledger(request.ledger, request.options.storage, create=True)
    if made is not None:
        made.write()
    work = sweeping.work_of([request], opened)
    if not work.nothing_left:
        outcome = experiments.run_grid(request, work)
        if outcome.failures:
            raise ConfigError([f"failed: {failure.reason}" for failure in outcome.failures])
    space = request.resolved.space
    worth = ablation.compare_components(request.resolved, opened, request.seeds)
    html = render(ablations.worth_table(worth, space), "html")
    data = document({"id": space.id, **worth.as_dict()})
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
    """Write a run's best checkpoint as a folder that other libraries load, and return it; as `cse export` does."""
    place, folder = Path(to).expanduser(), None if data is None else Path(data).expanduser()
    exports.export(str(run), place, form=form, data=folder, ledger=ledger, storage=storage, encoder=encoder)
    return place.resolve()


def _require(ledger: Ledger | None) -> Ledger:
    if ledger is None:
        raise ConfigError(["no ledger yet: --ledger=results/ledger.db; cse demo starts one, or name another"])
    return ledger


def _list(rows: Sequence[Mapping[str, object]], text: str) -> CommandAnswer:
    return _answer(text, {"rows": rows}, "rows")


def _answer(text: str, facts: Mapping[str, object], listed: str) -> CommandAnswer:
    data = document(facts)
    rows = _rows(data, listed)
    return CommandAnswer(text, pd.DataFrame(rows).to_html(index=False), data, rows)


def _rows(data: Json, listed: str) -> list[Mapping[str, object]]:
    return [dict(row) for row in data[listed]]
