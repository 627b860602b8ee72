"""Collects the numbers of two models that may be compared: columns scored on the same data under the same protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from analysis.answers import baselines
from analysis.answers.build import scale_of
from analysis.answers.imported import metric_of_runs, scale_of_protocols
from analysis.answers.judge import Scope, Sides
from analysis.answers.models import NAME_DIGITS, Model, ModelScore, differences, find_unasked, separate_numbered
from analysis.ledger import Ledger
from analysis.run_folder import RunFolder
from analysis.tables.aggregate import field_text
from analysis.tables.columns import entry_of
from analysis.tables.labels import differing_line
from analysis.tables.pair_cosines import ColumnCosines, column_cosines
from analysis.tables.results import BEST_COLUMN, DEV, Planned, results_of
from analysis.tables.spec import MetricScale, SettingDifference
from cse.compare.items import QueryValues, item_error
from cse_train.evaluate.judgements import read_queries
from cse_train.evaluate.suites.registry import sense
from cse_train.fields import ConfigError, nearest
from cse_train.results import Protocol

SIDE_NAMES = ("A", "B")
COMPUTED_IN = "computed in"
"""Protocol field for runs whose precision was decided by their device."""
PROMPT = "prompt"
OF_MODEL = ("pooler", "max_length", PROMPT, COMPUTED_IN)
"""Protocol fields that belong to a model: two models may differ in them, and a note says so."""
PROMPT_SHOWN = 40
"""Characters of a prompt shown in a message."""
NO_SPANS: Mapping[str, float] = MappingProxyType({})
KEPT_TOLERANCE = 1e-6
"""Largest difference in points between a score and the mean of its stored queries: equal numbers, summed in other
orders."""
FOLDER_SEEDS = {"A": -1, "B": -2}
"""Negative placeholder seed of each side's last folder; a folder has no seed, and A's (odd) never equal B's (even).

