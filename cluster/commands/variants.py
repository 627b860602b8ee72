"""`cse train --all-variants`: each variant trained for a few steps in a sweep, and a line of what it logged."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.commands import arguments, failure, sweeping

if TYPE_CHECKING:
    from analysis.ledger import Ledger
    from cluster.options import SweepOptions
    from cluster.variants import Ended, Variant
    from cse_train.config import DataPaths


def run_variants(
    variants: "Sequence[Variant]",
    ledger_url: str,
    paths: "DataPaths",
    options: "SweepOptions",
    out: Path | None,
) -> int:
    """Train what the ledger lacks, print the table and write it to `out`; returns the exit code."""
    from cluster.variants import report

    ledger = arguments.open_ledger(ledger_url, create=True)
    runs = [variant.run for variant in variants if variant.run]
    unique = list({run.signature: run for run in runs}.values())
    known = ledger.states([run.signature for run in unique])
    done = frozenset(signature for signature, state in known.items() if state == "done")
    blocked = sum(variant.run is None for variant in variants)
    left = len(unique) - len(done)
    print(f"{len(variants)} variants: {len(unique)} runs, {len(done)} already in the ledger, {left} to run", flush=True)
    print(f"{blocked} blocked  (ledger {ledger.url})", flush=True)
    if runs:
        name = runs[0].sweep
        ledger.record_sweep(name, {"title": "Every variant of the papers' tables, a few steps each"})
        ledger.link_all(name, [(run.signature, run.cell, run.seed) for run in runs])
    code = failure.DONE
    if left:
        outcome = sweeping.run_planned(unique, done, ledger_url, paths, options)
        code = sweeping.told(outcome, ledger.url)
    text = report(variants, ended(ledger, [run.signature for run in unique]))
    print()
    print(text, end="")
    if out is not None:
        out.write_text(text, encoding="utf8")
    return code


def ended(ledger: "Ledger", signatures: Sequence[str]) -> "dict[str, Ended]":
    """Signature -> how the run stands, with what its curve's last point logged."""
    from cluster.variants import Ended

    curves = ledger.curves(signatures)
    last = {signature: points[-1]["metrics"] for signature, points in curves.items() if points}
    rows = ledger.runs(signatures=signatures)
    return {row.signature: Ended(row.state, row.reason or "", last.get(row.signature, {})) for row in rows}
