"""Explains one cell of a table for `cse explain`: its runs, their origin, and the command that repeats them."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.answers.build import scale_of, spec_of
from analysis.answers.imported import ImportedCell, list_caveats, metric_of_runs, metric_of_spec, scale_of_protocols
from analysis.answers.lookup import space_of_sweep
from analysis.documents import HIDDEN, OPTIONAL
from analysis.ledger import Ledger, RunRow, SweepRow
from analysis.matching import match, match_on
from analysis.run_state import RunState
from analysis.tables.columns import Entry, SeedPicks, entry_of
from analysis.tables.results import BEST_COLUMN, drop_part, results_of
from analysis.tables.spec import Key, MetricScale, PaperRow, TableSpec
from cse_train.fields import Settings
from cse_train.results import Protocol
from search_spaces.catalog import space_name
from search_spaces.cell_names import cell_argument, setting
from search_spaces.cells import Cell, ResolvedSpace, full_key
from search_spaces.paper import Paper

STORED = "signature seed state best best_examples examples seconds folder reason identity attempt".split()
"""Fields of a run's row in the ledger that an explained run has too."""
UNIQUE_DETAILS = ("id", "metrics", "row")
"""Details that differ between any two imported runs, so that they are not compared."""


def command(resolved: ResolvedSpace, cell: Cell, seeds: Sequence[int], runs: Sequence[RunRow] = ()) -> str:
    """Returns the `cse run` that trains one cell alone; `seeds` are given where they count from 0."""
    profile = resolved.profile.name if resolved.profile.name != resolved.space.profile else None
    counted = seeds if list(seeds) == list(range(len(seeds))) else None
    workers = {run.identity["workers"] for run in runs if "workers" in run.identity}
    options = ("--workers", str(workers.pop())) if len(workers) == 1 else ()
    return run_command(space_name(resolved.space.file), profile, narrow(resolved, cell), counted, options)


def run_command(
    space: str, profile: str | None, settings: Settings, seeds: Sequence[int] | None, options: Sequence[str]
) -> str:
    """Returns a `cse run` command line that ends with the words in `options`."""
    words = ["cse", "run", space, *(("--profile", profile) if profile else ())]
    words += [word for key, value in settings.items() for word in ("--set", setting(key, value))]
    words += ["--seeds", str(len(seeds))] if seeds else []
    return shlex.join([*words, *options])


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run, how it ended, and where it ran."""

    attempt: int
    state: str
    reason: str | None
    examples: int | None
    seconds: float | None
    details: Mapping[str, object]
    """Commit, versions, host and hardware."""


@dataclass(frozen=True, kw_only=True)
class SeedRun:
    """Run of one seed with everything that the ledger has of it."""

    signature: str
    seed: int
    state: RunState
    best: float | None
    best_examples: int | None
    examples: int | None
    seconds: float | None
    folder: str | None
    reason: str | None
    identity: Settings
    """Input -> hash of its content."""
    values: Mapping[str, float | None]
    """Column -> value; None if the run is not done or was not scored."""
    checkpoint: str | None
    """Folder of the best checkpoint; None if it is not on this machine."""
    source: str | None
    """Sentence on where an imported run comes from; None for a run that was trained here."""
    sweeps: Sequence[str]
    """Names of all sweeps that the run belongs to."""
    attempts: Sequence[Attempt]
    dev: Mapping[str, float | None] = field(metadata=HIDDEN)
    """Column -> the dev score by which the run's checkpoint was picked; None for the dev set's own column."""
    attempt: int = field(metadata=HIDDEN)
    """Number of the newest attempt."""


@dataclass(frozen=True, kw_only=True)
class ColumnNumbers:
    """One column of an explained cell: mean and sd over seeds, and the published value."""

    n: int
    mean: float | None
    sd: float | None
    published: float | None
    best_of: SeedPicks | None = field(default=None, metadata=OPTIONAL)
    entry: Entry = field(metadata=HIDDEN)
    scale: MetricScale = field(metadata=HIDDEN)

    @property
    def digits(self) -> int:
        """Decimals that count in the column."""
        return self.scale.digits(self.entry.values)


@dataclass(frozen=True)
class NoPaper:
    """Cell of a space without a paper."""


@dataclass(frozen=True, kw_only=True)
class PaperCell:
    """Published values of one cell, with the citation and the table that print them."""

    citation: str
    table: str
    source: str
    metric: str
    notes: str
    finding: str
    cells: Mapping[str, float]
    """Column -> number as printed; empty where the paper prints none for the cell."""
    as_printed: bool = field(default=False, metadata=OPTIONAL)
    """True if the row keeps a misprint."""
    recomputed: Mapping[str, float] = field(default_factory=dict, metadata=OPTIONAL)
    """Column of a misprint -> value that the row's other numbers give."""


