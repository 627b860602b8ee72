"""`cse table`: prints a space's table from the ledger, finished or not."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer

from analysis.answers.build import build, list_unfinished
from analysis.answers.judge import Verdicts
from analysis.answers.lookup import select
from analysis.ledger import SweepRow
from analysis.render.formats import render
from analysis.render.formats.json import TableDocument
from analysis.tables.aggregate import Table
from cse.cli import exit, ledgers, options, table_text
from cse.cli.loader import deferred
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError, Settings
from search_spaces.cells import sweep_name
from search_spaces.identity.user_files import add_user_files

with deferred(__name__):
    from analysis.answers import study
    from analysis.figures import table as figures
    from cse.experiments import untrained as untrained_rows

Answer = TableDocument
PICTURES = (".png", ".pdf", ".svg")
Untrained = Annotated[
    bool, typer.Option("--untrained", help="First score the paper's rows that need no training; can take long.")
]
Figure = Annotated[Path | None, typer.Option(help="Also draw the table into this file.")]


def table(
    space: options.SpaceOrSweep,
    form: table_text.TableFormat = None,
    plugins: options.Plugins = None,
    profile: options.Profile = None,
    seeds: options.Seeds = None,
    settings: options.Set = None,
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
    data: options.Data = None,
    train_file: options.TrainFile = None,
    train_columns: options.TrainColumns = None,
    data_hash: options.DataHash = None,
    senteval: options.SentEval = None,
    untrained: Untrained = False,
    figure: Figure = None,
) -> None:
    """Print a space's table: rows of its axes, n seeds, mean ± sd, the published value and the difference.

    Cells that lack seeds or an input are named on stderr.
    """
    if figure is not None and figure.suffix not in PICTURES:
        raise ConfigError([f"unknown figure: figure={figure}; end the name in {', '.join(PICTURES)}"])
    paths = options.data_paths(data, train_file, senteval, train_columns)
    values = options.settings(settings)
    answer = read_table(space, profile, seeds, values, ledger, storage, paths, data_hash, untrained)
    result, verdicts = answer.table, answer.verdicts
    print(render(result, form, verdicts) if form else table_text.show_table(result, verdicts), end="", flush=True)
    if figure is not None:
        figures.draw(result, figure)
    exit.say(list(answer.remarks))


@dataclass(frozen=True)
class TableAnswer:
    """Result of `cse table`: the table of a space or a sweep, with verdicts and remarks."""

    table: Table
    verdicts: Verdicts | None = None
    """Verdicts on a paper's table whose runs were imported at the paper's own scale; None for any other table."""
    remarks: Sequence[str] = ()
    """Lines for the user: spent budgets, cells that lack seeds or an input, options without an effect."""


def read_table(
    name: str,
    profile: str | None = None,
    seeds: int | None = None,
    settings: Settings = MappingProxyType({}),
    ledger: str | None = None,
    storage: str | None = None,
    paths: DataPaths | None = None,
    data_hash: str | None = None,
    untrained: bool = False,
) -> TableAnswer:
    """Returns the table of a space (ID or file) or a sweep from the ledger at this URL, finished or not.

    With `paths` that name data, rows that need no training are scored where the ledger lacks them; `untrained` also
    scores the paper's models that nobody trains. Raises ConfigError for an unknown name.
    """
    opened = ledgers.existing_ledger(ledger, storage)
    resolved = select(name, opened, profile, settings, as_run=False)
    if isinstance(resolved, SweepRow):
        assert opened is not None
        unused = {"profile": profile, "seeds": seeds, "set": settings, "untrained": untrained}
        unused_names = ", ".join(option for option, value in unused.items() if value)
        remark = f"not used: {unused_names}; {name} has the runs of another tool, all of which are shown"
        return TableAnswer(*study.read_judged(resolved, opened, ledger, data_hash), [remark] if unused_names else [])
    user_paths, unevaluated = None, dict[str, str]()
    if paths is not None and (untrained or paths.inputs()):
        user_paths = add_user_files(paths, resolved.files)
        opened = opened or ledgers.open_ledger(ledger, storage, create=True)
        if untrained:
            (unevaluated,) = untrained_rows.score_models([resolved], opened, user_paths, exit.tell)
        untrained_rows.ensure(resolved, opened, user_paths)
    seed_range = range(seeds) if seeds else None
    table = build(resolved, opened, seed_range, paths=user_paths, data_hash=data_hash, unevaluated=unevaluated)
    if opened is None:
        return TableAnswer(table)
    spec = opened.sweep_spec(sweep_name(resolved))
    searched = resolved.space.search is not None
    unfinished = [] if searched else list_unfinished(table, seeds or len(resolved.space.seeds), spec.blocked)
    return TableAnswer(table, None, [*spec.spent, *unfinished])
