"""The names under which scores are stored, and which of them each suite gives.

A correlation, and an accuracy by SentEval's rule, is stored under its set's or task's own name (`sts_test`, `mr`);
SentEval's accuracy on held-out folds has `_dev` behind it, and a group's average stands under the group's name (`sts`,
`transfer`, `transfer_dev`). Any other number is `SUITE:METRIC`, with the rule in brackets where several rules are
scored side by side.
"""

from collections.abc import Container, Iterable

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import STS_YEARS, hub_split, load_pairs, suite_names
from cse_train.evaluate.protocol import Result
from cse_train.evaluate.suites.transfer.loaders import TASKS, load_task
from cse_train.fields import ConfigError, nearest

GROUPS = ("sts", "transfer", "transfer_dev", "retrieval", "geometry", "lengths", "repetition", "declutr")
"""Suites of several scores; every other name is one set or task."""
DEV = "_dev"
SENTEVAL = "senteval"
RULED = ("alignment", "recall@", "accuracy", "devacc")
"""Beginnings of the metrics that one call scores, or a person may ask for, under several rules."""


def names() -> list[str]:
    """Every suite by name, but for variants of a set as `generated_dev:N`."""
    return [*GROUPS, *suite_names(), *TASKS]


def is_known(name: str) -> bool:
    """Whether a name, variants included, is a suite's."""
    return name in names() or name.startswith("generated_dev:") or bool(hub_split(name))


def column_of(result: Result) -> str:
    """The name under which a result is stored."""
    rule = result.protocol.rule
    if result.metric == "spearman":
        return result.suite
    if rule.startswith(SENTEVAL) and result.metric in ("accuracy", "devacc"):
        return result.suite + (DEV if result.metric == "devacc" else "")
    shown = f" ({rule})" if rule and result.metric.startswith(RULED) else ""
    return f"{result.suite}:{result.metric}{shown}"


def columns(suite: str) -> tuple[str, ...]:
    """What a suite's scores are stored as, in the order in which they are computed."""
    sets = (*STS_YEARS, "sts_test", "sickr_test")
    errors = ("mean_abs_error_near", "mean_abs_error_far")
    groups = {
        "sts": (*sets, "sts", "sts:spearman_unrounded"),
        "transfer": (*TASKS, "transfer"),
        "transfer_dev": tuple(f"{task}{DEV}" for task in (*TASKS, "transfer")),
        "retrieval": _recalls(),
        "geometry": (
            *(f"sts_test:alignment (positives {rule})" for rule in ("gold > 4", "gold == 5")),
            "sts_test:uniformity",
            "sts_test:mean_cosine",
        ),
        "lengths": (*(f"{name}:{metric}" for name in (*sets, "lengths") for metric in errors), "lengths:gap"),
        "repetition": tuple(f"repetition:{metric}" for metric in ("similarity", "similarity_doubled", "bias")),
        "declutr": ("declutr:downstream", "declutr:average"),
    }
    return groups.get(suite, (suite,))


def unscored(suites: Iterable[str], have: Container[str]) -> tuple[str, ...]:
    """The suites of which a column is not among those stored."""
    return tuple(suite for suite in suites if any(column not in have for column in columns(suite)))


def _recalls() -> tuple[str, ...]:
    rules = ("exclude index", "exclude same text", "exclude same text, distinct corpus")
    return tuple(f"sts_test:recall@{depth} ({rule}, ties against)" for rule in rules for depth in (1, 3, 5, 10))


SEVEN = (*STS_YEARS, "sts_test", "sickr_test")
NEEDED: dict[str, tuple[str, ...]] = {
    "sts": SEVEN,
    "lengths": SEVEN,
    "transfer": TASKS,
    "transfer_dev": TASKS,
    "retrieval": ("sts_test",),
    "geometry": ("sts_test",),
    "declutr": (*TASKS, *STS_YEARS),
}
"""Group -> the sets and tasks that it reads."""


def problems(suites: Iterable[str], paths: DataPaths) -> list[str]:
    """One line for each suite that cannot be scored here: unknown, missing or truncated. Reads every file."""
    found = (_problem(suite, paths) for suite in dict.fromkeys(suites))
    return list(dict.fromkeys(line for line in found if line))


def require(suites: Iterable[str], paths: DataPaths) -> None:
    """Raise ConfigError with the lines of `problems`."""
    found = problems(suites, paths)
    if found:
        raise ConfigError(found)


def _problem(suite: str, paths: DataPaths) -> str | None:
    if not is_known(suite):
        return f"unknown suite: suite={suite}; {nearest(suite, names())}"
    try:
        for name in NEEDED.get(suite, (suite,)):
            _read(name, paths)
    except ConfigError as error:
        return error.problems[0]
    return None


def _read(name: str, paths: DataPaths) -> None:
    if name == "repetition":
        require_wiki(paths)
    elif name in TASKS:
        load_task(name, paths)
    else:
        load_pairs(name, paths)


def require_wiki(paths: DataPaths) -> None:
    """Raise ConfigError where the sentences that `repetition` draws are not given."""
    if paths.wiki is None:
        raise ConfigError(["missing data: suite=repetition needs wiki/wiki_sentences.txt.gz; give --data DIR"])
