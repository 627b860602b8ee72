"""What a table's columns are where nobody says it: settings, metrics, or facts about when and where a run ran."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from analysis.tables.labels import some
from cse.importers import ForeignRun
from cse.importers.seeds import SEED_WORD, cell_of
from cse_train.evaluate.metric_names import BOUNDED, needs_direction
from cse_train.fields import ConfigError, Scalar

SETTINGS_BEGIN = (
    "method",
    "train.",
    "method.",
    "config/",
    "config.",
    "params.",
    "params_",
    "hparams",
    "args.",
    "args/",
)
"""How the names of settings begin: ours, and those of Ray Tune, MLflow, Optuna, PyTorch Lightning and argparse."""
RUN_FACTS_BEGIN = ("tags.mlflow.",)
METRICS_BEGIN = ("metrics.", "metrics/", "summary.", "summary/", "eval_", "eval/", "test_", "test/", "val_", "val/")
HYPERPARAMETERS = frozenset(
    "lr|rate|batch size|bs|bsz|epochs|train epochs|temperature|temp|dropout|decay|warmup|warmup ratio|warmup steps|"
    "warmup proportion|momentum|margin|scale|alpha|beta|gamma|lambda|epsilon|eps|dim|dims|size|layers|heads|"
    "max length|max len|seq length|seq len|max steps|max grad norm|rank|width|depth|negatives|weight|prob|ratio|"
    "accumulation steps|patience|smoothing".split("|")
)
"""The last words of a setting's name."""
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
"""Names of what a run was and when, in small letters with blanks; they tell no configurations apart."""
WORD = re.compile(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])\d*|\d+")
DATE = re.compile(r"\d{4}-\d\d-\d\d([T _].*)?")
MEASURED = frozenset(
    "best final last epoch step steps iteration score eval test val valid validation dev runtime seconds time samples "
    "tokens flops params parameters grad gradient norm".split()
)
"""Words of what was measured or counted in a run."""
OBJECTIVE = re.compile(r"values?(_\d+)?")
"""What Optuna calls a trial's values."""
AMBIGUOUS = frozenset(("tau", "rho", "precision"))
"""Words of metrics that are settings as well: a temperature, a share, the width of numbers."""
LAST_WORDS = 3
NAMES_SHOWN = 8
"""Names in one line."""
ROUND_DIGITS = 3
"""A number of more digits was measured; settings are rounder."""


def words_of(name: str) -> list[str]:
    """A name's words in small letters."""
    return [word.lower() for word in WORD.findall(name)]


def is_fact(name: str, texts: Iterable[str] = ()) -> bool:
    """Whether a column says when or where a run ran, by its name or, as dates, by its texts."""
    given = list(texts)
    dates = bool(given) and all(DATE.fullmatch(text.strip()) for text in given)
    is_named = name.startswith(RUN_FACTS_BEGIN) or " ".join(words_of(name)) in RUN_FACTS
    return not name.startswith(SETTINGS_BEGIN) and (dates or is_named)


def is_setting(name: str) -> bool:
    """Whether a column's name says that it holds settings."""
    return name.startswith(SETTINGS_BEGIN) or (_ends_as_setting(name) and not _has_metric(name))


def is_metric(name: str) -> bool:
    """Whether a column's name says that it holds what was measured; `loss_weight` and `hit_rate` may be either."""
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
    """The runs with each number of a table as a setting or a metric, where nobody declares it.

    A number that varies among the rows of one configuration is a setting if its name says so, or if its values come
    again and again. ConfigError for round numbers that may be either where no column says the seed: as metrics they
    would make rows of several settings the seeds of one.
    """
    if not any(run.is_flat for run in runs):
        return list(runs)
    names = dict.fromkeys(name for run in runs if run.is_flat for name in run.metrics if name not in declared)
    names = dict.fromkeys(name for name in names if not is_fact(name) and not SEED_WORD.fullmatch(name))
    settings = {name for name in names if is_setting(name)}
    open_names = [name for name in names if name not in settings and not is_metric(name)]
    moved = [_move(run, settings) for run in runs]
    settings |= {name for name in open_names if _varies(moved, name) and _comes_again(runs, name)}
    moved = [_move(run, settings) for run in runs]
    has_seeds = len({json.dumps(run.settings, sort_keys=True, default=str) for run in moved}) == len(moved)
    undecided = [name for name in open_names if name not in settings and _varies(moved, name) and _is_round(runs, name)]
    if undecided and not has_seeds:
        first = undecided[0]
        ways = f"--rename {first}={first}, --metric {first}, --seed {first} or --drop {first}"
        line = f"setting or metric: {some(undecided, NAMES_SHOWN)} varies among rows of equal settings and no seed"
        raise ConfigError([f"{line}; give {ways}"])
    return moved


def _move(run: ForeignRun, names: Collection[str]) -> ForeignRun:
    """The run with these numbers as settings; a whole number is one however it is written."""
    moved: Mapping[str, Scalar] = {
        name: int(value) if value.is_integer() else value for name, value in run.metrics.items() if name in names
    }
    rest = {name: value for name, value in run.metrics.items() if name not in names}
    return replace(run, settings={**run.settings, **moved}, metrics=rest) if run.is_flat else run


def _varies(runs: Sequence[ForeignRun], name: str) -> bool:
    """Whether rows of one configuration have several values of it."""
    values: dict[str, set[object]] = defaultdict(set)
    for run in runs:
        values[json.dumps(cell_of(run), sort_keys=True, default=str)].add(run.metrics.get(name))
    return any(len(given) > 1 for given in values.values())


def _comes_again(runs: Sequence[ForeignRun], name: str) -> bool:
    """Whether each value is that of two rows or more, on average."""
    given = [run.metrics[name] for run in runs if name in run.metrics]
    return 2 * len(set(given)) <= len(given)


def _is_round(runs: Sequence[ForeignRun], name: str) -> bool:
    """Whether most values have few digits."""
    given = [run.metrics[name] for run in runs if name in run.metrics]
    return 2 * sum(float(f"{value:.{ROUND_DIGITS - 1}e}") == value for value in given) > len(given)