@dataclass(frozen=True, kw_only=True)
class CellCost:
    """Runs and attempts of a cell, with the examples and seconds of all attempts together."""

    runs: int
    attempts: int
    examples: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Explained:
    """One cell of a table with all that is known of its runs."""

    space: str
    """ID of the space, or the sweep of imported runs."""
    profile: str
    """Name of the profile; empty for imported runs."""
    cell: Key
    label: str | None
    columns: Mapping[str, ColumnNumbers]
    paper: PaperCell | NoPaper
    runs: Sequence[SeedRun]
    missing_seeds: Sequence[int]
    """Requested seeds that have no run."""
    protocols: Mapping[str, Sequence[Mapping[str, object]]]
    """Column -> the distinct protocols of its scores."""
    shared: Mapping[str, object]
    """Facts on inputs, code and machines that all runs share."""
    differing: Mapping[str, Mapping[str, Sequence[int]]]
    """Fact in which runs differ -> {value: the seeds that have it}."""
    cost: CellCost
    command: str
    """Command that repeats the runs; empty for imported ones."""
    title: str = field(metadata=HIDDEN)
    argument: str = field(metadata=HIDDEN)
    """Cell in the form that `--cell` takes."""
    notes: Sequence[str] = field(metadata=HIDDEN)
    """Lines on runs of the table that are on other data, or were made by others."""


def candidates(resolved: ResolvedSpace, rows: Sequence[RunRow]) -> list[Cell]:
    """Returns every cell of the space; for an infinite space, the cells that have run."""
    if resolved.size() is not None:
        return resolved.cells()
    return list({matched.cell.id: matched.cell for matched in match(resolved, rows)}.values())


def explain_cell(
    resolved: ResolvedSpace,
    cell: Cell,
    ledger: Ledger | None,
    rows: Sequence[RunRow],
    seeds: Sequence[int],
    data_hash: str | None = None,
) -> Explained:
    """Returns all that the ledger, the space and the paper hold on a cell."""
    spec = spec_of(resolved)
    columns = columns_behind(resolved, cell, spec)
    matched_runs, notes = match_on(resolved, rows, data_hash=data_hash)
    matches = [matched.run for matched in matched_runs if matched.cell.id == cell.id]
    metric = metric_of_runs(ledger, matches) if ledger else None
    matches = [metric.measured(run) for run in matches] if metric else matches
    runs, protocols = read_seeds(ledger, matches, columns, spec.scores) if ledger else ([], {})
    run_seeds = {run.seed for run in runs}
    return _explain(
        resolved,
        spec,
        full_key(resolved, drop_part(cell.key)),
        runs,
        protocols,
        scales=scales_of_columns(columns, runs, spec.scores) | ({metric.name: metric.scale} if metric else {}),
        space=resolved.space.id,
        profile=resolved.profile.name,
        cell=cell.key,
        label=cell.label,
        missing_seeds=[seed for seed in seeds if seed not in run_seeds],
        command=command(resolved, cell, sorted(run_seeds) or list(seeds), matches),
        title=resolved.space.title,
        argument=cell_argument(cell),
        notes=notes,
    )


