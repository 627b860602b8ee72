"""Builds the table of `cse table`: a space's results from the ledger, finished or not, next to the published values."""

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from analysis.answers import baselines
from analysis.answers.imported import IMPORTED, metric_of_runs, plan_imported
from analysis.ledger import Ledger, RunRow
from analysis.matching import match_on
from analysis.run_state import RunState
from analysis.tables.aggregate import Baseline, Table, aggregate
from analysis.tables.labels import differing, number_of, some
from analysis.tables.results import DEV, PART, Planned, drop_part, results_of
from analysis.tables.spec import Key, MetricScale, PaperRow, RunValue, SettingDifference, TableSpec, identify
from cse_train.config import complete
from cse_train.data_paths import DataPaths
from cse_train.evaluate.metric_names import read_span
from cse_train.evaluate.suites.registry import columns, is_known, metric_of, sense, span
from search_spaces import cells
from search_spaces.catalog import space_name
from search_spaces.cell_names import cell_name, setting
from search_spaces.cells import ResolvedSpace, setups
from search_spaces.identity.signature import PROMPT

NOTHING: Mapping[str, str] = MappingProxyType({})
NO_SCALES: Mapping[str, MetricScale] = MappingProxyType({})
SEED_SETTINGS = ("train.seed", "seed")
"""Settings that name a run's seed; runs of other tools use the second."""
SCALE = ("encoder", "corpus", "examples", "batch_size", "evaluations", "max_seq_length", "learning_rate")


def build(
    resolved: ResolvedSpace,
    ledger: Ledger | None,
    seeds: Sequence[int] | None = None,
    *,
    paths: DataPaths | None = None,
    data_hash: str | None = None,
    unevaluated: Mapping[str, str] = NOTHING,
) -> Table:
    """Builds a space's table from runs on one data set (`match_on`); a note counts runs on other data.

    `unevaluated` is passed on to `build_planned`.
    """
    rows = ledger.runs() if ledger else []
    matches, notes = match_on(resolved, rows, seeds, paths=paths, data_hash=data_hash)
    planned, runs = [matched.planned for matched in matches], [matched.run for matched in matches]
    scales: Mapping[str, MetricScale] = {}
    metric = metric_of_runs(ledger, runs) if ledger and resolved.own_loop else None
    if metric:
        runs, scales = [metric.measured(run) for run in runs], {metric.name: metric.scale}
    if not matches:
        planned, runs, notes, scales = plan_imported(resolved, ledger)
    table = build_planned(resolved, ledger, planned, runs, unevaluated, scales)
    return replace(table, notes=[*table.notes, *notes])


def build_planned(
    resolved: ResolvedSpace,
    ledger: Ledger | None,
    planned: Sequence[Planned],
    runs: Sequence[RunRow] | None = None,
    unevaluated: Mapping[str, str] = NOTHING,
    scales: Mapping[str, MetricScale] = NO_SCALES,
    published: bool = False,
) -> Table:
    """Builds a space's table from the planned runs (cell key, signature, seed); `runs` holds them where they were read
    before.

    `unevaluated` is label of a row of the paper -> why its model could not be scored. `scales` is column -> scale, for
    columns without a suite of this project. `published` is for readers without the ledger, to whom commands that fill
    it say nothing.
    """
    spec, lines, changes, remarks = spec_of(resolved), list[RunValue](), list[RunValue](), list[str]()
    rows, no_signal = list[Baseline](), baselines.NO_IDLE
    if ledger is None:
        runs = []
    else:
        if runs is None:
            runs = ledger.runs(signatures=[signature for _, signature, _ in planned])
        lines = results_of(ledger, planned, spec.columns, spec.scores, runs)
        data: dict[str, set[str]] = {}  # column -> content hashes of the sets behind its numbers
        for run in runs:
            if "dev" in run.identity:
                data.setdefault(str(run.config.get(DEV)), set()).add(str(run.identity["dev"]))
        for line in lines:
            if line.protocol is not None:
                data.setdefault(line.column, set()).add(str(line.protocol.facts.get("data_hash")))
        changes, remarks = baselines.find_changes(lines, runs, resolved.space.forgotten, ledger)
        rows = baselines.read_stored(setups(resolved), spec.columns, ledger, data)
        no_signal = baselines.idle(runs, ledger)
    models = baselines.models_of(resolved, spec, ledger)
    # Training starts from the untrained encoder under the pooler that all cells share.
    starts = {baselines.start_of(flat) for flat in setups(resolved)}
    untrained = baselines.UNTRAINED_NAMES.get(starts.pop() or "") if len(starts) == 1 else None
    scales = {**scales_of(spec, lines), **scales}
    forgotten = {f"{column}{baselines.CHANGE_SUFFIX}": column for column in resolved.space.forgotten}
    spec = replace(
        spec,
        protocol={**spec.protocol, **prompts_of(runs)},
        columns=[*spec.columns, *forgotten],
        scales={**scales, **{name: scales[column] for name, column in forgotten.items()}},
    )
    table = aggregate(
        spec,
        [*lines, *changes],
        baselines=rows,
        untrained=next((dict(row.values) for row in rows if row.label == untrained), None),
        models=models,
        no_signal_runs=no_signal.signatures,
        barely=no_signal.barely,
    )
    remarks += [*baselines.list_unscored(resolved, models, unevaluated), *no_signal.lines()]
    remarks += [] if published else _list_unscorable(space_name(resolved.space.file), lines, runs)
    return replace(table, notes=[*table.notes, *remarks], differing=find_differences(spec, planned, runs))


