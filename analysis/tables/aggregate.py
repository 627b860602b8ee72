"""Builds a table as data: means over seeds next to published values. `render` and `figures` print it."""

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from analysis.documents import spell_key
from analysis.ledger import UntrainedScore
from analysis.run_state import RunState
from analysis.statistics.basics import Spread, pool_spreads
from analysis.statistics.looks import TIE_MARGIN
from analysis.tables.columns import Entry, entry_of
from analysis.tables.labels import choose_axes
from analysis.tables.results import require_one_precision
from analysis.tables.spec import (
    Key,
    MetricScale,
    PaperRow,
    RunValue,
    SettingDifference,
    TableError,
    TableSpec,
    guess_scale,
    identify,
    plain,
)
from cse_train.results import Protocol

SUITE_FIELDS = ("suite", "data_hash", "split", "aggregation", "rule")
"""Protocol fields in which the columns of one table may differ; all other fields must agree over the whole table."""
RIVALS = {"aggregation": ("all", "mean", "wmean"), "rule": ("senteval", "fast")}
"""Suite field -> values (up to a comma) that are choices of the scorer and not of the suite: all columns share one."""
OWN_FIELD = "pooler"
"""Protocol field that belongs to a method: in a table of several methods each has its own test-time representation."""
NO_SIGNAL_TEXT = f"never beat their first evaluation, or their encoder without training by {TIE_MARGIN:g} points"
"""Message about runs without signal: nothing that was trained shows in their score."""
UNTRAINED_CLS = "untrained [CLS]"
"""Prefix of the baseline's label whose value figures draw as a reference line."""


FIELD_DEFAULTS = {"case": "as is", "rule": ""}
"""Protocol field -> its value for scores that were stored before the field existed."""
MODEL_FIELD = "pooler"
"""Protocol field that belongs to the model, and may differ from the trained rows'."""


@dataclass(frozen=True)
class UntrainedModel:
    """One row of the paper with measured scores of the same model."""

    label: str
    """Label of the paper's row."""
    model: str
    """Name of the model that was scored, in a person's words."""
    values: Mapping[str, float]
    """Column -> measured score; a column may be absent."""
    protocols: Mapping[str, Protocol] = field(default_factory=dict)
    """Column -> protocol of the score."""

    def protocol(self) -> dict[str, object]:
        """Returns the protocol fields that all columns share."""
        each = list(self.protocols.values())
        return {
            name: value
            for name, value in (each[0].facts if each else {}).items()
            if all(field_text(protocol, name) == field_text(each[0], name) for protocol in each)
        }


@dataclass(frozen=True)
class Row:
    """One row of a table: its axis values, and column -> entry."""

    key: Key
    entries: Mapping[str, Entry] = field(metadata=spell_key("cells"))


@dataclass(frozen=True)
class Baseline:
    """Row of scores without training: column -> value; a column may be absent."""

    label: str
    values: dict[str, float]