def explain_imported(cell: ImportedCell, sweep: SweepRow, ledger: Ledger) -> Explained:
    """Returns all that the ledger holds on a cell of imported runs, and the row of a paper's table, if it is in one."""
    resolved = space_of_sweep(sweep) if sweep.spec.file else None
    metric = metric_of_spec(sweep.spec, ledger.runs(sweep=sweep.id))
    scored = sorted({score.suite for score in ledger.scores([run.signature for run in cell.runs])})
    spec = spec_of(resolved) if resolved else TableSpec(id=sweep.id, axes=[], columns=[BEST_COLUMN, *scored])
    columns = spec.columns if resolved else [BEST_COLUMN, *scored]
    runs, protocols = read_seeds(ledger, [metric.measured(run) for run in cell.runs], columns, spec.scores)
    declared = {column: scale for column in columns if (scale := scale_of_protocols(protocols[column]))}
    scales = {**scales_of_columns(columns, runs, spec.scores), BEST_COLUMN: metric.scale, **declared}
    return _explain(
        resolved,
        spec,
        full_key(resolved, cell.key) if resolved else {},
        runs,
        protocols,
        scales={column: scales[column] for column in columns},
        space=sweep.id,
        profile="",
        cell=cell.key,
        label=cell.label,
        missing_seeds=[],
        command="",
        title=sweep.spec.title,
        argument=cell.argument,
        notes=[f"best is {metric.name}", *list_caveats(sweep, ledger, [run.signature for run in cell.runs])],
    )


def _explain(
    resolved: ResolvedSpace | None,
    spec: TableSpec,
    key: Key,
    runs: Sequence[SeedRun],
    protocols: Mapping[str, Sequence[Protocol]],
    scales: Mapping[str, MetricScale],
    **about: Any,
) -> Explained:
    """Returns an explained cell; `about` are the fields of `Explained` that do not follow from its runs and its row."""
    published = next((row for row in spec.published if row.key == key), PaperRow(cells={}))
    attempts = [attempt for run in runs for attempt in run.attempts]
    shared, differing = compare_origins(runs)
    return Explained(
        columns={
            column: _summarise(column, runs, scale, published.cells.get(column)) for column, scale in scales.items()
        },
        paper=_quote(resolved.space.paper if resolved else None, published),
        runs=runs,
        protocols={column: [protocol.facts for protocol in each] for column, each in protocols.items()},
        shared=shared,
        differing=differing,
        cost=CellCost(
            runs=len(runs),
            attempts=len(attempts),
            examples=sum(attempt.examples or 0 for attempt in attempts),
            seconds=sum(attempt.seconds or 0.0 for attempt in attempts),
        ),
        **about,
    )


def _summarise(column: str, runs: Sequence[SeedRun], scale: MetricScale, published: float | None) -> ColumnNumbers:
    values = {run.seed: value for run in runs if (value := run.values[column]) is not None}
    dev_scores = {run.seed: value for run in runs if (value := run.dev[column]) is not None}
    entry = entry_of(values, published, dev=dev_scores, scale=scale)
    return ColumnNumbers(
        n=entry.n,
        mean=entry.mean,
        sd=entry.sd,
        published=published,
        best_of=entry.best_of,
        entry=entry,
        scale=scale,
    )


def _quote(paper: Paper | None, published: PaperRow) -> PaperCell | NoPaper:
    if paper is None:
        return NoPaper()
    return PaperCell(
        citation=paper.citation,
        table=paper.table,
        source=paper.source,
        metric=paper.metric,
        notes=paper.notes,
        finding=paper.finding,
        cells=published.cells,
        as_printed=bool(published.recomputed),
        recomputed=published.recomputed,
    )


