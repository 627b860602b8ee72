"""`cse.compare` and `cse.gate`: the commands as functions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.statistics.looks import FAMILY
from analysis.tables.directions import TIE_MARGIN
from cse.cli import ledgers
from cse.compare.compared import Scoring, compare_models
from cse.compare.judged import GateVerdict, judge_candidate
from cse.compare.loop import DEFAULT_LOOP, Loop
from cse.compare.question import DifferenceOptions, ModelOptions, ScoringOptions
from cse.compare.text import Comparison
from cse_train.fields import Scalar


def compare(
    a: str,
    b: str,
    *,
    also: Sequence[str] = (),
    column: Sequence[str] | None = None,
    margin: float = TIE_MARGIN,
    scale: Mapping[str, float] | None = None,
    level: float = FAMILY,
    top: int = 5,
    suite: Sequence[str] | None = None,
    profile: str | None = None,
    set: Mapping[str, Scalar] | None = None,
    data_hash: str | None = None,
    data: str | Path | None = None,
    senteval: str | Path | None = None,
    pooler: str | None = None,
    max_length: int | None = None,
    ledger: str | None = None,
    storage: str | None = None,
) -> Comparison:
    """Two models side by side, as `cse compare` has them; differences are A minus B in a column's own units.

    `margin` is in points, of which a metric's range has a hundred; `scale`: column -> how wide its range is, "" for all
    columns; `also`: further models that A is compared with, all share the level; `suite`: names or files of your own,
    on which what lacks them is scored first.
    """
    return compare_models(
        a,
        b,
        ledgers.existing_ledger(ledger, storage),
        _difference(column, margin, scale, level),
        _named(profile, set, data_hash),
        _scoring(suite, data, senteval, pooler, max_length),
        top,
        also,
    )


def gate(
    candidate: str,
    against: str,
    *,
    column: Sequence[str] | None = None,
    margin: float = TIE_MARGIN,
    scale: Mapping[str, float] | None = None,
    level: float = FAMILY,
    looks: Sequence[int] | None = None,
    loop: str = DEFAULT_LOOP,
    candidates: int | None = None,
    suite: Sequence[str] | None = None,
    profile: str | None = None,
    set: Mapping[str, Scalar] | None = None,
    data_hash: str | None = None,
    data: str | Path | None = None,
    senteval: str | Path | None = None,
    pooler: str | None = None,
    max_length: int | None = None,
    ledger: str | None = None,
    storage: str | None = None,
) -> GateVerdict:
    """One word on a candidate, as `cse gate` has it; the question is logged, and costs its level.

    `looks`: numbers of seeds named before the first; `candidates`: how many the loop will ask about; `suite`: names or
    files of your own, which decide where `column` names none, and on which what lacks them is scored first.
    """
    return judge_candidate(
        candidate,
        against,
        ledgers.existing_ledger(ledger, storage),
        _difference(column, margin, scale, level),
        _named(profile, set, data_hash),
        looks,
        Loop(loop, candidates),
        _scoring(suite, data, senteval, pooler, max_length),
    )


def _difference(
    column: Sequence[str] | None, margin: float, scale: Mapping[str, float] | None, level: float
) -> DifferenceOptions:
    spans = [f"{name}={width}" if name else str(width) for name, width in (scale or {}).items()]
    columns = None if column is None else [column] if isinstance(column, str) else list(column)
    return DifferenceOptions(column=columns, margin=margin, scale=spans or None, level=level)


def _scoring(
    suite: Sequence[str] | None,
    data: str | Path | None,
    senteval: str | Path | None,
    pooler: str | None,
    max_length: int | None,
) -> Scoring:
    suites = [suite] if isinstance(suite, str) else None if suite is None else list(suite)
    places = {"data": _path(data), "senteval": _path(senteval)}
    return Scoring.of(ScoringOptions(suite=suites, pooler=pooler, max_length=max_length, **places))


def _named(profile: str | None, settings: Mapping[str, Scalar] | None, data_hash: str | None) -> ModelOptions:
    pairs = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
    return ModelOptions(profile=profile, settings=pairs or None, data_hash=data_hash)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given).expanduser()
