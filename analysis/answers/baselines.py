"""Scores without training: the untrained encoder, bags of words, and models of a paper that nobody trains here."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from analysis.answers.imported import IMPORTED
from analysis.ledger import Baselines, Ledger, RunRow
from analysis.ledger.baselines import Key
from analysis.run_state import RunState
from analysis.statistics.looks import TIE_MARGIN
from analysis.tables.aggregate import Baseline, UntrainedModel, collect_scores
from analysis.tables.results import DEV
from analysis.tables.spec import RunValue, TableSpec
from cse_train.config import pooler_of
from cse_train.evaluate.suites.registry import span
from cse_train.fields import Scalar
from search_spaces.cells import ResolvedSpace
from search_spaces.identity.signature import encoder_hash

SAME_ROW = 1e-5
"""Relative difference up to which two values are equal: of 65, less than a tenth of the last printed digit."""
NO_SCORE_YET = "no score yet; `cse table {id} --untrained --data DIR` makes it"
SCORING_ADVICE = "`cse table` with --data computes what can be"
CHANGE_SUFFIX = " - untrained"
"""End of the name of the column with a set's scores minus those before training."""
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
"""Pooler -> the baseline that its training starts from; every [CLS] pooler starts from the bare [CLS]."""
BASELINE_SETTINGS = ("train.encoder", "train.corpus", "train.dev_max_length")
"""Settings of a run on which its baselines depend."""

Settings = Mapping[str, Scalar]

NOTHING: Mapping[str, Set[str]] = MappingProxyType({})


def read_stored(
    setups: Sequence[Settings], columns: Sequence[str], ledger: Ledger, data: Mapping[str, Set[str]] = NOTHING
) -> list[Baseline]:
    """Returns the stored baseline rows for these encoders and columns.

    `data` is column -> content hashes of the set on which the table's numbers were made; rows on another set are left
    out, except those of early ledgers, which do not record it. A row is one where all setups agree, else one for each
    setup, named by the settings that differ.
    """
    entries = {
        entry.key: entry
        for entry in ledger.baselines()
        if entry.suite not in data or entry.inputs.get("suite") in {None, *data[entry.suite]}
    }
    setups = distinct(setups)
    parts: dict[str, list[tuple[Settings, dict[str, float]]]] = {}
    for setup in setups:
        of_column = {column: _find_rows(entries, key_of(setup, column)) for column in columns}
        for name in dict.fromkeys(name for rows in of_column.values() for name in rows):
            cells = {column: rows[name] for column, rows in of_column.items() if name in rows}
            parts.setdefault(name, []).append((setup, cells))
    varied = [key for key in setups[0] if len({setup[key] for setup in setups}) > 1] if setups else []
    baselines = []
    for name, each in parts.items():
        first = each[0][1]
        # Rounding may order pairs with tied cosines either way.
        if all(
            cells.keys() == first.keys()
            and all(math.isclose(value, first[column], rel_tol=SAME_ROW) for column, value in cells.items())
            for _, cells in each
        ):
            baselines.append(Baseline(name, first))
        else:
            baselines += [Baseline(", ".join([name, *(str(s[key]) for key in varied)]), cells) for s, cells in each]
    return baselines


def _find_rows(entries: Mapping[Key, Baselines], key: Key) -> Mapping[str, float]:
    """Returns the baseline rows of a key. An encoder at a path is found by its content, whatever its path was."""
    suite, encoder, corpus, length = key
    entry = entries.get(key)
    if encoder.startswith("/") and (digest := encoder_hash(encoder)):
        same_content = (
            each
            for each in entries.values()
            if each.key == (suite, each.encoder, corpus, length) and each.inputs.get("encoder") == digest
        )
        entry = next(same_content, entry)
        if entry is not None and entry.inputs.get("encoder", digest) != digest:
            return {}
    return {} if entry is None else entry.rows


def distinct(setups: Sequence[Settings]) -> list[Settings]:
    """Returns the settings on which baselines depend, each combination once; runs without an encoder have none."""
    encoder_setups = [
        {name: setup[name] for name in BASELINE_SETTINGS} for setup in setups if setup.keys() >= {*BASELINE_SETTINGS}
    ]
    return list({key_of(setup, ""): setup for setup in encoder_setups}.values())


def key_of(setup: Settings, column: str) -> Key:
    """Returns the ledger's key of a column's baseline rows for an encoder, a corpus and a length."""
    encoder, corpus, length = (str(setup[name]) for name in BASELINE_SETTINGS)
    return column, encoder, corpus, int(length)


def start_of(config: Settings) -> str | None:
    """Returns the pooling of a run's encoder from which training starts, as a key of UNTRAINED_NAMES.

    None for a method whose embedding is not pooled in one of these ways, and for one that is not known here.
    """
    return START.get(str(pooler_of(config)))


