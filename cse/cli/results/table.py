"""`cse table`: a space's table from the ledger, finished or not."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.render.formats import render
from analysis.tables.aggregate import Table
from analysis.tables.verdict import Verdicts
from cluster.plan.user_files import add_user_files
from cse.cli import exit, ledgers, options, table_text
from cse.cli.loader import deferred
from cse.tables.build import build, list_unfinished
from cse.tables.lookup import find_foreign_sweep, space_first
from cse_train.fields import ConfigError
from search_spaces.cells import sweep_name

with deferred(__name__):
    from analysis.figures import table as figures
    from cse.experiments import baselines, evaluated
    from cse.tables import study

PICTURES = (".png", ".pdf", ".svg")
Untrained = Annotated[
    bool, typer.Option("--untrained", help="First score the paper's rows that need no training; can take long.")
]
Figure = Annotated[Path | None, typer.Option(help="Also draw the table into this file.", show_default=False)]


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
    opened = ledgers.existing_ledger(ledger, storage)
    imported = find_foreign_sweep(space, opened)
    if imported is not None and opened is not None:
        _show(*study.read_judged(imported, opened, ledger, data_hash), form, figure)
        return
    resolved = space_first(space, opened, profile, options.settings(settings))
    paths, unevaluated = None, dict[str, str]()
    if untrained or data is not None or train_file is not None or senteval is not None:
        paths = add_user_files(options.data_paths(data, train_file, senteval, train_columns), resolved.files)
        opened = opened or ledgers.open_ledger(ledger, storage, create=True)
        if untrained:
            (unevaluated,) = evaluated.score_models([resolved], opened, paths, exit.tell)
        baselines.ensure(resolved, opened, paths)
    wanted = range(seeds) if seeds else None
    made = build(resolved, opened, wanted, paths=paths, data_hash=data_hash, unevaluated=unevaluated)
    _show(made, None, form, figure)
    if opened is not None:
        spec = opened.sweep_spec(sweep_name(resolved))
        exit.say(list(spec.spent))
        if resolved.space.search is None:
            exit.say(list_unfinished(made, seeds or len(resolved.space.seeds), spec.blocked))


def _show(made: Table, verdicts: Verdicts | None, form: str | None, figure: Path | None) -> None:
    print(render(made, form, verdicts) if form else table_text.show_table(made, verdicts), end="", flush=True)
    if figure is not None:
        figures.draw(made, figure)
