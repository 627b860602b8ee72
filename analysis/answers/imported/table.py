"""Places runs of other tools in the table of a space with the sweep's name; never next to runs trained here."""

from collections.abc import Mapping
from dataclasses import replace

from analysis.answers.imported import IMPORTED
from analysis.answers.imported.metric import metric_of_spec
from analysis.ledger import Ledger, RunRow
from analysis.sweep_spec import SweepSpec
from analysis.tables.results import DEV, Planned
from analysis.tables.spec import MetricScale
from cse_train.fields import Scalar
from search_spaces.cells import ResolvedSpace, full_key, setups, sweep_name


def plan_imported(
    resolved: ResolvedSpace, ledger: Ledger | None
) -> tuple[list[Planned], list[RunRow], list[str], dict[str, MetricScale]]:
    """Returns imported runs whose settings name a cell: (cell key, signature, seed), their rows, notes, and scales.

    A row gets the space's dev set as its dev setting, so that the dev set's column shows its score in the tool's own
    sign. The scales are column -> scale of that score.
    """
    name = sweep_name(resolved)
    spec = ledger.sweep_spec(name) if ledger else SweepSpec({})
    if ledger is None or spec.imported is None:
        return [], [], [], {}
    keys = {link.signature: _key(resolved, link.cell) for link in ledger.cells(name)}
    rows = [run for run in ledger.runs(sweep=name) if keys.get(run.signature) and IMPORTED in run.identity]
    dev = str(setups(resolved)[0][DEV])
    planned: list[Planned] = [(full_key(resolved, keys[run.signature] or {}), run.signature, run.seed) for run in rows]
    note = f"{len(rows)} of {len(keys)} runs imported from {spec.imported}: {dev} is its `{spec.score}`"
    metric = metric_of_spec(spec, rows)
    measured_runs = [metric.measured(replace(run, config={**run.config, DEV: dev}, settings="")) for run in rows]
    notes = [f"{note}, measured there by a protocol of its own."] if rows else []
    return planned, measured_runs, notes, {dev: metric.scale}


def _key(resolved: ResolvedSpace, settings: Mapping[str, Scalar]) -> dict[str, Scalar] | None:
    """Returns the key of the cell that settings name; None if an axis is absent or has another value."""
    flat = {**resolved.fixed, **settings}
    key = {axis: flat[axis] for axis, domain in resolved.axes.items() if axis in flat and domain.active(flat)}
    return key if resolved.contains(key) else None
