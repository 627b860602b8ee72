"""`cse compare` and `cse gate`: which numbers of two models may stand side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from analysis.answers import baselines
from analysis.answers.build import scale_of
from analysis.answers.imported.metric import metric_of_runs, scale_of_protocols
from analysis.answers.models import NAME_DIGITS, Model, ModelScore, differences, find_unasked, separate_numbered
from analysis.ledger import Ledger
from analysis.run_folder import RunFolder
from analysis.tables.columns import entry_of
from analysis.tables.labels import differing_line
from analysis.tables.pair_cosines import ColumnCosines, column_cosines
from analysis.tables.results import BEST_COLUMN, DEV, Planned, results_of
from analysis.tables.spec import MetricScale, SettingDifference
from analysis.tables.untrained import field_text
from cse.compare.by_queries import QueryValues
from cse.compare.by_seeds import Sides
from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.registry import is_known, sense
from cse_train.evaluate.user_sets.kept_queries import read_queries
from cse_train.fields import ConfigError, nearest
from cse_train.results import Protocol

SIDE_NAMES = ("A", "B")
COMPUTED_IN = "computed in"
"""Stands with the protocol of runs whose arithmetic their device decided."""
PROMPT = "prompt"
OF_MODEL = ("pooler", "max_length", PROMPT, COMPUTED_IN)
"""Protocol fields that belong to a model: two models may differ in them, and a line says so."""
PROMPT_SHOWN = 40
"""Characters of a prompt."""
NO_SPANS: Mapping[str, float] = MappingProxyType({})
KEPT_TOLERANCE = 1e-6
"""Points between a score and the mean of its kept queries: the same numbers, summed in another order."""
FOLDER_SEEDS = {"A": -1, "B": -2}
"""Stands for the seed of a side's last folder, which is none, and none in common; each earlier one's is 2 below."""


@dataclass(frozen=True)
class Gathered:
    """What two models have in common."""

    columns: Mapping[str, Sides]
    cosines: Mapping[str, ColumnCosines]
    """Columns of graded sets with kept cosines; row 0 is A, row 1 is B."""
    queries: Mapping[str, QueryValues]
    """Columns of retrieval sets of which both sides have kept what each query gave."""
    data: Mapping[str, str]
    """Column -> hash of the texts and grades that were scored."""
    notes: Sequence[str]
    """What is not compared, and in what the models differ."""
    unread: Sequence[str] = ()
    """Why cosines are lacking."""
    differing: Sequence[SettingDifference] = ()
    """In what the models differ beside what is asked."""

    def difference_line(self) -> str:
        """`A and B also differ in: method.pooler (cls: A; mean: B)`; empty for nothing."""
        return differing_line(self.differing, lambda key: str(key["side"]), "A and B")

    def others(self) -> str:
        """What stands behind `better` and `worse`: of settings that both sides have, how many differ unasked."""
        count = sum(setting.everywhere for setting in self.differing)
        return f", {count} other setting{'s differ' if count > 1 else ' differs'}" if count else ""


def gather(
    left: Model,
    right: Model,
    ledger: Ledger | None,
    wanted: Sequence[str] | None = None,
    *,
    spans: Mapping[str, float] = NO_SPANS,
    cosines: bool = True,
) -> Gathered:
    """The columns that both have under one protocol, `wanted` or all; their cosines where `cosines` asks for them.

    `spans`: column -> how wide its range is, where nobody else says; under "" that of every such column. ConfigError
    where a wanted column is lacking, and where none is common.
    """
    right = separate_numbered(left, right)
    names = _columns_of(left, right, ledger)
    scales = _read_imported_scales(left, right, ledger)
    values = {"A": _values("A", left, names, ledger), "B": _values("B", right, names, ledger)}
    models = {"A": left, "B": right}
    idle = {name: baselines.idle(model.runs, ledger) if ledger else baselines.NO_IDLE for name, model in models.items()}
    still = {n: {run.seed for run in models[n].runs if run.signature in idle[n].signatures} for n in SIDE_NAMES}
    columns: dict[str, Sides] = {}
    data, notes = {}, [*left.notes, *right.notes, *differences(left, right)]
    notes += [f"{name}: {line}" for name, runs in idle.items() for line in runs.lines()]
    for column in names:
        problem, remarks = _comparable(column, values)
        notes += remarks if problem is None else []
        if problem is not None:
            if wanted is None or column in wanted:
                notes.append(problem)
            continue
        seeds = {name: {seed: value for seed, (value, _) in values[name][column].items()} for name in SIDE_NAMES}
        a, b = (entry_of(seeds[name], idle=still[name] & seeds[name].keys()) for name in SIDE_NAMES)
        protocols = [protocol for side in SIDE_NAMES for _, protocol in values[side][column].values()]
        declared = scales.get(column) or scale_of_protocols(protocols)
        scale = declared or scale_of(column, [*a.values, *b.values])
        if scale.span is None:
            scale = replace(scale, span=spans.get(column, spans.get("")))
        columns[column] = Sides(a, b, scale)
        data[column] = next((p.data_hash for _, p in values["A"][column].values() if p.data_hash), "")
    chosen = _choose_columns(columns, wanted, notes)
    kept = _cosines(chosen, left, right, ledger) if cosines else {}
    lacking = [f"{column}: {line}" for column, sides in kept.items() for line in sides.problems]
    pairs = {column: sides for column, sides in kept.items() if sides.rows.keys() >= {0, 1}}
    chosen_columns = {column: columns[column] for column in chosen}
    queries, silent = _queries(chosen, values, left, right) if cosines else ({}, [])
    return Gathered(
        chosen_columns, pairs, queries, data, list(dict.fromkeys(notes)), [*lacking, *silent], find_unasked(left, right)
    )


def _read_imported_scales(left: Model, right: Model, ledger: Ledger | None) -> dict[str, MetricScale]:
    """What the score of imported runs means, by its name. ConfigError where it is another thing on the two sides."""
    metrics = [metric_of_runs(ledger, model.runs) if ledger else None for model in (left, right)]
    scales = {metric.name: metric.scale for metric in metrics if metric}
    if not scales or left.dev != right.dev:
        return scales
    a, b = (metric.scale if metric else None for metric in metrics)
    if a != b:
        said = " and ".join(f"{name} {_describe(scale)}" for name, scale in zip(SIDE_NAMES, (a, b), strict=True))
        raise ConfigError([f"unlike scores: {left.dev} is {said}; import both alike, see --better and --scale"])
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
        why = "; ".join(line for line in notes if line.startswith(tuple(f"not compared: {name}: " for name in absent)))
        hint = why or (nearest(absent[0], columns) if columns else "A and B have none in common")
        raise ConfigError([f"no such column: column={absent[0]} of both; {hint}"])
    if not columns:
        why = "; ".join(line for line in notes if line.startswith("not compared: "))
        how = "score both on one set: cse compare A B --suite sts_dev --data DIR"
        raise ConfigError([f"nothing to compare: A and B have no column in common; {why or how}"])
    return list(wanted) if wanted else list(columns)


def _columns_of(left: Model, right: Model, ledger: Ledger | None) -> dict[str, str]:
    """Column -> the name under which `results_of` gives it, of what both sides have somewhere.

    The dev set is compared by the best scores on the curves, unless every run was scored on it.
    """
    runs = [*left.runs, *right.runs]
    scored: dict[str, set[str]] = {}
    for score in ledger.scores([run.signature for run in runs]) if ledger else ():
        scored.setdefault(score.suite, set()).add(score.signature)
    for model in (left, right):
        if model.folder is not None:
            scored |= {column: scored.get(column, set()) | {model.name} for column in model.scores[0]}
    sides = [{model.name} if model.folder else {run.signature for run in model.runs} for model in (left, right)]
    columns = {column: column for column, have in scored.items() if all(have & side for side in sides)}
    devs = {str(run.config.get(DEV)) for run in runs}
    if len(devs) == 1 and not {run.signature for run in runs} <= scored.get(min(devs), set()):
        dev = devs.pop()
        if all(model.folder is None or model.scored(dev) for model in (left, right)):
            columns = {dev: BEST_COLUMN, **columns, **({dev: BEST_COLUMN} if dev in columns else {})}
    return {column: name for column, name in columns.items() if sense(column) is not None}


Value = tuple[float, Protocol]
"""A value and its protocol, or of a best dev score what is known of it."""
NOTHING_KNOWN = Protocol.read({})


def _values(side: str, model: Model, names: Mapping[str, str], ledger: Ledger | None) -> dict[str, dict[int, Value]]:
    """Column -> seed -> value and protocol."""
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
    """Why a column may not be compared, if so; and a line where a field of the models themselves differs."""
    sides = {name: [protocol for _, protocol in values[name].get(column, {}).values()] for name in SIDE_NAMES}
    empty = [name for name in SIDE_NAMES if not sides[name]]
    if empty:
        why = "not scored, or its cosines are all equal; cse eval says which"
        return f"not compared: {column}: of which {' and '.join(empty)} has no value ({why})", []
    unlike, remarks = [], []
    said = [protocol.facts for protocols in sides.values() for protocol in protocols]
    for name in dict.fromkeys(name for facts in said for name in facts):
        have = {
            side: sorted({field_text(p, name) for p in sides[side] if name in p.facts or name == PROMPT})
            for side in SIDE_NAMES
        }
        together = {text for texts in have.values() for text in texts}
        if len(together) < 2:
            continue
        most = PROMPT_SHOWN if name == PROMPT else NAME_DIGITS
        shown = " and ".join(
            f"{side} {'/'.join(text.strip(chr(34))[:most].replace('null', 'none') for text in have[side])}"
            for side in SIDE_NAMES
        )
        if name not in OF_MODEL or any(len(texts) > 1 for texts in have.values()):
            unlike.append(f"{name} ({shown})")
        else:
            remarks.append(f"{name} differs: {shown}")
    if unlike:
        line = f"not compared: {column}: scored with unlike {', '.join(unlike)}"
        return f"{line}; score both again under one protocol (cse eval)", []
    return None, remarks


def _cosines(columns: Sequence[str], left: Model, right: Model, ledger: Ledger | None) -> dict[str, ColumnCosines]:
    keys = [{"model": name} for name in SIDE_NAMES]
    planned: list[Planned] = [
        (key, run.signature, run.seed) for key, model in zip(keys, (left, right), strict=True) for run in model.runs
    ]
    made = {}
    for column in columns:
        kept = column_cosines(ledger, planned, keys, column) if ledger and planned else None
        for row, model in enumerate((left, right)):
            kept = _add_folders(kept, row, model.scored(column))
        if kept is not None:
            made[column] = kept
    return made


def _add_folders(kept: ColumnCosines | None, row: int, scores: Sequence[ModelScore]) -> ColumnCosines | None:
    """The cosines with those of a side's folders, where the grades are the same."""
    cosines = [score.cosines for score in scores if score.cosines is not None]
    gold = next((score.gold for score in scores if score.gold is not None), None)
    if not cosines or gold is None:
        return kept
    if kept is None or not len(kept.gold):
        return ColumnCosines(gold, {row: cosines})
    if not np.array_equal(kept.gold, gold):
        return kept
    return replace(kept, rows={**kept.rows, row: cosines}, problems=())