def read_seeds(
    ledger: Ledger, runs: Sequence[RunRow], columns: Sequence[str], names: Mapping[str, str]
) -> tuple[list[SeedRun], dict[str, list[Protocol]]]:
    """Returns the runs by seed, and column -> distinct protocols of its scores. `names` is column -> stored suite."""
    values: dict[str, dict[str, float | None]] = {run.signature: {} for run in runs}
    dev: dict[str, dict[str, float | None]] = {run.signature: {} for run in runs}
    protocols: dict[str, list[Protocol]] = {column: [] for column in columns}
    for result in results_of(ledger, [({}, run.signature, run.seed) for run in runs], columns, names, runs):
        column, value = result.column, result.value
        values[result.signature][column] = None if math.isnan(value) else value
        dev[result.signature][column] = result.dev
        if result.protocol and result.protocol not in protocols[column]:
            protocols[column].append(result.protocol)
    sweeps: dict[str, list[str]] = {signature: [] for signature in values}
    for sweep in ledger.sweeps():
        for signature in {link.signature for link in ledger.cells(sweep.id)} & sweeps.keys():
            sweeps[signature].append(sweep.id)
    sources = {signature: source.line() for signature, source in ledger.imports(values).items()}
    attempts = {signature: _read_attempts(ledger, signature) for signature in values}
    rows = [
        SeedRun(
            **{name: getattr(run, name) for name in STORED},
            values=values[run.signature],
            checkpoint=str(run.files.best) if run.files and run.files.best.is_dir() else None,
            source=sources.get(run.signature),
            sweeps=sweeps[run.signature],
            attempts=attempts[run.signature],
            dev=dev[run.signature],
        )
        for run in runs
    ]
    return sorted(rows, key=lambda row: row.seed), protocols


def _read_attempts(ledger: Ledger, signature: str) -> list[Attempt]:
    ends = {row.attempt: row for row in ledger.history(signature)}
    return [
        Attempt(row.attempt, ends[row.attempt].state, ends[row.attempt].reason, row.examples, row.seconds, row.details)
        for row in ledger.provenance([signature]).get(signature, [])
    ]


def compare_origins(runs: Sequence[SeedRun]) -> tuple[dict[str, object], dict[str, dict[str, tuple[int, ...]]]]:
    """Returns what the runs' last attempts and inputs have in common, and every fact in which two of them differ."""
    facts = {run.seed: _list_facts(run) for run in runs}
    shared, differing = dict[str, object](), dict[str, dict[str, tuple[int, ...]]]()
    for name in dict.fromkeys(name for seed_facts in facts.values() for name in seed_facts):
        by_value: dict[str, tuple[int, ...]] = {}
        for seed, seed_facts in facts.items():
            value = json.dumps(seed_facts.get(name), sort_keys=True)
            by_value[value] = (*by_value.get(value, ()), seed)
        if len(by_value) == 1:
            shared[name] = json.loads(next(iter(by_value)))
        else:
            differing[name] = by_value
    return shared, differing


def _list_facts(run: SeedRun) -> dict[str, object]:
    facts: dict[str, object] = {}
    nested: dict[str, object] = {}
    for name, value in (run.attempts[-1].details if run.attempts else {}).items():
        if name in UNIQUE_DETAILS:
            continue
        if isinstance(value, Mapping):
            nested |= {f"{name}.{inner}": item for inner, item in value.items()}
        else:
            facts[name] = value
    return {**facts, **nested, **{f"input.{name}": value for name, value in run.identity.items()}}


def scales_of_columns(
    columns: Sequence[str], runs: Sequence[SeedRun], names: Mapping[str, str]
) -> dict[str, MetricScale]:
    """Returns column -> scale of its numbers; `names` is column -> stored suite."""
    values = {column: [value for run in runs if (value := run.values[column]) is not None] for column in columns}
    return {column: scale_of(names.get(column, column), values[column]) for column in columns}


def columns_behind(resolved: ResolvedSpace, cell: Cell, spec: TableSpec) -> list[str]:
    """Returns the columns of a cell's row that use the cell's runs."""
    unused = {suite for suite in resolved.space.evaluate if suite not in resolved.suites_of(cell.key)}
    return [
        column
        for column in spec.columns
        if (
            spec.scores.get(column, column) == cell.part if cell.part else spec.scores.get(column, column) not in unused
        )
    ]


def narrow(resolved: ResolvedSpace, cell: Cell) -> Settings:
    """Returns settings under which the space holds one cell alone as it runs, substitutions and defaults included."""
    flat = cell.run(0).flat()
    lists_cells = bool(resolved.space.cells)
    axes = [axis for axis in resolved.space.axis_names if axis in flat and (lists_cells or axis in cell.key)]
    overrides = {key: value for key, value in resolved.given().items() if key in flat}
    suite_settings = [key for settings in resolved.space.set_for.values() for key in settings if key in flat]
    return {**overrides, **{axis: flat[axis] for axis in (*axes, *suite_settings)}}