@dataclass(frozen=True)
class Table:
    """A table to print: its spec, its rows, baseline rows, the protocol that all numbers share, and remarks."""

    spec: TableSpec
    rows: list[Row]
    baselines: list[Baseline]
    protocol: Mapping[str, object]
    notes: list[str]
    untrained: dict[str, UntrainedModel] = field(default_factory=dict)
    """Label of a row of the paper -> measured scores of its model, which is not trained by this project."""
    no_signal: str = ""
    """Reason why no two rows may be compared; empty if they may."""

    differing: Sequence[SettingDifference] = ()
    """Settings other than the axes in which rows differ."""
    compared_settings: str = ""
    """Line on settings in which compared models differ, for a table whose rows are comparisons; else empty."""
    _scales: dict[str, MetricScale] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cache of each column's scale: every row asks for it, and reading all rows each time would be quadratic."""

    @property
    def named(self) -> list[str]:
        """Axes that name the table's rows."""
        keys = self.spec.rows if self.spec.rows else [row.key for row in self.rows]
        return choose_axes(keys, self.spec.axes, searched=self.spec.searched)

    def scale(self, column: str) -> MetricScale:
        """Returns the scale of a column's numbers: the declared one, else a guess by its published values."""
        if column not in self._scales:
            printed = [row.entries[column].published for row in self.rows]
            scale = self.spec.scales.get(column)
            guessed = guess_scale([value for value in printed if value is not None])
            self._scales[column] = guessed if scale is None else scale
        return self._scales[column]

    def digits(self, column: str) -> int:
        """Returns the number of decimals that count in a column."""
        return self.scale(column).digits(value for row in self.rows for value in row.entries[column].values)

    def best(self, column: str) -> Literal["max", "min", "none"]:
        """Returns which mean of a column is the best one."""
        better = self.scale(column).better
        return self.spec.best or ("none" if better is None else "max" if better == "higher" else "min")

    def starting_point(self, column: str) -> float | None:
        """Returns a column's value of the untrained encoder's [CLS], from which training starts; None if not stored."""
        starts = (
            row.values[column] for row in self.baselines if row.label.startswith(UNTRAINED_CLS) and column in row.values
        )
        return next(starts, None)

    def seed_spread(self, column: str) -> Spread | None:
        """Returns the standard deviation between seeds, pooled over a column's entries; None without repeated seeds."""
        entries = (row.entries[column] for row in self.rows)
        return pool_spreads(Spread(entry.sd, entry.n - 1) for entry in entries if entry.sd is not None)


def aggregate(
    spec: TableSpec,
    results: Sequence[RunValue],
    *,
    baselines: Sequence[Baseline] = (),
    untrained: Mapping[str, float] | None = None,
    models: Sequence[UntrainedModel] = (),
    no_signal_runs: Set[str] = frozenset(),
    barely: Set[str] = frozenset(),
) -> Table:
    """Builds the table of `results`; `models` are the paper's other rows with measured scores.

    `no_signal_runs` holds signatures of runs that show no signal of training. Those of them in `barely` are above their
    encoder without training: they leave two rows of a comparison without signal, and no table. A published table is
    without signal if half its runs are, or if all its entries lie within the median seed sd of `untrained` (column ->
    value of the untrained encoder). Raises TableError where scores have different protocols, one
    seed has two values, or `train.precision` came to several things.
    """
    require_one_precision(results, spec.id)
    values = _values(spec, results)
    printed = {identify(row.key): row for row in spec.published}
    keys = spec.rows
    if not keys:  # in order of first appearance
        by_identity: dict[Identity, Key] = {
            identify(result.key, spec.axes): {axis: result.key[axis] for axis in spec.axes} for result in results
        }
        keys = list(by_identity.values())
    failed = Counter(
        (identify(result.key, spec.axes), result.column) for result in results if result.state == RunState.FAILED
    )
    rows = [_row(spec, key, values, no_signal_runs, printed, failed) for key in keys]
    by_column = _protocols(spec, results)
    compared, protocol_notes = comparable(models, by_column)
    notes = [*spec.notes, *_remarks(spec, results), *protocol_notes]
    scored = {model.label: model for model in compared if model.values}
    table = Table(spec, rows, list(baselines), _protocol(spec, results, by_column), notes, scored)
    reason = _describe_no_signal(spec, results, no_signal_runs - barely) or _flat(table, untrained or {})
    return replace(table, no_signal=reason, notes=[*notes, f"no signal at this scale: {reason}"]) if reason else table


Identity = tuple[Any, ...]
Values = Mapping[tuple[Identity, str], Mapping[int, RunValue]]
"""(row identity, column) -> seed -> result with a finite value."""


def _values(spec: TableSpec, results: Sequence[RunValue]) -> Values:
    values: dict[tuple[Identity, str], dict[int, RunValue]] = defaultdict(dict)
    for result in results:
        value, seed = result.value, result.seed
        if not math.isfinite(value):
            continue
        seeds = values[identify(result.key, spec.axes), result.column]
        if seed in seeds and seeds[seed].value != value:
            key = {axis: result.key[axis] for axis in spec.axes}
            raise TableError(
                f"two values: seed={seed} of {key} in {result.column} has {seeds[seed].value} and {value}; "
                "give the table an axis that tells these runs apart"
            )
        seeds[seed] = result
    return values


