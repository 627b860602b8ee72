"""The commands as functions, for a notebook or a script: `import cse` gives them, and imports this when one is called.

Options have the names of the command line: `seeds=3` is --seeds 3, `set={...}` is --set. Mistakes are ConfigError and
LedgerError, a line for each problem.
"""

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.answers import build
from analysis.answers.lookup import encoder_for
from analysis.render.documents import document
from analysis.render.formats import render
from analysis.tables.aggregate import Table
from analysis.tables.verdict import Verdicts
from cluster.plan.planner import plan as planned
from cluster.sweep.events import SweepOutcome
from cse.cli import ledgers, model_options, options, plan_text
from cse.cli.loader import deferred
from cse.cli.results import table as tables
from cse.cli.sweep_options import SweepArguments
from cse.cli.sweeps import reproduce as pages
from cse.experiments import request as sweeping
from cse_train.fields import ConfigError, Json, Scalar, nearest
from search_spaces.catalog import load_all, load_space

with deferred(__name__):
    from cse.experiments import baselines as untrained
    from cse.experiments import run as experiments
    from cse_train.evaluate.models import open as models

Settings = Mapping[str, Scalar]
PathLike = str | Path


@dataclass(frozen=True)
class Shown:
    """What a notebook shows as HTML, and `print` as Markdown; both are made at once."""

    text: str
    html: str

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True)
class ShownTable(Shown):
    """A table as `cse table` prints it."""

    table: Table
    outcome: SweepOutcome | None = None
    """How the runs ended that were trained for it; None where nothing was asked to be trained."""
    verdicts: Verdicts | None = None
    """Of a paper's table whose runs were imported at the paper's own scale; None for any other."""
    remarks: Sequence[str] = ()
    """What `cse table` says on stderr: budgets that are spent, cells that lack seeds or an input."""

    def to_frame(self) -> pd.DataFrame:
        """One line for each row and column: the axes, `column`, `n`, `mean`, `sd`, `published` and `delta`."""
        lines = [
            {**row.key, "column": column, **entry.as_dict()}
            for row in self.table.rows
            for column, entry in row.entries.items()
        ]
        return pd.DataFrame(lines)

    @property
    def data(self) -> Json:
        """What `cse table --format json` prints; `cse schema table` says what stands in it."""
        facts: Json = json.loads(render(self.table, "json", self.verdicts))
        return facts

    frame = to_frame
    """Its name of before."""


@dataclass(frozen=True)
class ShownReproduction(Shown):
    """A published table trained again, with verdicts, order and cost."""

    data: Json
    """What `cse reproduce --out` writes as ID.json."""


@dataclass(frozen=True)
class ShownPlan:
    """What spaces would run; `print` gives the text of `cse plan`."""

    text: str
    counts: Mapping[str, int]
    """Cells, seeds, runs, unique, done, to_run and missing_input."""
    data: Json
    """What `cse plan --format json` prints; costs in examples, seconds and bytes."""

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


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
    """Count the runs of spaces (YAML files, folders, IDs such as "E7"), and what is left of them. Trains nothing.

    `plugins`: folders, files and modules with methods and suites of your own, as of every function here.
    """
    options.use_plugins(plugins)
    paths = options.data_paths(_path(data), _path(train_file), _path(senteval), train_columns)
    opened = ledgers.existing_ledger(ledger)
    work = planned(load_all(spaces), profile, seeds, opened, paths, overrides=set, workers=workers)
    facts = document(work.as_dict() | {"published": plan_text.count_published(work)})
    return ShownPlan(plan_text.text(work), work.counts(), facts)


def run(space: PathLike, *, set: Settings | None = None, **given: Any) -> ShownTable:
    """Train what a space asks for and the ledger lacks; its table, with `outcome.failures` where runs failed.

    `given` are options of `cse run`: profile, data, train_file, seeds, ledger, storage, workers, budget and others.
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
    """The table of a space or a sweep from the ledger, finished or not, as `cse table` prints it.

    `data_hash` picks one of several data sets. With data, rows without training are scored where the ledger lacks them;
    `untrained` scores the paper's models that nobody trains.
    """
    options.use_plugins(plugins)
    paths = options.data_paths(_path(data), _path(train_file), _path(senteval), train_columns)
    answer = tables.read_table(str(space), profile, seeds, set or {}, ledger, storage, paths, data_hash, untrained)
    return _show_table(answer.table, verdicts=answer.verdicts, remarks=answer.remarks)


def reproduce(*ids: PathLike, set: Settings | None = None, **given: Any) -> list[ShownReproduction]:
    """Train what published tables lack, each shared run once; a page for each table. Options as `run` takes them."""
    arguments = make_arguments(set, given)
    made = pages.train_and_judge(arguments.requests(load_all(ids)), arguments)
    return [
        ShownReproduction(page.markdown(), render(page.table, "html", page.verdicts, page.ordering), page.as_dict())
        for page in made
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
    """The model of a run (folder, signature, or the best of a sweep or space), of a folder, or a shipped encoder.

    `embed(texts)` gives float32 [len(texts), width] on the CPU, in order.
    """
    options.use_plugins(plugins)
    folder = model_options.model_folder(str(name), ledger, storage)
    place = encoder_for(folder, ledgers.existing_ledger(ledger, storage), encoder)
    return models.open_model(folder, pooler=pooler, max_length=max_length, prompt=prompt, encoder=place)


def _show_table(
    made: Table,
    outcome: SweepOutcome | None = None,
    verdicts: Verdicts | None = None,
    remarks: Sequence[str] = (),
) -> ShownTable:
    text, html = (render(made, form, verdicts) for form in ("md", "html"))
    return ShownTable(text, html, made, outcome, verdicts, remarks)


def make_arguments(settings: Settings | None, given: Json) -> SweepArguments:
    """Options as the command line has them; ConfigError for one that it does not have."""
    valid = [field.name for field in dataclasses.fields(SweepArguments) if field.name != "settings"]
    wrong = [name for name in given if name not in valid]
    if wrong:
        raise ConfigError([f"unknown option: {name}={given[name]}; {nearest(name, valid)}" for name in wrong])
    options.use_plugins(given.get("plugins"))
    pairs = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
    paths = {name: _path(given[name]) for name in ("data", "train_file", "senteval") if name in given}
    return SweepArguments(settings=pairs or None, **{**given, **paths})


def _path(given: PathLike | None) -> Path | None:
    return None if given is None else Path(given).expanduser()
