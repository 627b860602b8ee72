"""`cse trials`: lists the runs of a ledger."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer

from analysis.documents import HIDDEN, dump_json
from analysis.ledger import Ledger, RunRow
from analysis.progress.sweeps import count_digits
from analysis.sweep_spec import SweepSpec
from analysis.tables.labels import DATA_DIGITS, label, varying
from cse.cli.ledgers import LedgerUrl, existing_ledger
from cse.cli.listing import FormatOption, Rounded, listing
from cse.cli.options import sweep_named
from cse_train.plugins.trainer import PARTS

Sweep = Annotated[
    str | None, typer.Argument(metavar="ID|FILE|SWEEP", help="Only runs of this sweep (cse ls), or space.")
]
State = Annotated[list[str] | None, typer.Option(help="Only runs in this state.")]


@dataclass(frozen=True, kw_only=True)
class StoredRun(RunRow):
    """One run of a ledger with every stored field; its score has the sign in which the ledger stores it."""

    settings: str = field(default="", compare=False, metadata=HIDDEN)
    version: int | None
    """VERSION of the method's code; None for runs of version 0.1.0."""
    source: str | None
    """File from which the run was imported; None for a run that was trained here."""


Answer = list[StoredRun]


def trials(sweep: Sweep = None, ledger: LedgerUrl = None, state: State = None, form: FormatOption = "text") -> None:
    """List runs: one row per (cell, seed), failed ones too."""
    opened = existing_ledger(ledger)
    name = None if sweep is None else sweep_named(sweep, opened)
    runs = list_runs(opened, name, state)
    print(dump_json(runs) if form == "json" else describe_runs(runs, opened, name))


def list_runs(opened: Ledger | None, sweep: str | None, states: Sequence[str] | None) -> list[StoredRun]:
    """Returns the runs of a ledger, or of one of its sweeps, in the order of their creation."""
    if opened is None:
        return []
    versions, imports = opened.versions(), opened.imports()
    return [
        StoredRun(
            **vars(run),
            version=versions.get(run.signature),
            source=f"imported from {imports[run.signature].file}" if run.signature in imports else None,
        )
        for run in opened.runs(sweep=sweep, states=states)
    ]


def describe_runs(runs: Sequence[StoredRun], opened: Ledger | None, sweep: str | None) -> str:
    """Returns the runs as a table of what fits on a line: scores as they were reported, hashes cut."""
    names: dict[str, str] = {}
    specs: dict[str, tuple[SweepSpec, int]] = {}
    for row in opened.sweeps() if opened and runs else []:
        if sweep in (None, row.id):
            links = opened.cells(row.id) if opened else []
            keys = [link.cell for link in links]
            # The method has a column of its own.
            axes = varying(keys, [axis for axis in dict.fromkeys(itertools.chain(*keys)) if axis != "method"])
            names = {link.signature: label(link.cell, axes) for link in links} | names
            if row.spec.metric and opened:
                scores = [run.best for run in opened.runs(sweep=row.id) if run.best is not None]
                digits = count_digits(row.spec, scores)
                specs |= {link.signature: (row.spec, digits) for link in links}
    rows = [_line(run, names.get(run.signature, ""), *specs.get(run.signature, (None, 2))) for run in runs]
    spare = ("folder or reason", "dev", "corpus", "version", "examples", "method")
    return listing(rows, "text", "no runs yet: cse demo starts some", spare=spare)


def _line(run: StoredRun, settings: str, spec: SweepSpec | None, digits: int) -> dict[str, object]:
    """Returns a run's line; `spec` is that of its sweep, if the sweep declares a metric of its own."""
    best: float | None = run.best
    examples: object = run.examples
    if spec is not None and best is not None:
        best = Rounded(-best if spec.is_turned else best, digits)
    if spec is not None and spec.counts_parts and run.examples:
        examples = f"{run.examples / PARTS:.0%}"
    return {
        "signature": run.signature[:12],
        "state": run.state,
        "method": run.method,
        "settings": settings,
        "version": run.version,
        **{name: str(run.identity.get(name, "-"))[:DATA_DIGITS] for name in ("corpus", "dev")},
        "seed": run.seed,
        "examples": examples,
        "best": best,
        "seconds": run.seconds,
        "folder or reason": run.reason or run.folder or run.source or "",
    }