def _list_unscorable(space: str, lines: Sequence[RunValue], runs: Sequence[RunRow]) -> list[str]:
    """Returns a line on runs without a score whose files are not here, such as a bundle's; empty for none."""
    finished = (run for run in runs if run.state == RunState.DONE and IMPORTED not in run.identity)
    without_files = {run.signature for run in finished if run.folder is None}
    unscored = {line.signature for line in lines if math.isnan(line.value) and line.protocol is None} & without_files
    line = f"{number_of(len(unscored), 'run')} without a score came without files"
    command = shlex.join(["cse", "run", space, "--retrain-missing"])
    return [f"{line}; {command}, with the same settings and data, trains what lacks them again"] if unscored else []


def prompts_of(runs: Sequence[RunRow]) -> dict[str, str]:
    """Returns the prompts before the texts of these runs, for the line under the table; empty where no run has one."""
    texts = dict.fromkeys(str(run.identity.get(PROMPT, "")) for run in runs)
    return {PROMPT: " or ".join(text or "none" for text in texts)} if any(texts) else {}


def spec_of(resolved: ResolvedSpace) -> TableSpec:
    """Returns the specification of a space's table."""
    space, paper = resolved.space, resolved.space.paper
    rows: list[Key] = (
        [] if resolved.size() is None else [cells.full_key(resolved, cell.key) for cell in resolved.rows()]
    )
    printed = [
        PaperRow(key=cells.full_key(resolved, row.key), cells=row.cells, recomputed=row.recomputed)
        for row in (paper.rows if paper else ())
    ]
    default = cells.full_key(resolved, paper.default) if paper and paper.default else None
    paper_notes = [paper.notes, f"The paper's finding: {paper.finding}" if paper.finding else ""] if paper else []
    changes = [f"{name} left out" if v is None else f"{name} is {v}" for name, v in resolved.substitutions().items()]
    scale_note = f"At profile {resolved.profile.name}: {', '.join(changes)}." if changes else ""
    if resolved.own_loop:
        scale_note = resolved.own_loop.NOTE
    return TableSpec(
        id=space.id,
        title=space.title,
        axes=space.axis_names,
        columns=columns_of(resolved),
        rows=rows,
        published=[row for row in printed if row.key in rows],
        references=[
            PaperRow(label=row.label, cells=row.cells, recomputed=row.recomputed)
            for row in (paper.references if paper else ())
        ],
        scores=dict(paper.scores) if paper else {},
        default=default if default in rows else None,
        searched=space.sampled,
        best=paper.best if paper else None,
        citation=f"{paper.citation}, {paper.table}" if paper else "",
        metric=paper.metric if paper else "",
        protocol=scale(resolved),
        notes=[note for note in (space.notes, *paper_notes, *list_apart(resolved), scale_note) if note],
    )


def scale_of(column: str, values: Iterable[float]) -> MetricScale:
    """Returns the scale of a stored column: its suite's, else a guess by the metric's name and its values."""
    width = span(column)
    return MetricScale(sense(column), read_span(metric_of(column), values) if width is None else width)


