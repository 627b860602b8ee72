"""`cse trials`: lists the runs of a ledger."""

import itertools
from collections.abc import Mapping
from typing import Annotated

import typer

from analysis.ledger import Ledger, RunRow
from analysis.progress.sweeps import count_digits
from analysis.sweep_spec import SweepSpec
from analysis.tables.data_sets import DATA_DIGITS
from analysis.tables.labels import label, varying
from cse.cli.ledgers import LedgerUrl, existing_ledger
from cse.cli.listing import Format, FormatOption, Rounded, listing
from cse.cli.options import sweep_named
from cse_train.plugins.trainer import PARTS

Sweep = Annotated[
    str | None,
    typer.Argument(metavar="ID|FILE|SWEEP", help="Only runs of this sweep (cse ls), or space.", show_default=False),
]
State = Annotated[list[str] | None, typer.Option("--state", help="Only runs in this state.", show_default=False)]


def trials(sweep: Sweep = None, ledger: LedgerUrl = None, state: State = None, form: FormatOption = "text") -> None:
    """List runs: one row per (cell, seed), failed ones too."""
    rows = list_runs(existing_ledger(ledger), sweep, state, form)
    spare = ("folder or reason", "dev", "corpus", "version", "examples", "method")
    print(listing(rows, form, "no runs yet: cse demo starts some", spare=spare))


def list_runs(
    opened: Ledger | None, sweep: str | None, state: list[str] | None, form: Format = "json"
) -> list[dict[str, object]]:
    """Returns a row for each run: every stored field as JSON, or what fits on a line as text."""
    if sweep is not None:
        sweep = sweep_named(sweep, opened)
    runs = opened.runs(sweep=sweep, states=state) if opened else []
    names = settings_of(opened, sweep) if opened and form == "text" else {}
    specs = _specs_of(opened, sweep) if opened and form == "text" else {}
    versions = opened.versions() if opened else {}
    sources = {name: f"imported from {source.file}" for name, source in (opened.imports() if opened else {}).items()}
    row_of = _short if form == "text" else _whole
    rows = [row_of(run, names, versions.get(run.signature), sources.get(run.signature)) for run in runs]
    return [
        row | _reported(run, *specs[run.signature]) if run.signature in specs else row
        for run, row in zip(runs, rows, strict=True)
    ]


def _whole(run: RunRow, names: Mapping[str, str], version: int | None, source: str | None) -> dict[str, object]:
    stored = {name: value for name, value in vars(run).items() if name != "settings"}
    return stored | {"version": version, "source": source}


def settings_of(opened: Ledger, sweep: str | None) -> dict[str, str]:
    """Returns signature -> the axes that vary in its sweep, with the run's values; the method has its own column."""
    names: dict[str, str] = {}
    for row in opened.sweeps():
        if sweep in (None, row.id):
            links = opened.cells(row.id)
            keys = [link.cell for link in links]
            axes = varying(keys, [axis for axis in dict.fromkeys(itertools.chain(*keys)) if axis != "method"])
            names = {link.signature: label(link.cell, axes) for link in links} | names
    return names


def _specs_of(opened: Ledger, sweep: str | None) -> dict[str, tuple[SweepSpec, int]]:
    """Returns signature -> its sweep's description and decimals, for sweeps that declare a metric of their own."""
    specs = dict[str, tuple[SweepSpec, int]]()
    for row in opened.sweeps():
        spec = row.spec
        if sweep in (None, row.id) and spec.metric:
            runs = opened.runs(sweep=row.id)
            digits = count_digits(spec, [run.best for run in runs if run.best is not None])
            specs |= dict.fromkeys((run.signature for run in runs), (spec, digits))
    return specs


def _reported(run: RunRow, spec: SweepSpec, digits: int) -> dict[str, object]:
    """Returns the score with the sign in which it was reported, and progress in percent for runs that count parts."""
    best = -run.best if spec.is_turned and run.best is not None else run.best
    score: dict[str, object] = {} if best is None else {"best": Rounded(best, digits)}
    return score | ({"examples": f"{run.examples / PARTS:.0%}"} if spec.counts_parts and run.examples else {})


def _short(run: RunRow, names: Mapping[str, str], version: int | None, source: str | None) -> dict[str, object]:
    return {
        "signature": run.signature[:12],
        "state": run.state,
        "method": run.method,
        "settings": names.get(run.signature, ""),
        "version": version,
        **{name: str(run.identity.get(name, "-"))[:DATA_DIGITS] for name in ("corpus", "dev")},
        "seed": run.seed,
        "examples": run.examples,
        "best": run.best,
        "seconds": run.seconds,
        "folder or reason": run.reason or run.folder or source or "",
    }