Each earlier folder of a side has a placeholder that is 2 lower.
"""


@dataclass(frozen=True)
class CommonColumns:
    """The columns of models A and B that can be compared, with their values, cosines and queries, and why others
    cannot."""

    columns: Mapping[str, Sides]
    cosines: Mapping[str, ColumnCosines]
    """Column of a graded set -> stored cosines of A (row 0) and B (row 1)."""
    queries: Mapping[str, QueryValues]
    """Column of a retrieval set -> values of each query, where both sides have stored them."""
    data: Mapping[str, str]
    """Column -> hash of the texts and grades that were scored."""
    notes: Sequence[str]
    """Lines for people: columns that are not compared, and in what the models differ."""
    unread: Sequence[str] = ()
    """Lines that say why cosines or values by query are lacking."""
    differing: Sequence[SettingDifference] = ()
    """Settings in which models A and B differ beyond those that were asked about."""

    def difference_line(self) -> str:
        """Returns a line such as `A and B also differ in: method.pooler (cls: A; mean: B)`, or ""."""
        return differing_line(self.differing, lambda key: str(key["side"]), "A and B")

    def others(self) -> str:
        """Returns a suffix for the verdicts better and worse: how many other settings of A and B differ."""
        count = sum(setting.everywhere for setting in self.differing)
        return f", {count} other setting{'s differ' if count > 1 else ' differs'}" if count else ""


def gather(
    left: Model,
    right: Model,
    ledger: Ledger | None,
    wanted: Sequence[str] | None = None,
    *,
    spans: Mapping[str, float] = NO_SPANS,
    over: Scope = "both",
) -> CommonColumns:
    """Returns the columns that both models have under one protocol: `wanted`, or all; with the error over their items.

    `over`: scope that was asked for; of `sentences`, columns whose items are not known are left out, with a note.
    `spans`: column -> width of its metric's range where neither suite nor import declares it; "" is for all such
    columns. Raises ConfigError for a wanted column that is lacking, and where no column is common or has items.
    """
    right = separate_numbered(left, right)
    names = _columns_of(left, right, ledger)
    scales = _read_imported_scales(left, right, ledger)
    values = {"A": _values("A", left, names, ledger), "B": _values("B", right, names, ledger)}
    models = {"A": left, "B": right}
    no_signal = {
        name: baselines.idle(model.runs, ledger) if ledger else baselines.NO_IDLE for name, model in models.items()
    }
    seeds_without_signal = {
        n: {run.seed for run in models[n].runs if run.signature in no_signal[n].signatures} for n in SIDE_NAMES
    }
    columns: dict[str, Sides] = {}
    data, notes = {}, [*left.notes, *right.notes, *differences(left, right)]
    notes += [f"{name}: {line}" for name, runs in no_signal.items() for line in runs.lines()]
    for column in names:
        problem, remarks = _comparable(column, values)
        notes += remarks if problem is None else []
        if problem is not None:
            if wanted is None or column in wanted:
                notes.append(problem)
            continue
        seeds = {name: {seed: value for seed, (value, _) in values[name][column].items()} for name in SIDE_NAMES}
        a, b = (
            entry_of(seeds[name], idle=seeds_without_signal[name] & seeds[name].keys(), failed=models[name].failed)
            for name in SIDE_NAMES
        )
        protocols = [protocol for side in SIDE_NAMES for _, protocol in values[side][column].values()]
        declared = scales.get(column) or scale_of_protocols(protocols)
        scale = declared or scale_of(column, [*a.values, *b.values])
        if scale.span is None:
            scale = replace(scale, span=spans.get(column, spans.get("")))
        columns[column] = Sides(a, b, scale)
        data[column] = next((p.data_hash for _, p in values["A"][column].values() if p.data_hash), "")
    chosen = _choose_columns(columns, wanted, notes)
    cosine_columns = _cosines(chosen, left, right, ledger)
    missing_cosines = [f"{column}: {line}" for column, sides in cosine_columns.items() for line in sides.problems]
    pairs = {column: sides for column, sides in cosine_columns.items() if sides.rows.keys() >= {0, 1}}
    queries, missing_queries = _queries(chosen, values, left, right)
    is_release = left.is_single and right.is_single
    chosen_columns = {
        column: replace(
            columns[column], items=item_error(pairs.get(column), queries.get(column)), is_release=is_release
        )
        for column in chosen
    }
    if over == "sentences":
        chosen_columns = _require_items(chosen_columns, wanted, notes)
    unread, notes = [*missing_cosines, *missing_queries], list(dict.fromkeys(notes))
    return CommonColumns(chosen_columns, pairs, queries, data, notes, unread, find_unasked(left, right))


def _require_items(columns: Mapping[str, Sides], wanted: Sequence[str] | None, notes: list[str]) -> dict[str, Sides]:
    """Returns the columns whose items are known, with a note on the others. ConfigError for a wanted one of those."""
    known = {column: sides for column, sides in columns.items() if sides.items is not None}
    lacking = [column for column in columns if column not in known]
    if lacking and (wanted or not known):
        line = f"no sentences: over=sentences of {', '.join(lacking)}, of which both sides keep no single pair or query"
        raise ConfigError([f"{line}; score both here (--suite), or leave --over out"])
    notes += [f"not compared: {column}: over=sentences, and no single pair or query is kept" for column in lacking]
    return known


def _read_imported_scales(left: Model, right: Model, ledger: Ledger | None) -> dict[str, MetricScale]:
    """Returns score name -> scale of imported runs. Raises ConfigError where the two sides were imported with unlike
    scales."""
    metrics = [metric_of_runs(ledger, model.runs) if ledger else None for model in (left, right)]
    scales = {metric.name: metric.scale for metric in metrics if metric}
    if not scales or left.dev != right.dev:
        return scales
    a, b = (metric.scale if metric else None for metric in metrics)
    if a != b:
        descriptions = " and ".join(
            f"{name} {_describe(scale)}" for name, scale in zip(SIDE_NAMES, (a, b), strict=True)
        )
        raise ConfigError([f"unlike scores: {left.dev} is {descriptions}; import both alike, see --better and --scale"])
    if a is not None and a.better is None:
        line = f"no direction: {left.dev} of A={left.name} was imported without one"
        raise ConfigError([f"{line}; import it as another sweep with --better lower, or --better higher"])
    return scales


def _describe(scale: MetricScale | None) -> str:
    if scale is None:
        return "in points of runs of ours"
    wide = "of unknown width" if scale.span is None else f"{scale.span:g} wide"
    return f"{scale.better or 'neither'} is better, {wide}"


def _choose_columns(columns: Mapping[str, Sides], wanted: Sequence[str] | None, notes: Sequence[str]) -> list[str]:
    absent = [column for column in wanted or () if column not in columns]
    if absent:
        reasons = "; ".join(
            line for line in notes if line.startswith(tuple(f"not compared: {name}: " for name in absent))
        )
        hint = reasons or (nearest(absent[0], columns) if columns else "A and B have none in common")
        raise ConfigError([f"no such column: column={absent[0]} of both; {hint}"])
    if not columns:
        reasons = "; ".join(line for line in notes if line.startswith("not compared: "))
        remedy = "score both on one set: cse compare A B --suite sts_dev --data DIR"
        raise ConfigError([f"nothing to compare: A and B have no column in common; {reasons or remedy}"])
    return list(wanted) if wanted else list(columns)


def _columns_of(left: Model, right: Model, ledger: Ledger | None) -> dict[str, str]:
    """Returns column -> its name in `results_of`, for columns of which both sides have a value.

    The dev set is compared by the best scores on the learning curves, unless every run was scored on it.
    """
    runs = [*left.runs, *right.runs]
    scored: dict[str, set[str]] = {}
    for score in ledger.scores([run.signature for run in runs]) if ledger else ():
        scored.setdefault(score.suite, set()).add(score.signature)
    for model in (left, right):
        if model.folder is not None:
            scored |= {column: scored.get(column, set()) | {model.name} for column in model.scores[0]}
    sides = [{model.name} if model.folder else {run.signature for run in model.runs} for model in (left, right)]
    columns = {
        column: column for column, scored_models in scored.items() if all(scored_models & side for side in sides)
    }
    devs = {str(run.config.get(DEV)) for run in runs}
    if len(devs) == 1 and not {run.signature for run in runs} <= scored.get(min(devs), set()):
        dev = devs.pop()
        if all(model.folder is None or model.scored(dev) for model in (left, right)):
            columns = {dev: BEST_COLUMN, **columns, **({dev: BEST_COLUMN} if dev in columns else {})}
    return {column: name for column, name in columns.items() if sense(column) is not None}


Value = tuple[float, Protocol]
"""A score and its protocol; for a best dev score, as much of the protocol as is known."""
NOTHING_KNOWN = Protocol.read({})


def _values(side: str, model: Model, names: Mapping[str, str], ledger: Ledger | None) -> dict[str, dict[int, Value]]:
    """Returns column -> seed -> score and protocol of one side."""
    columns = list(names)
    if model.folder is not None:
        first, last = FOLDER_SEEDS[side], -2 * len(model.folders)
        return {
            column: {
                seed: (score.value, score.protocol)
                for seed, score in zip(range(first, last - 2, -2), reversed(scores), strict=False)
            }
            for column in columns
            if (scores := model.scored(column))
        }
    assert ledger is not None
    planned: list[Planned] = [({}, run.signature, run.seed) for run in model.runs]
    newest = {(s.signature, s.suite): s.protocol for s in ledger.scores([run.signature for run in model.runs])}
    of_dev = {run.signature: {"data_hash": run.identity["dev"]} for run in model.runs if "dev" in run.identity}
    dev = {run.signature: Protocol.read(of_dev.get(run.signature, {})) for run in model.runs}
    values: dict[str, dict[int, Value]] = {column: {} for column in columns}
    metric = metric_of_runs(ledger, model.runs)
    runs = [metric.measured(run) for run in model.runs] if metric else model.runs
    for result in results_of(ledger, planned, columns, names, runs):
        if np.isfinite(result.value):
            name, column = result.signature, result.column
            protocol = dev[name] if names[column] == BEST_COLUMN else newest.get((name, column), NOTHING_KNOWN)
            if result.computed:
                protocol = Protocol.read({**protocol.facts, COMPUTED_IN: result.computed[1]})
            values[column][result.seed] = result.value, protocol
    return values


def _comparable(column: str, values: Mapping[str, Mapping[str, Mapping[int, Value]]]) -> tuple[str | None, list[str]]:
    """Returns why a column may not be compared, or None; and lines on model-specific protocol fields that differ."""
    sides = {name: [protocol for _, protocol in values[name].get(column, {}).values()] for name in SIDE_NAMES}
    empty = [name for name in SIDE_NAMES if not sides[name]]
    if empty:
        reason = "not scored, or its cosines are all equal; cse eval says which"
        return f"not compared: {column}: of which {' and '.join(empty)} has no value ({reason})", []
    differing, remarks = [], []
    facts_of_scores = [protocol.facts for protocols in sides.values() for protocol in protocols]
    for name in dict.fromkeys(name for facts in facts_of_scores for name in facts):
        texts_by_side = {
            side: sorted({field_text(p, name) for p in sides[side] if name in p.facts or name == PROMPT})
            for side in SIDE_NAMES
        }
        all_texts = {text for texts in texts_by_side.values() for text in texts}
        if len(all_texts) < 2:
            continue
        most = PROMPT_SHOWN if name == PROMPT else NAME_DIGITS
        values_text = " and ".join(
            f"{side} {'/'.join(text.strip(chr(34))[:most].replace('null', 'none') for text in texts_by_side[side])}"
            for side in SIDE_NAMES
        )
        if name not in OF_MODEL or any(len(texts) > 1 for texts in texts_by_side.values()):
            differing.append(f"{name} ({values_text})")
        else:
            remarks.append(f"{name} differs: {values_text}")
    if differing:
        line = f"not compared: {column}: scored with unlike {', '.join(differing)}"
        return f"{line}; score both again under one protocol (cse eval)", []
    return None, remarks


def _cosines(columns: Sequence[str], left: Model, right: Model, ledger: Ledger | None) -> dict[str, ColumnCosines]:
    keys = [{"model": name} for name in SIDE_NAMES]
    planned: list[Planned] = [
        (key, run.signature, run.seed) for key, model in zip(keys, (left, right), strict=True) for run in model.runs
    ]
    by_column = {}
    for column in columns:
        cosines = column_cosines(ledger, planned, keys, column) if ledger and planned else None
        for row, model in enumerate((left, right)):
            cosines = _add_folders(cosines, row, model.scored(column))
        if cosines is not None:
            by_column[column] = cosines
    return by_column


def _add_folders(stored: ColumnCosines | None, row: int, scores: Sequence[ModelScore]) -> ColumnCosines | None:
    """Returns stored cosines with a model's folders added as row `row`; unchanged if the folders were scored on other
    grades."""
    cosines = [score.cosines for score in scores if score.cosines is not None]
    gold = next((score.gold for score in scores if score.gold is not None), None)
    if not cosines or gold is None:
        return stored
    if stored is None or not len(stored.gold):
        return ColumnCosines(gold, {row: cosines})
    if not np.array_equal(stored.gold, gold):
        return stored
    return replace(stored, rows={**stored.rows, row: cosines}, problems=())


def _queries(
    columns: Sequence[str], values: Mapping[str, Mapping[str, Mapping[int, Value]]], left: Model, right: Model
) -> tuple[dict[str, QueryValues], list[str]]:
    """Returns column -> values by query of both sides, and a line for each column that only one side has."""
    by_column, missing = dict[str, QueryValues](), []
    for column in columns:
        a, b = (
            _kept_queries(model, column, values[name][column])
            for name, model in zip(SIDE_NAMES, (left, right), strict=True)
        )
        if a and b and len(a[0]) < 2:
            missing.append(f"{column} by its queries: it has one")
        elif a and b:
            by_column[column] = a, b
        elif a or b:
            name = (right if a else left).name
            missing.append(f"{column} by its queries: {name} has not kept them; cse eval scores it again")
    return by_column, missing


def _kept_queries(model: Model, column: str, scored: Mapping[int, Value]) -> list[np.ndarray]:
    """Returns values by query [Q] of each folder, or of each run whose stored file agrees with its score; others are
    left out."""
    if model.folder is not None:
        return [score.queries for score in model.scored(column) if score.queries is not None]
    values_by_run = []
    for run in model.runs:
        value, protocol = scored.get(run.seed, (np.nan, NOTHING_KNOWN))
        if run.folder is not None and protocol.data_hash:
            values_Q = read_queries(RunFolder(Path(run.folder)).scores, column, protocol.data_hash)
            if values_Q is not None and np.isclose(values_Q.mean(), value, rtol=0.0, atol=KEPT_TOLERANCE):
                values_by_run.append(values_Q)
    return values_by_run
