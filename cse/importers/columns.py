"""Guesses what an imported table's columns hold: settings, metrics, or facts about when and where a run ran."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from analysis.tables.labels import some
from cse.importers import ForeignRun
from cse.importers.seeds import SEED_WORD, group_by_cell
from cse_train.evaluate.metric_names import BOUNDED, needs_direction
from cse_train.fields import ConfigError

SETTINGS_BEGIN = tuple("method train. method. config/ config. params. params_ hparams args. args/".split())
"""Prefixes of setting names: those of cse-search, Ray Tune, MLflow, Optuna, PyTorch Lightning and argparse."""
RUN_FACTS_BEGIN = ("tags.mlflow.",)
METRICS_BEGIN = ("metrics.", "metrics/", "summary.", "summary/", "eval_", "eval/", "test_", "test/", "val_", "val/")
HYPERPARAMETERS = frozenset(
    "lr|rate|batch size|bs|bsz|epochs|train epochs|temperature|temp|dropout|decay|warmup|warmup ratio|warmup steps|"
    "warmup proportion|momentum|margin|scale|alpha|beta|gamma|lambda|epsilon|eps|dim|dims|size|layers|heads|"
    "max length|max len|seq length|seq len|max steps|max grad norm|rank|width|depth|negatives|weight|prob|ratio|"
    "accumulation steps|patience|smoothing".split("|")
)
"""Last words of names that mean hyperparameters."""
RUN_FACTS = frozenset(
    "timestamp|date|datetime|time|time s|created|created at|createdat|updated|updated at|start time|end time|started|"
    "begun|ended|finished at|datetime start|datetime complete|duration|runtime|run time|wall time|seconds|elapsed|"
    "time this iter s|time total s|time since restore|iterations since restore|training iteration|iteration|"
    "iterations|timesteps total|episodes total|epoch|step|steps|global step|total steps|pid|hostname|host|node|"
    "node ip|ip|logdir|log dir|log file|artifact uri|trial id|trial name|experiment id|experiment tag|run id|uuid|url|"
    "checkpoint|checkpoint dir|checkpoint path|checkpoint dir name|output dir|out dir|save dir|notes|note|comment|"
    "comments|user|done|should checkpoint|number|trial|trial number|run|row|rep|repeat|repetition|replicate|"
    "gpu memory|memory|max memory|peak memory|n gpu|gpus".split("|")
)
"""Names, as lower-case words, of facts about a run, such as time and host, which are no part of its configuration."""
WORD = re.compile(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])\d*|\d+")
DATE = re.compile(r"\d{4}-\d\d-\d\d([T _].*)?")
MEASURED = frozenset(
    "best final last epoch step steps iteration score eval test val valid validation dev runtime seconds time samples "
    "tokens flops params parameters grad gradient norm".split()
)
"""Words in the names of values that were measured or counted in a run."""
OBJECTIVE = re.compile(r"values?(_\d+)?")
"""Pattern of the names that Optuna gives a trial's objective values."""
AMBIGUOUS = frozenset(("tau", "rho", "precision"))
"""Words of metric names that are also settings: a temperature, a ratio, the width of numbers."""
LAST_WORDS = 3
NAMES_SHOWN = 8
"""Maximum number of names listed in one line."""
ROUND_DIGITS = 3
"""Significant digits: settings rarely have more, and measured values do."""


def is_fact(name: str, texts: Iterable[str] = ()) -> bool:
    """Returns True if a column tells when or where a run ran, by its name, or because all of its texts are dates."""
    values = list(texts)
    dates = bool(values) and all(DATE.fullmatch(text.strip()) for text in values)
    is_named = name.startswith(RUN_FACTS_BEGIN) or " ".join(words_of(name)) in RUN_FACTS
    return not name.startswith(SETTINGS_BEGIN) and (dates or is_named)


def words_of(name: str) -> list[str]:
    """Returns the words of a name in lower case."""
    return [word.lower() for word in WORD.findall(name)]


def is_setting(name: str) -> bool:
    """Returns True if a column's name means a setting."""
    return name.startswith(SETTINGS_BEGIN) or (_ends_as_setting(name) and not _has_metric(name))


def is_metric(name: str) -> bool:
    """Returns True if a column's name means a measured value; False for names such as `loss_weight` that may be
    settings."""
    is_named = name.startswith(METRICS_BEGIN) or bool(OBJECTIVE.fullmatch(name))
    measured = _has_metric(name) or not MEASURED.isdisjoint(words_of(name))
    return is_named or (measured and not _ends_as_setting(name))


def _ends_as_setting(name: str) -> bool:
    words = [word.rstrip("0123456789") for word in words_of(name)]
    return not HYPERPARAMETERS.isdisjoint(" ".join(words[-count:]) for count in range(1, LAST_WORDS + 1))


def _has_metric(name: str) -> bool:
    words = {form for word in words_of(name) for form in (word, word.rstrip("0123456789"))}
    return name.startswith(METRICS_BEGIN) or needs_direction(name) or bool(words & (BOUNDED - AMBIGUOUS))


def place_numbers(runs: Sequence[ForeignRun], declared: Collection[str]) -> list[ForeignRun]:
    """Returns the runs with each undeclared number of a table as a setting or as a metric.

    A number that varies among rows of one configuration is a setting if its name says so, or if its values repeat.
    Raises ConfigError for round numbers that may be either if no column gives the seed: taken as metrics, they would
    turn rows of several settings into seeds of one.
    """
    names = dict.fromkeys(name for run in runs if run.is_flat for name in run.metrics if name not in declared)
    names = dict.fromkeys(name for name in names if not is_fact(name) and not SEED_WORD.fullmatch(name))
    values = {name: [run.metrics[name] for run in runs if name in run.metrics] for name in names}
    settings = {name for name in names if is_setting(name)}
    open_names = [name for name in names if name not in settings and not is_metric(name)]
    moved = [_move(run, settings) for run in runs]
    # Values repeat if each belongs to two rows or more, on average.
    repeated = [name for name in open_names if 2 * len(set(values[name])) <= len(values[name])]
    settings |= {name for name in repeated if _varies(moved, name)}
    moved = [_move(run, settings) for run in runs]
    has_seeds = len({json.dumps(run.settings, sort_keys=True, default=str) for run in moved}) == len(moved)
    undecided = [
        name
        for name in open_names
        if name not in settings and _varies(moved, name) and 2 * sum(map(_is_round, values[name])) > len(values[name])
    ]
    if undecided and not has_seeds:
        first = undecided[0]
        ways = f"--rename {first}={first}, --metric {first}, --seed {first} or --drop {first}"
        line = f"setting or metric: {some(undecided, NAMES_SHOWN)} varies among rows of equal settings and no seed"
        raise ConfigError([f"{line}; give {ways}"])
    return moved


def _move(run: ForeignRun, names: Collection[str]) -> ForeignRun:
    """Returns the run with the named metrics of a table moved to its settings; whole numbers become int."""
    if not run.is_flat:
        return run
    moved = {name: int(value) if value.is_integer() else value for name, value in run.metrics.items() if name in names}
    metrics = {name: value for name, value in run.metrics.items() if name not in names}
    return replace(run, settings={**run.settings, **moved}, metrics=metrics)


def _varies(runs: Sequence[ForeignRun], name: str) -> bool:
    """Returns True if rows of one configuration have several values of this metric."""
    return any(len({run.metrics.get(name) for run in members}) > 1 for members in group_by_cell(runs))


def _is_round(value: float) -> bool:
    return float(f"{value:.{ROUND_DIGITS - 1}e}") == value
