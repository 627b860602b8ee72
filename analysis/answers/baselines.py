"""Rows without training: the untrained encoder, bags of words, and models of a paper that nobody trains; as scored."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from analysis.answers.imported import IMPORTED
from analysis.ledger import Baselines, Ledger, RunRow
from analysis.ledger.baselines import Key
from analysis.run_state import RunState
from analysis.tables.results import DEV
from analysis.tables.spec import RunValue, TableSpec
from analysis.tables.untrained import UntrainedModel, collect_scores
from cse_train.fields import Json, Scalar
from search_spaces.cells import ResolvedSpace
from search_spaces.identity.signature import encoder_hash

SAME_ROW = 1e-5
"""Relative difference up to which two values are one: of 65, less than a tenth of what is printed."""
NOT_YET = "no score yet; `cse table {id} --untrained --data DIR` makes it"
MADE_BY = "`cse table` with --data computes what can be"
NO_COUNTERPART = "its encoder has no counterpart at profile {profile}"

UNTRAINED_NAMES = {
    "cls": "untrained [CLS]",
    "last": "untrained last token",
    "mean": "untrained mean",
    "first_last": "untrained first-last",
    "first_last_layer1": "untrained layer 1 + last",
    "whitening": "untrained, whitened",
}
START = {
    **dict.fromkeys(("cls", "cls_train_only", "cls_no_mlp"), "cls"),
    "mean": "mean",
    "last": "last",
    "first_last": "first_last",
    "first_last_layer1": "first_last_layer1",
}
"""Pooler -> the baseline that it starts from; every [CLS] pooler starts from the bare [CLS]."""
BASELINE_SETTINGS = ("train.encoder", "train.corpus", "train.dev_max_length")
"""What of a run's settings its baselines depend on."""

Settings = Mapping[str, Scalar]

NOTHING: Mapping[str, Set[str]] = MappingProxyType({})


def read_stored(
    setups: Sequence[Settings], columns: Sequence[str], ledger: Ledger, data: Mapping[str, Set[str]] = NOTHING
) -> list[Json]:
    """Rows `{"name", "cells": {column: value}}` as far as they have been computed for these encoders and columns.

    `data`: column -> content hashes of the set on which the table's numbers were made; rows on another are left out,
    but not those of early ledgers, which do not say.
    """
    entries = {
        entry.key: entry
        for entry in ledger.baselines()
        if entry.suite not in data or entry.inputs.get("suite") in {None, *data[entry.suite]}
    }
    named = distinct(setups)
    parts: dict[str, list[tuple[Settings, dict[str, float]]]] = {}
    for setup in named:
        of_column = {column: _find_rows(entries, key_of(setup, column)) for column in columns}
        for name in dict.fromkeys(name for rows in of_column.values() for name in rows):
            cells = {column: rows[name] for column, rows in of_column.items() if name in rows}
            parts.setdefault(name, []).append((setup, cells))
    return [row for name, cells in parts.items() for row in _rows(name, cells, named)]


def _find_rows(entries: Mapping[Key, Baselines], key: Key) -> Mapping[str, float]:
    """The rows of an encoder: of a path, those of what it holds, whatever path that had when they were computed."""
    suite, encoder, corpus, length = key
    digest = encoder_hash(encoder) if encoder.startswith("/") else None
    alike = [entry for entry in entries.values() if entry.key == (suite, entry.encoder, corpus, length)]
    entry = next((each for each in alike if digest and each.inputs.get("encoder") == digest), entries.get(key))
    if entry is None or (digest and entry.inputs.get("encoder", digest) != digest):
        return {}
    return entry.rows


def _rows(name: str, parts: Sequence[tuple[Settings, dict[str, float]]], setups: Sequence[Settings]) -> list[Json]:
    """One row where all setups agree; else one for each, which names what tells the setups apart."""
    if all(_agree(cells, parts[0][1]) for _, cells in parts):
        return [{"name": name, "cells": parts[0][1]}]
    differing = [key for key in setups[0] if len({setup[key] for setup in setups}) > 1]
    return [{"name": ", ".join([name, *(str(setup[k]) for k in differing)]), "cells": cells} for setup, cells in parts]


def _agree(cells: Mapping[str, float], first: Mapping[str, float]) -> bool:
    """Whether two rows are one that two machines may have scored: where cosines nearly tie, rounding orders a pair."""
    alike = (math.isclose(value, first[column], rel_tol=SAME_ROW) for column, value in cells.items() if column in first)
    return cells.keys() == first.keys() and all(alike)


def distinct(setups: Sequence[Settings]) -> list[Settings]:
    """What of the runs' settings baselines depend on, each once; runs without an encoder of ours have none."""
    ours = [
        {name: setup[name] for name in BASELINE_SETTINGS} for setup in setups if setup.keys() >= {*BASELINE_SETTINGS}
    ]
    return list({key_of(setup, ""): setup for setup in ours}.values())


def key_of(setup: Settings, column: str) -> Key:
    """Where the ledger keeps a column's rows for an encoder, a corpus and a length."""
    encoder, corpus, length = (str(setup[name]) for name in BASELINE_SETTINGS)
    return column, encoder, corpus, int(length)