@dataclass(frozen=True)
class Idle:
    """Finished runs whose score shows no signal of training."""

    done: int
    """Number of all finished runs, with and without signal."""
    below: Mapping[str, str]
    """Signature -> dev set and score of the encoder without training, above which the run is not by TIE_MARGIN."""
    early: Sequence[str]
    """Signatures of runs that went on after their first evaluation and never beat it."""
    barely: frozenset[str] = frozenset()
    """Signatures of runs that are above their encoder without training, and by less than TIE_MARGIN."""

    @property
    def signatures(self) -> frozenset[str]:
        return frozenset([*self.below, *self.early])

    def lines(self) -> list[str]:
        """Returns a line on each kind of runs without signal; none where there are none."""
        lines = []
        if self.below:
            starts = ", ".join(dict.fromkeys(self.below.values()))
            runs = f"{len(self.below)} of {self.done} runs"
            lines.append(f"{runs} are not {TIE_MARGIN:g} points above no training ({starts})")
        if self.early:
            lines.append(f"{len(self.early)} of {self.done} runs never beat their first evaluation")
        return lines


NO_IDLE = Idle(0, {}, ())


def idle(runs: Sequence[RunRow], ledger: Ledger) -> Idle:
    """Finds the runs without signal; a run without a stored score of its encoder is judged by its curve alone."""
    finished = [run for run in runs if run.state == RunState.DONE and run.best is not None]
    entries = {entry.key: entry for entry in ledger.baselines()} if finished else {}
    below, barely = {}, set()
    for run in finished:
        dev = str(run.config.get(DEV))
        start, point = _starting_score(run, dev, str(run.identity.get("dev", "")), entries), (span(dev) or 100.0) / 100
        if start is not None and (run.best or 0.0) < start + TIE_MARGIN * point:
            below[run.signature] = f"{run.config[DEV]} {start:.2f}"
            barely |= {run.signature} if (run.best or 0.0) >= start else set()
    peaked = [run for run in finished if run.best_examples is not None and run.best_examples < (run.examples or 0)]
    first = ledger.first_points(run.signature for run in peaked)
    early = [run.signature for run in peaked if run.best_examples == first.get(run.signature, 0)]
    return Idle(len(finished), below, early, frozenset(barely.difference(early)))


def _starting_score(run: RunRow, column: str, data: str, entries: Mapping[Key, Baselines]) -> float | None:
    """Returns the score of a run's encoder on a set, under its pooler, before training; None if it is not stored.

    None too for a score on a version of the set other than `data` (empty: any), and for an imported run, which has its
    own protocol.
    """
    if IMPORTED in run.identity or not {DEV, *BASELINE_SETTINGS} <= run.config.keys():
        return None
    entry = entries.get(key_of(run.config, column))
    if entry is None or entry.inputs.get("suite") != (data or entry.inputs.get("suite")):
        return None
    name = start_of(run.config)
    return entry.rows.get(UNTRAINED_NAMES[name]) if name else None


def find_changes(
    values: Sequence[RunValue], runs: Sequence[RunRow], forgotten: Sequence[str], ledger: Ledger
) -> tuple[list[RunValue], list[str]]:
    """Returns each run's scores in the columns `forgotten` minus its encoder's scores in them before training.

    The second value has a line for each column in which the ledger lacks an encoder's score.
    """
    entries = {entry.key: entry for entry in ledger.baselines()} if forgotten else {}
    by_signature = {run.signature: run for run in runs}
    changes, unknown_columns = [], []
    for value in (value for value in values if value.column in forgotten):
        run = by_signature.get(value.signature)
        data = value.protocol.data_hash if value.protocol else ""
        # Stored rows were scored behind the prompt of the encoder's folder, and fit no run with a prompt of its own.
        has_rows = run is not None and run.config.get("train.prompt") is None
        start = _starting_score(run, value.column, data, entries) if run and has_rows else None
        unknown_columns += [value.column] if start is None and math.isfinite(value.value) else []
        change = math.nan if start is None else value.value - start
        changes.append(replace(value, column=f"{value.column}{CHANGE_SUFFIX}", value=change, dev=None))
    description = f"before training, with the encoder, pooler and prompt of each run; {SCORING_ADVICE}"
    return changes, [f"Not stored: what {column} was {description}" for column in dict.fromkeys(unknown_columns)]


def models_of(resolved: ResolvedSpace, spec: TableSpec, ledger: Ledger | None) -> list[UntrainedModel]:
    """Returns the paper's rows with a model that is scored without training; a model without a score has no values."""
    models = {label: model for label, model in resolved.evaluated().items() if model}
    scores = ledger.untrained_scores() if ledger and models else []
    columns = {column: spec.scores.get(column, column) for column in spec.columns}
    return [collect_scores(label, model.key, columns, scores) for label, model in models.items()]


def list_unscored(resolved: ResolvedSpace, models: Sequence[UntrainedModel], reasons: Mapping[str, str]) -> list[str]:
    """Returns a line for each reason why a row's model has no score in a column that has a suite.

    `reasons` is label -> reason, for models that the caller has tried to score.
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
            reason = reasons.get(row.label, NO_SCORE_YET.format(id=resolved.space.id))
            labels.setdefault(reason if row.label in values else left_out, []).append(row.label)
    return [f"Not scored: {', '.join(row_labels)}: {reason}" for reason, row_labels in labels.items()]