def _row(
    spec: TableSpec, key: Key, values: Values, no_signal_runs: Set[str],
    printed: Mapping[Identity, PaperRow], failed: Mapping[tuple[Identity, str], int],
) -> Row:  # fmt: skip
    name = identify(key)
    paper = printed.get(name, PaperRow(cells={}))
    entries = {}
    for column in spec.columns:
        runs = values.get((name, column), {})
        dev = {seed: run.dev for seed, run in runs.items() if run.dev is not None}
        no_signal_seeds = [seed for seed, run in runs.items() if run.signature in no_signal_runs]
        of_seeds = {seed: run.value for seed, run in runs.items()}
        entries[column] = entry_of(
            of_seeds,
            paper.cells.get(column),
            no_signal_seeds,
            dev,
            failed.get((name, column), 0),
            recomputed=paper.recomputed.get(column),
            scale=spec.scales.get(column),
        )
    return Row({axis: plain(key[axis]) for axis in spec.axes}, entries)


def _remarks(spec: TableSpec, results: Sequence[RunValue]) -> list[str]:
    """Returns remarks on what the table lacks: runs that are not done, by state, and done runs without a score."""
    stated = [result for result in results if result.state]
    runs = {result.signature or number: result.state for number, result in enumerate(stated)}
    states = Counter(runs.values())
    unfinished = states.total() - states[RunState.DONE]
    counted = ", ".join(f"{number} {state}" for state, number in sorted(states.items()) if state != RunState.DONE)
    remarks = [f"{unfinished} of {states.total()} runs are not done ({counted})"] if unfinished else []
    lacking_a_score = [result for result in stated if result.state == RunState.DONE and math.isnan(result.value)]
    unscored = Counter(result.column for result in lacking_a_score)
    flat = Counter(result.column for result in lacking_a_score if result.protocol)
    explanations = {name: f" ({flat[name]} scored, and cosines that are all equal rank nothing)" for name in flat}
    return remarks + [
        f"done runs without a {name} score: {unscored[name]}{explanations.get(name, '')}"
        for name in spec.columns
        if unscored[name]
    ]


def _protocol(
    spec: TableSpec, results: Sequence[RunValue], by_column: Mapping[str, Sequence[Protocol]]
) -> dict[str, object]:
    """Returns the protocol fields that all scores share, over those of the spec. Raises TableError for conflicts."""
    fields = {name for protocols in by_column.values() for protocol in protocols for name in protocol.facts}
    varied = {axis.rsplit(".", 1)[-1] for axis in spec.axes}
    for name in sorted(fields - varied - {OWN_FIELD}):
        _check_field(spec, name, by_column)
    for method in {result.key.get("method") for result in results} if OWN_FIELD not in varied else ():
        method_results = [result for result in results if result.key.get("method") == method]
        _check_field(spec, OWN_FIELD, _protocols(spec, method_results))
    shared = {}
    for name in sorted(fields):
        values = {field_text(protocol, name) for protocols in by_column.values() for protocol in protocols}
        if len(values) == 1:
            shared[name] = json.loads(values.pop())
    return {**spec.protocol, **shared}


def _protocols(spec: TableSpec, results: Sequence[RunValue]) -> dict[str, list[Protocol]]:
    """Returns column -> the distinct protocols of its scores."""
    # Equal protocols are mostly one object: comparing identities first leaves few to compare by content.
    distinct = {(result.column, id(result.protocol)): result.protocol for result in results}
    by_column = defaultdict(list)
    for (column, _), protocol in distinct.items():
        if column in spec.columns and protocol is not None:
            by_column[column].append(protocol)
    return by_column


