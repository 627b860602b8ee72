"""`cse report`: writes one HTML page of a space or a sweep."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.answers.lookup import is_space, sweep_of
from analysis.answers.paper_scale import unlike_paper
from analysis.answers.study import compare_with_paper, read_space, read_sweep
from analysis.ledger import Ledger
from analysis.report.facts import folder_name
from analysis.tables.labels import some
from cse.cli import ledgers, options, screen
from cse.cli.loader import deferred
from cse_train.fields import ConfigError, Settings, nearest
from search_spaces.catalog import catalog, load_space
from search_spaces.cells import resolve
from search_spaces.space import Space

with deferred(__name__):
    from analysis.report import report as reports

REPORTS_NAMED = 5
"""Missing runs that an error message names."""

Name = Annotated[str, typer.Argument(metavar="FILE|ID|SWEEP", help="A space, or a sweep's name (cse ls).")]
Out = Annotated[Path | None, typer.Option(help="Folder of the page (reports/NAME beside the ledger).")]
Figures = Annotated[bool, typer.Option("--figures", help="Also write each figure as PNG and PDF.")]


def report(
    name: Name,
    ledger: ledgers.LedgerUrl = None,
    out: Out = None,
    figures: Figures = False,
    plugins: options.Plugins = None,
    profile: options.Profile = None,
    seeds: options.Seeds = None,
    settings: options.Set = None,
    data_hash: options.DataHash = None,
    storage: options.Storage = None,
) -> None:
    """Write one self-contained HTML page: table, curves, importance, geometry, cost, provenance."""
    values = options.settings(settings)
    print(write(name, ledger, out, figures, profile, seeds, values, data_hash, storage))


def write(
    name: str,
    ledger: str | None,
    out: Path | None,
    figures: bool,
    profile: str | None,
    seeds: int | None,
    settings: Settings,
    data_hash: str | None,
    storage: str | None,
) -> Path:
    """Writes the page of a space or a sweep and returns its path. Raises ConfigError where no run is finished."""
    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError([f"not a folder: --out={out}; name a folder, new or not"])
    screen.note(f"reading and drawing {name}")
    opened = ledgers.existing_ledger(ledger, storage)
    folder = ledgers.notes_folder(ledgers.ledger_url(ledger), ledgers.storage_folder(storage))
    sweep = None if is_space(name) else sweep_of(name, opened)
    if sweep is not None and opened is not None:
        resolved, study, table = read_sweep(sweep, opened, ledger, data_hash)
    else:
        resolved = resolve(_space(name, opened), profile, settings)
        seed_range = tuple(range(seeds)) if seeds else None
        study, table = read_space(resolved, ledgers.require_ledger(opened), seed_range, ledger, data_hash)
    if not study.finished:
        missing = [f"{run.cell} seed {run.seed} ({run.state})" for run in study.missing]
        runs_text = f"; missing: {some(missing, REPORTS_NAMED)}" if missing else ""
        raise ConfigError([f"no finished run: study={study.id}{runs_text}; {study.command} runs them"])
    verdicts, ordering = compare_with_paper(resolved, study, table, ledgers.require_ledger(opened))
    same_scale = resolved is not None and not unlike_paper(resolved)
    target = out or folder / "reports" / folder_name(study.id)
    contents = reports.make_report(study, table, verdicts, ordering, same_scale=same_scale)
    return reports.write_report(contents, target, figures=figures)


def _space(name: str, ledger: Ledger | None) -> Space:
    """Loads a space. Raises ConfigError that names the nearest of all space IDs and sweeps."""
    names = [*catalog(), *(sweep.id for sweep in (ledger.sweeps() if ledger else []))]
    if not is_space(name):
        raise ConfigError([f"unknown study: study={name}; {nearest(name, names)}"])
    return load_space(name)
