"""`cse.compare` and `cse.gate`: the commands as Python functions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.answers.judge import Scope
from analysis.statistics.looks import FAMILY, TIE_MARGIN
from cse.cli import ledgers
from cse.compare.candidate import GateVerdict, judge_candidate
from cse.compare.comparison import Comparison, compare_models
from cse.compare.loop import DEFAULT_LOOP, Loop
from cse.compare.missing_scores import Scoring
from cse.compare.question import DifferenceOptions, ModelOptions, ScoringOptions
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
    over: Scope = "both",
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
    """Compares two models column by column, as `cse compare` does; differences are A minus B in the column's own units.

    `a`, `b`: a run's signature, `SPACE:CELL` or `SWEEP:CELL` with all its seeds, a model folder or a name on the hub;
    several runs or folders with commas. `b="untrained"` is the encoder from which A's runs began. `also`: more models
    that A is compared with. `column`: columns to compare, by default all that both have. `margin`: half-width of a tie,
    in points (hundredths of a metric's range). `scale`: column -> width of its metric's range, `""` for all columns.
    `level`: probability that any verdict is wrong, over all columns and all models of `also`. `over`: what a word
    covers, other "seeds", other "sentences" or "both". `top`: how many sentence
    pairs and queries to list. `suite`: suites by name, or files of your own, on which models without scores are scored
    first. Raises ConfigError for models without a common column.
    """
    return compare_models(
        a,
        b,
        ledgers.existing_ledger(ledger, storage),
        _difference(column, margin, scale, level, over),
        _naming(profile, set, data_hash),
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
    over: Scope = "both",
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
    """Judges whether a candidate is better than a reference, a tie or worse, or needs more seeds, as `cse gate` does.

    Models are named as in `cse.compare`. Every question is logged in the ledger, and takes its share of `level`, the
    probability that any verdict is wrong. `loop`: name of the series of candidates that share the level; `candidates`:
    how many it will have, named with the first. `over`: what the verdict covers, as in `cse.compare`. `looks`: numbers
    of seeds at which you look, named before the first.
    `suite`: suites by name, or files of your own, on which models without scores are scored first, and which decide
    where `column` names none; else the dev set decides. Raises ConfigError for what cannot be judged.
    """
    return judge_candidate(
        candidate,
        against,
        ledgers.existing_ledger(ledger, storage),
        _difference(column, margin, scale, level, over),
        _naming(profile, set, data_hash),
        looks,
        Loop(loop, candidates),
        _scoring(suite, data, senteval, pooler, max_length),
    )


def _difference(
    column: Sequence[str] | None, margin: float, scale: Mapping[str, float] | None, level: float, over: Scope
) -> DifferenceOptions:
    spans = [f"{name}={width}" if name else str(width) for name, width in (scale or {}).items()]
    columns = None if column is None else [column] if isinstance(column, str) else list(column)
    return DifferenceOptions(column=columns, margin=margin, scale=spans or None, level=level, over=over)


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


def _naming(profile: str | None, settings: Mapping[str, Scalar] | None, data_hash: str | None) -> ModelOptions:
    pairs = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
    return ModelOptions(profile=profile, settings=pairs or None, data_hash=data_hash)


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path).expanduser()
