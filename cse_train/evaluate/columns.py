"""The names under which scores are stored, and which of them each suite gives.

A correlation, and an accuracy by SentEval's rule, is stored under its set's or task's own name (`sts_test`, `mr`);
SentEval's accuracy on held-out folds has `_dev` behind it, and a group's average stands under the group's name (`sts`,
`transfer`, `transfer_dev`). Any other number is `SUITE:METRIC`, with the rule in brackets where several rules are
scored side by side.
"""

from collections.abc import Container, Iterable

from cse_train.evaluate.pairs import STS_YEARS, hub_split, suite_names
from cse_train.evaluate.results import Result
from cse_train.evaluate.transfer.loaders import TASKS

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
