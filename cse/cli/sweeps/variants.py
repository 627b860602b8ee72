"""`cse variants`: trains every cell of some tables for a few steps, and prints one line of what each logged."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from analysis.ledger import Ledger
from analysis.render.markup import MARKDOWN, align_table
from analysis.run_state import RunState
from cluster.plan.plan import SpacePlan
from cse.cli import exit, ledgers, options
from cse.cli.loader import deferred
from cse.cli.sweep_options import SweepArguments, print_outcome
from cse.cli.sweeps.run import announce
from cse.experiments.request import work_of
from cse_train.fields import ConfigError
from cse_train.files import replace_text
from search_spaces.catalog import ALL, load_all
from search_spaces.cell_names import cell_name
from search_spaces.space import Space

with deferred(__name__):
    from cse.experiments import run as experiments

VARIANT_EXAMPLES = 12800
VARIANT_EVALUATIONS = 2
METRIC_HEADS = {
    "alignment": "alignment",
    "uniformity": "uniformity",
    "positive_cosine": "positive",
    "negative_cosine": "negative",
    "replaced_fraction": "replaced",
    "queue_rows": "queue",
}
"""Key of a logged metric -> the head of its column."""
VARIANT_COLUMNS = ("space", "cell", "method", "state", "dev", "loss", *METRIC_HEADS.values())
VARIANT_TEXTS = 4
"""Number of leading columns that are aligned to the left."""

Examples = Annotated[int, typer.Option(min=1, help="Training examples of each cell.")]
Out = Annotated[Path | None, typer.Option(help="Also write the table here.")]


@options.add_arguments
def variants(
    spaces: options.SpaceNames, examples: Examples = VARIANT_EXAMPLES, out: Out = None, *, arguments: SweepArguments
) -> int:
    """Train every cell of some tables for a few steps and print what each logs, to see that it trains."""
    short = [f"train.examples={examples}", f"train.evaluations={VARIANT_EVALUATIONS}", *(arguments.settings or [])]
    chosen = [space for word in spaces for space in load_all([word]) if word.lower() != ALL or trains_own_runs(space)]
    if endless := [space.id for space in chosen if space.sampled]:
        raise ConfigError(
            [f"no list of cells: space={name}; a search has no variants, see cse run" for name in endless]
        )
    requests = dataclasses.replace(arguments, settings=short, seeds=arguments.seeds or 1).requests(chosen)
    ledger = ledgers.open_ledger(arguments.ledger, arguments.storage, create=True)
    work = work_of(requests, ledger)
    announce(work, ledger.url)
    code = exit.DONE
    if work.done < work.total:
        code = print_outcome(experiments.run_grid(requests[0], dataclasses.replace(work, suites={})), ledger.url)
    text = report(work.spaces, ledger)
    print(f"\n{text}", end="")
    if out is not None:
        replace_text(out, text)
    return code


def trains_own_runs(space: Space) -> bool:
    """Returns True if a paper's table trains runs of its own; other tables only score such runs, or search."""
    return "sts_dev" in space.evaluate and not (space.search and space.search.sampler != "grid")


def report(spaces: Sequence[SpacePlan], ledger: Ledger) -> str:
    """Returns a Markdown table with one line for each cell and seed; below it, what cells lack and why they failed."""
    signatures = [run.signature for space in spaces for run in space.runs]
    rows = {row.signature: row for row in ledger.runs(signatures=signatures)}
    last = {signature: points[-1].metrics for signature, points in ledger.curves(signatures).items() if points}
    body: list[list[str]] = []
    reasons_by_cell: dict[str, str] = {}
    for space in spaces:
        for run in space.runs:
            name = cell_name(run.cell, run.seed or None)
            row, metrics = rows.get(run.signature), last.get(run.signature, {})
            state = "missing input" if run.signature in space.incomplete_runs else row.state if row else "not run"
            logged = [_number(metrics.get(key)) for key in METRIC_HEADS]
            dev = _number(metrics.get(run.run.train.dev))
            parts = [f"{k.removeprefix('loss_')} {_number(v)}" for k, v in metrics.items() if k.startswith("loss_")]
            loss = _number(metrics.get("loss")) + (f" ({', '.join(parts)})" if parts else "")
            body.append([space.id, name, run.run.method, state, dev, loss, *logged])
            if row is not None and row.state == RunState.FAILED:
                reasons_by_cell[f"{space.id} {name}"] = f"failed: {row.reason}"
        reasons_by_cell |= {f"{space.id} {cell.label}": f"missing input: {cell.reason}" for cell in space.incomplete}
        left_out = [name for name, value in space.resolved.substitutions().items() if value is None]
        reasons_by_cell |= {
            f"{space.id} {n}": f"no counterpart in profile {space.resolved.profile.name}" for n in left_out
        }
    lines = [[MARKDOWN.escape(entry) for entry in line] for line in body]
    reasons = [f"- {name}: {reason}" for name, reason in reasons_by_cell.items()]
    return "\n".join([align_table(list(VARIANT_COLUMNS), lines, VARIANT_TEXTS), "", *reasons]).rstrip() + "\n"


def _number(value: float | None) -> str:
    """Formats a number with three significant digits or more; "" for None."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"
