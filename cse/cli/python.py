"""Functions of `import cse`: they plan, train and open models, and read or write results, as their commands do.

Options have the names of the command line: `seeds=3` is --seeds 3, `set={...}` is --set. Mistakes of the user raise
ConfigError or LedgerError, with one line for each problem.
"""

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from analysis.answers import build
from analysis.answers.judge import Verdicts
from analysis.answers.lookup import encoder_for
from analysis.answers.selection import rank_cells
from analysis.documents import document
from analysis.render.formats import render
from analysis.tables.aggregate import Table
from cluster.plan.planner import plan as planned
from cluster.sweep.events import SweepOutcome
from cse.cli import ledgers, model_options, options, plan_text
from cse.cli.listing import listing
from cse.cli.loader import deferred
from cse.cli.results import best as bests
from cse.cli.results import explain as cells
from cse.cli.results import ls as sweeps
from cse.cli.results import report as reports
from cse.cli.results import status as states
from cse.cli.results import table as tables
from cse.cli.results import trials as runs
from cse.cli.sweep_options import SweepArguments
from cse.cli.sweeps import ablate as ablations
from cse.cli.sweeps import reproduce as pages
from cse.experiments import request as sweeping
from cse_train.fields import ConfigError, Json, Scalar, nearest
from search_spaces.catalog import load_all, load_space

with deferred(__name__):
    from cse.cli.models import export as exports
    from cse.experiments import run as experiments
    from cse.experiments import untrained
    from cse_train.evaluate import models

Settings = Mapping[str, Scalar]
PathLike = str | Path


@dataclass(frozen=True)
class Shown:
    """Result that a notebook shows as HTML and `print` as text."""

    text: str
    html: str

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True)
class ShownTable(Shown):
    """Result of `cse.table` and `cse.run`: a table as `cse table` prints it."""

    table: Table
    outcome: SweepOutcome | None = None
    """End states of the runs that `cse.run` trained for the table; None from `cse.table`, which trains nothing."""
    verdicts: Verdicts | None = None
    """Verdicts on a paper's table whose runs were imported at the paper's own scale; None for any other table."""
    remarks: Sequence[str] = ()
    """Lines that `cse table` prints on stderr: spent budgets, and cells that lack seeds or an input."""

    def to_frame(self) -> pd.DataFrame:
        """Returns a frame with a line for each row and column: the axes, `column`, `n`, `mean`, `sd`, `published` and
        `delta`."""
        lines = [
            {**row.key, "column": column, **entry.as_dict()}
            for row in self.table.rows
            for column, entry in row.entries.items()
        ]
        return pd.DataFrame(lines)

    @property
    def data(self) -> Json:
        """Returns the JSON object that `cse table --format json` prints; `cse schema table` describes it."""
        facts: Json = json.loads(render(self.table, "json", self.verdicts))
        return facts

    frame = to_frame
    """Older name of `to_frame`."""


@dataclass(frozen=True)
class ShownReproduction(Shown):
    """Result of `cse.reproduce`: a published table trained again, with verdicts, the order of its rows and the cost."""

    data: Json
    """JSON object that `cse reproduce --out` writes as ID.json."""


@dataclass(frozen=True)
class ShownPlan:
    """Result of `cse.plan`: the runs that spaces would start; `print` shows the text of `cse plan`."""

    text: str
    counts: Mapping[str, int]
    """Totals of the plan: cells, seeds, runs, unique, done, to_run and missing_input."""
    data: Json
    """JSON object that `cse plan --format json` prints; costs are in examples, seconds and bytes."""

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


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


def plan(
    *spaces: PathLike,
    plugins: Sequence[PathLike] | None = None,
    profile: str | None = None,
    data: PathLike | None = None,
    train_file: PathLike | None = None,
    train_columns: str | None = None,
    senteval: PathLike | None = None,
    seeds: int | None = None,
    set: Settings | None = None,
    ledger: str | None = None,
    workers: int = 1,
) -> ShownPlan:
    """Counts the runs of spaces, and how many of them the ledger lacks, as `cse plan` does. Trains nothing.

    `spaces`: YAML files, folders of them, and IDs such as "E7". `plugins`: folders, files and modules with methods and
    suites of your own. `data`, `train_file`, `senteval`: where the inputs are, to see which cells lack one. `set`:
    fixed settings, such as `{"train.batch_size": 32}`.
    """
    options.use_plugins(plugins)
    paths = options.data_paths(_path(data), _path(train_file), _path(senteval), train_columns)
    opened = ledgers.existing_ledger(ledger)
    work = planned(load_all(spaces), profile, seeds, opened, paths, overrides=set, workers=workers)
    return ShownPlan(plan_text.text(work), work.counts(), document(plan_text.describe(work)))