def scales_of(spec: TableSpec, results: Sequence[RunValue]) -> dict[str, MetricScale]:
    """Returns column -> scale; columns that only the paper prints are left out."""
    values: dict[str, list[float]] = {}
    for result in results:
        if math.isfinite(result.value):
            values.setdefault(result.column, []).append(result.value)
    stored = {column: spec.scores.get(column, column) for column in spec.columns}
    return {
        column: scale_of(suite, values.get(column, ()))
        for column, suite in stored.items()
        if column in values or suite != column or is_known(suite)
    }


def find_differences(spec: TableSpec, planned: Sequence[Planned], runs: Sequence[RunRow]) -> list[SettingDifference]:
    """Returns the settings other than the axes in which the table's rows differ, by the runs that a whole row has."""
    by_signature = {run.signature: run for run in runs}
    first: dict[int, tuple[Key, RunRow]] = {}  # seeds of a row bring one and the same key
    for key, signature, _ in sorted(planned, key=lambda run: PART in run[0]):
        if signature in by_signature:
            first.setdefault(id(key), (drop_part(key), by_signature[signature]))
    rows: dict[object, tuple[Key, RunRow]] = {}
    for key, run in first.values():
        rows.setdefault(identify(key), (key, run))
    settings = [(key, complete({"method": run.method, **run.config})) for key, run in rows.values()]
    return differing(settings, {*spec.axes, *SEED_SETTINGS})


def list_apart(resolved: ResolvedSpace) -> list[str]:
    """Returns a line for each column whose runs have settings of their own."""
    texts = {
        suite: ", ".join(setting(key, value) for key, value in settings.items())
        for suite, settings in resolved.space.set_for.items()
    }
    parts = {cell.part for cell in resolved.cells()} if texts else set()
    return [f"{suite} stands on runs of its own, with {text}." for suite, text in texts.items() if suite in parts]


def columns_of(resolved: ResolvedSpace) -> list[str]:
    """Returns the paper's columns and those that the space evaluates too, else the dev set alone.

    Next to a paper's columns a group of suites shows its average alone. The score of a loop of its own comes first.
    """
    paper, suites, loop = resolved.space.paper, resolved.space.evaluate, resolved.own_loop
    printed = list(paper.columns) if paper else []
    stored = {paper.scores.get(name, name) for name in printed} if paper else set()
    evaluated = [column for name in suites for column in columns(name) if not printed or column == name]
    first = [] if loop is None or paper else [str((loop.SHARED or {})["dev"])]
    names = list(dict.fromkeys([*first, *printed, *(column for column in evaluated if column not in stored)]))
    return names or list(dict.fromkeys(str(setup["train.dev"]) for setup in setups(resolved)))


def scale(resolved: ResolvedSpace) -> dict[str, object]:
    """Returns the settings of scale that all cells share, for the line under the table."""
    flats = setups(resolved)
    if resolved.own_loop:
        return {}
    shared: dict[str, object] = {"profile": resolved.profile.name} if resolved.profile.train else {}
    for name in SCALE:
        key = f"train.{name}"
        values = {flat[key] for flat in flats}
        if len(values) == 1 and (key not in resolved.axes or resolved.axes[key].finite):
            shared[name] = values.pop()
    return shared


CELLS_NAMED = 20
"""Number of cells with missing seeds that are named; further ones are counted."""


def list_unfinished(table: Table, seeds: int, incomplete: Mapping[str, str]) -> list[str]:
    """Returns lines on what a table lacks: rows with fewer seeds than requested, and cells without an input."""
    keys = [{axis: value for axis, value in row.key.items() if value is not None} for row in table.rows]
    seed_counts = [max(entry.n for entry in row.entries.values()) for row in table.rows]
    short = dict(zip(map(cell_name, keys), seed_counts, strict=True))
    short_rows = [f"{name} {n}" for name, n in short.items() if n < seeds]
    lines = [f"missing input: {label}: {reason}" for label, reason in incomplete.items()]
    if not short_rows:
        return lines
    summary = f"{len(short_rows)} of {len(short)} cells have fewer than {seeds} seeds"
    return [f"not finished: {summary}: {some(short_rows, CELLS_NAMED, '; ')}", *lines]