def _queries(
    columns: Sequence[str], values: Mapping[str, Mapping[str, Mapping[int, Value]]], left: Model, right: Model
) -> tuple[dict[str, QueryValues], list[str]]:
    """What each query gave on both sides, and a line on each column of which one side alone has it."""
    made, lacking = dict[str, QueryValues](), []
    for column in columns:
        a, b = (
            _kept_queries(model, column, values[name][column])
            for name, model in zip(SIDE_NAMES, (left, right), strict=True)
        )
        if a and b and len(a[0]) < 2:
            lacking.append(f"{column} by its queries: it has one")
        elif a and b:
            made[column] = a, b
        elif a or b:
            name = (right if a else left).name
            lacking.append(f"{column} by its queries: {name} has not kept them; cse eval scores it again")
    return made, lacking


def _kept_queries(model: Model, column: str, scored: Mapping[int, Value]) -> list[np.ndarray]:
    """Of each folder, or of each run whose file says what its score says; runs that are without are left out."""
    if model.folder is not None:
        return [score.queries for score in model.scored(column) if score.queries is not None]
    kept = []
    for run in model.runs:
        value, protocol = scored.get(run.seed, (np.nan, NOTHING_KNOWN))
        if run.folder is not None and protocol.data_hash:
            values_Q = read_queries(RunFolder(Path(run.folder)).scores, column, protocol.data_hash)
            if values_Q is not None and np.isclose(values_Q.mean(), value, rtol=0.0, atol=KEPT_TOLERANCE):
                kept.append(values_Q)
    return kept


def suites_to_score(other: Model, ledger: Ledger | None, paths: DataPaths) -> list[str]:
    """What a folder is scored on where nobody says: the sets and tasks that the other model has scores of, or the dev
    set by which it was picked. ConfigError for one of the user's own that no space of today names."""
    signatures = [run.signature for run in other.runs]
    stored = dict.fromkeys(score.suite for score in ledger.scores(signatures)) if ledger else {}
    names = [name for name in stored if is_known(name) or paths.data_set(name)]
    if not names and other.dev and not is_known(other.dev) and paths.data_set(other.dev) is None:
        line = f"no set to score: {other.name} was picked on {other.dev}, whose file no space of its sweeps names"
        raise ConfigError([f"{line}; give --suite FILE"])
    return names or [other.dev or "sts_dev"]