def run(space: PathLike, *, set: Settings | None = None, **given: Any) -> ShownTable:
    """Trains the runs that a space asks for and the ledger lacks, and returns the table, as `cse run` does.

    `outcome.failures` of the result lists runs that failed. `set`: fixed settings. Other options are those of `cse
    run`: profile, data, train_file, seeds, ledger, storage, workers, budget and others; an unknown one raises
    ConfigError.
    """
    budget, price = given.pop("budget", None), given.pop("price", None)
    (request,) = make_arguments(set, given).requests([load_space(space)])
    request = sweeping.set_budgets(request, budget, price)
    with contextlib.closing(ledgers.open_ledger(request.ledger, request.options.storage, create=True)) as ledger:
        if request.resolved.space.search is None and not request.budgets:
            outcome = experiments.run_grid(request, sweeping.work_of([request], ledger))
        else:
            outcome = experiments.run_search(request, ledger)
        untrained.ensure(request.resolved, ledger, request.paths)
        return _show_table(build.build(request.resolved, ledger, paths=request.paths), outcome)


def table(
    space: PathLike,
    *,
    plugins: Sequence[PathLike] | None = None,
    profile: str | None = None,
    seeds: int | None = None,
    set: Settings | None = None,
    ledger: str | None = None,
    storage: str | None = None,
    data: PathLike | None = None,
    train_file: PathLike | None = None,
    train_columns: str | None = None,
    senteval: PathLike | None = None,
    data_hash: str | None = None,
    untrained: bool = False,
) -> ShownTable:
    """Returns the table of a space or a sweep from the ledger, finished or not, as `cse table` prints it.

    `data_hash` picks the runs on one of several data sets. With `data`, `train_file` or `senteval`, rows that need no
    training are scored where the ledger lacks them; `untrained=True` also scores the paper's models that nobody trains.
    """
    options.use_plugins(plugins)
    paths = options.data_paths(_path(data), _path(train_file), _path(senteval), train_columns)
    answer = tables.read_table(str(space), profile, seeds, set or {}, ledger, storage, paths, data_hash, untrained)
    return _show_table(answer.table, verdicts=answer.verdicts, remarks=answer.remarks)


def reproduce(*ids: PathLike, set: Settings | None = None, **given: Any) -> list[ShownReproduction]:
    """Trains the runs that published tables lack, each shared run once, and returns a page for each table.

    `ids`: tables such as "D7", or space files. Takes the options of `cse.run`.
    """
    arguments = make_arguments(set, given)
    reproductions = pages.train_and_judge(arguments.requests(load_all(ids)), arguments)
    return [
        ShownReproduction(page.markdown(), render(page.table, "html", page.verdicts, page.ordering), page.as_dict())
        for page in reproductions
    ]


def load_model(
    name: PathLike,
    *,
    plugins: Sequence[PathLike] | None = None,
    pooler: str | None = None,
    max_length: int | None = None,
    prompt: str | None = None,
    encoder: str | None = None,
    ledger: str | None = None,
    storage: str | None = None,
) -> Any:
    """Opens a model by name, and returns it.

    `name`: a run's folder or signature, a sweep or space, whose best run is taken, a model folder, a shipped encoder.



    The model's `embed(texts)` returns float32 [len(texts), width] on the CPU, in the order of the texts. `pooler`:
    required for a plain encoder. `max_length`: tokens kept of a text. `encoder`: where a run's encoder is now, if it
    moved.
    """
    options.use_plugins(plugins)
    folder = model_options.model_folder(str(name), ledger, storage)
    place = encoder_for(folder, ledgers.existing_ledger(ledger, storage), encoder)
    return models.open_model(folder, pooler=pooler, max_length=max_length, prompt=prompt, encoder=place)


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


def _show_table(
    table: Table,
    outcome: SweepOutcome | None = None,
    verdicts: Verdicts | None = None,
    remarks: Sequence[str] = (),
) -> ShownTable:
    text, html = (render(table, form, verdicts) for form in ("md", "html"))
    return ShownTable(text, html, table, outcome, verdicts, remarks)


def make_arguments(settings: Settings | None, given: Mapping[str, Any]) -> SweepArguments:
    """Returns keyword options as the command line would parse them. Raises ConfigError for an unknown option."""
    valid = [field.name for field in dataclasses.fields(SweepArguments) if field.name != "settings"]
    wrong = [name for name in given if name not in valid]
    if wrong:
        raise ConfigError([f"unknown option: {name}={given[name]}; {nearest(name, valid)}" for name in wrong])
    options.use_plugins(given.get("plugins"))
    pairs = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
    paths = {name: _path(given[name]) for name in ("data", "train_file", "senteval") if name in given}
    return SweepArguments(settings=pairs or None, **{**given, **paths})


def _path(path: PathLike | None) -> Path | None:
    return None if path is None else Path(path).expanduser()


def _list(rows: Sequence[object], text: str) -> CommandAnswer:
    return _answer(text, rows, "rows")


def _answer(text: str, answer: object, key: str) -> CommandAnswer:
    data = document(answer)
    rows = _rows(data, key)
    return CommandAnswer(text, pd.DataFrame(rows).to_html(index=False), data, rows)


def _rows(data: Json, key: str) -> list[Mapping[str, object]]:
    rows = data[key]
    assert isinstance(rows, list)
    return [dict(row) for row in rows]
