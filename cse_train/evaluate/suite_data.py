"""Whether what a suite reads is at hand, asked before anything is trained or scored."""

from collections.abc import Iterable

from cse_train.config import DataPaths
from cse_train.evaluate.columns import is_known, names
from cse_train.evaluate.pairs import STS_YEARS, load_pairs
from cse_train.evaluate.transfer.loaders import TASKS, load_task
from cse_train.fields import ConfigError, nearest

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