def _check_field(spec: TableSpec, name: str, by_column: Mapping[str, Sequence[Protocol]]) -> None:
    """Raises TableError unless one protocol field agrees within each column and, unless it is the suite's, between
    columns.

    Values in RIVALS must agree between columns too.
    """
    whole = [protocol for protocols in by_column.values() for protocol in protocols]
    groups: dict[str, Sequence[Protocol]] = {"the table": whole}
    if name in SUITE_FIELDS:
        rivals = RIVALS.get(name, ())
        among = [protocol for protocol in whole if str(protocol.facts.get(name, "")).partition(",")[0] in rivals]
        groups = {**by_column, "the table": among}
    for group, protocols in groups.items():
        values = sorted({field_text(protocol, name) for protocol in protocols})
        if len(values) > 1:
            raise TableError(
                f"one protocol: {name}={' and '.join(values)} in {group} of {spec.id}; "
                "score the runs again under one protocol, or make it an axis"
            )


def _describe_no_signal(spec: TableSpec, results: Sequence[RunValue], no_signal_runs: Set[str]) -> str:
    """Returns a message if half or more of a published table's runs are without signal, else an empty text.

    A search gets none: most of its cells may be bad, which says nothing of its best ones.
    """
    runs = {result.signature for result in results if result.signature and math.isfinite(result.value)}
    few = not runs & no_signal_runs or 2 * len(runs & no_signal_runs) < len(runs)
    return (
        ""
        if few or spec.searched or not spec.published
        else f"{len(runs & no_signal_runs)} of {len(runs)} runs never beat their first evaluation or no training"
    )


def _flat(table: Table, untrained: Mapping[str, float]) -> str:
    """Returns a message where no entry leaves the untrained encoder by more than seeds do, else an empty text."""
    judged = {column: untrained[column] for column in table.spec.columns if column in untrained}
    for column, value in judged.items():
        entries = [row.entries[column] for row in table.rows]
        sds = [entry.sd for entry in entries if entry.sd is not None]
        # The median: a pooled sd would let a few entries with collapsed seeds hide what all others show.
        if not sds or any(abs(e.mean - value) > statistics.median(sds) for e in entries if e.mean is not None):
            return ""
    starts = ", ".join(f"{column} {value:.2f}" for column, value in judged.items())
    return f"every cell lies within the median seed sd of no training ({starts})" if judged else ""


def collect_scores(
    label: str, model: tuple[str, str], columns: Mapping[str, str], scores: Iterable[UntrainedScore]
) -> UntrainedModel:
    """Returns a row's scores from those of a ledger; the newest of each column counts.

    `model` is name and pooler; `columns` is column -> the suite under which the ledger stores its scores.
    """
    newest = {score.suite: score for score in scores if (score.model, score.pooler) == model}
    stored = {column: newest[suite] for column, suite in columns.items() if suite in newest}
    finite = {column: score for column, score in stored.items() if score.value is not None}
    return UntrainedModel(
        label,
        model[0],
        {column: score.value for column, score in finite.items() if score.value is not None},
        {column: score.protocol for column, score in finite.items()},
    )


def comparable(
    models: Sequence[UntrainedModel], trained: Mapping[str, Sequence[Protocol]]
) -> tuple[list[UntrainedModel], list[str]]:
    """Returns the models with the values under the protocol of the trained rows, and a line on each other value.

    `trained` is column -> the protocols of its trained rows.
    """
    compared, lines = [], []
    for model in models:
        unlike_fields = {
            column: _list_differing_fields(protocol, trained.get(column, ()))
            for column, protocol in model.protocols.items()
        }
        lines += [
            f"Not compared: {model.label} in {column}, whose {', '.join(names)} is not that of the trained rows; "
            "score them again under one protocol"
            for column, names in unlike_fields.items()
            if names
        ]
        values = {column: value for column, value in model.values.items() if not unlike_fields.get(column)}
        protocols = {column: protocol for column, protocol in model.protocols.items() if not unlike_fields[column]}
        compared.append(replace(model, values=values, protocols=protocols))
    return compared, lines


def _list_differing_fields(protocol: Protocol, trained: Sequence[Protocol]) -> list[str]:
    return [
        name
        for name in protocol.facts
        if name != MODEL_FIELD
        and any(field_text(peer, name) != field_text(protocol, name) for peer in trained if name in peer.facts)
    ]


def field_text(protocol: Protocol, name: str) -> str:
    """Returns a protocol field as JSON."""
    return json.dumps(protocol.facts.get(name, FIELD_DEFAULTS.get(name)))