@dataclass(frozen=True)
class Idle:
    """Finished runs whose score shows nothing that was trained."""

    done: int
    """Finished runs, these and the others."""
    below: Mapping[str, str]
    """Signature -> dev set and score of the encoder without training, which the run does not reach."""
    early: Sequence[str]
    """Signatures of runs that went on after their first evaluation and never beat it."""

    @property
    def signatures(self) -> frozenset[str]:
        return frozenset([*self.below, *self.early])

    def lines(self) -> list[str]:
        """How many there are of each kind; none for none."""
        lines = []
        if self.below:
            starts = ", ".join(dict.fromkeys(self.below.values()))
            lines.append(f"below the encoder without training ({starts}): {len(self.below)} of {self.done} runs")
        if self.early:
            lines.append(f"{len(self.early)} of {self.done} runs never beat their first evaluation")
        return lines


NO_IDLE = Idle(0, {}, ())


def idle(runs: Sequence[RunRow], ledger: Ledger) -> Idle:
    """Of these runs; one without a stored score of its encoder is judged by its curve alone."""
    done = [run for run in runs if run.state == RunState.DONE and run.best is not None]
    entries = {entry.key: entry for entry in ledger.baselines()} if done else {}
    starts = {
        run.signature: _start(run, str(run.config.get(DEV)), str(run.identity.get("dev", "")), entries) for run in done
    }
    below = {
        run.signature: f"{run.config[DEV]} {start:.2f}"
        for run in done
        if (start := starts[run.signature]) is not None and (run.best or 0.0) < start
    }
    peaked = [run for run in done if run.best_examples is not None and run.best_examples < (run.examples or 0)]
    first = ledger.first_points(run.signature for run in peaked)
    early = [run.signature for run in peaked if run.best_examples == first.get(run.signature, 0)]
    return Idle(len(done), below, early)


def _start(run: RunRow, column: str, data: str, entries: Mapping[Key, Baselines]) -> float | None:
    """What the run's encoder scored on a set under its pooler before training; None where that is not stored, or on
    another version of the set than `data` (empty: any), and for another tool's run, scored by its own protocol."""
    if IMPORTED in run.identity or not {DEV, "method.pooler", *BASELINE_SETTINGS} <= run.config.keys():
        return None
    entry = entries.get(key_of(run.config, column))
    if entry is None or entry.inputs.get("suite") != (data or entry.inputs.get("suite")):
        return None
    name = START.get(str(run.config["method.pooler"]))
    return entry.rows.get(UNTRAINED_NAMES[name]) if name else None


def name_change(column: str) -> str:
    """The column of a set's scores less those before training."""
    return f"{column} - untrained"


def find_changes(
    values: Sequence[RunValue], runs: Sequence[RunRow], forgotten: Sequence[str], ledger: Ledger
) -> tuple[list[RunValue], list[str]]:
    """What each run scored in these columns, less what its encoder scored there before training; and a line for each
    column of which the ledger lacks the latter for some run."""
    entries = {entry.key: entry for entry in ledger.baselines()}
    by_signature = {run.signature: run for run in runs}
    changes, lacking = [], []
    for value in (value for value in values if value.column in forgotten):
        run = by_signature.get(value.signature)
        data = value.protocol.data_hash if value.protocol else ""
        has_rows = run is not None and run.config.get("train.prompt") is None  # they stand behind the folder's own
        start = _start(run, value.column, data, entries) if run and has_rows else None
        lacking += [value.column] if start is None and math.isfinite(value.value) else []
        change = math.nan if start is None else value.value - start
        changes.append(replace(value, column=name_change(value.column), value=change, dev=None))
    what = f"before training, with the encoder, pooler and prompt of each run; {MADE_BY}"
    return changes, [f"Not stored: what {column} was {what}" for column in dict.fromkeys(lacking)]


def models_of(resolved: ResolvedSpace, spec: TableSpec, ledger: Ledger | None) -> list[UntrainedModel]:
    """The rows with a model that is scored as it is; one without a score has no values."""
    models = {label: model for label, model in resolved.evaluated().items() if model}
    scores = ledger.untrained_scores() if ledger and models else []
    columns = {column: spec.scores.get(column, column) for column in spec.columns}
    return [collect_scores(label, model.key, columns, scores) for label, model in models.items()]


def list_unscored(resolved: ResolvedSpace, models: Sequence[UntrainedModel], reasons: Mapping[str, str]) -> list[str]:
    """A line for each reason why a row's model has no score in a column that a suite of ours gives.

    `reasons`: label -> why, as far as the caller has tried to score it.
    """
    paper = resolved.space.paper
    if paper is None:
        return []
    values = {model.label: model.values for model in models}
    labels: dict[str, list[str]] = {}
    for row in paper.references:
        columns = paper.suites_of(row, resolved.space.evaluate) if row.evaluated else {}
        if any(column not in values.get(row.label, {}) for column in columns):
            left_out = NO_COUNTERPART.format(profile=resolved.profile.name)
            why = reasons.get(row.label, NOT_YET.format(id=resolved.space.id))
            labels.setdefault(why if row.label in values else left_out, []).append(row.label)
    return [f"Not scored: {', '.join(named)}: {why}" for why, named in labels.items()]
