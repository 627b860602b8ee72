"""The suites. The folder is the registry: every module but this one is a suite, and needs no torch to be imported.

A suite states `NAME`; `COLUMNS`, what its scores are stored as (`Score.column`), in the order in which they are
computed; `NEEDS`, the sets, tasks and corpora that it reads; and `evaluate(model, paths, **options) -> list[Score]`,
which takes those of `run_suites.Options` that it names. Where `MEMBERS` names sets or tasks, each can be asked for
alone: `evaluate` takes them as `members`. Suites of a user's own come from `cse_train.plugins`, and have no members.
"""

import functools
import importlib
import pkgutil
from collections.abc import Container, Iterable, Mapping
from types import ModuleType

from cse_train.data_paths import DataPaths
from cse_train.evaluate import suites as folder
from cse_train.evaluate.pairs import load_pairs, set_name
from cse_train.evaluate.protocol import CODE_VERSION
from cse_train.evaluate.transfer.loaders import EVERY_TASK, load_task
from cse_train.fields import ConfigError, nearest
from cse_train.plugins import registry as plugins
from cse_train.text.corpora.files import file_hash, texts_hash

CORPORA = {"wiki": "wiki/wiki_sentences.txt.gz"}
"""Corpus that a suite may need -> its file in the folder of `--data`."""


@functools.cache
def shipped() -> Mapping[str, ModuleType]:
    """Name -> suite of this folder, sorted."""
    modules = sorted(module.name for module in pkgutil.iter_modules(folder.__path__) if module.name != "registry")
    loaded = [importlib.import_module(f"{folder.__name__}.{name}") for name in modules]
    return {suite.NAME: suite for suite in loaded}


def suites() -> list[str]:
    """Every suite's name, those of plug-ins too, sorted. ConfigError where a plug-in has the name of a set or task."""
    added = plugins.names("suite")
    taken = [name for name in added if name in members()]
    if taken:
        raise ConfigError([f"name of ours: suite={name} is a set or task; rename the plug-in" for name in taken])
    return sorted({*shipped(), *added})


@functools.cache
def members() -> Mapping[str, ModuleType]:
    """Single set or task -> the suite that scores it."""
    return {member: suite for suite in shipped().values() for member in getattr(suite, "MEMBERS", ())}


def names() -> list[str]:
    """Everything that can be scored, but for variants of a set as `generated_dev:N`."""
    return [*suites(), *members()]


def is_known(name: str) -> bool:
    """Whether a name, variants included, can be scored."""
    return set_name(name) in names()


def require_known(suites: Iterable[str]) -> None:
    """Raise ConfigError with a line for each unknown name."""
    lines = [f"unknown suite: suite={name}; {nearest(name, names())}" for name in suites if not is_known(name)]
    if lines:
        raise ConfigError(lines)


def suite_of(name: str) -> ModuleType:
    """The suite that scores a known name: the suite itself, or a set's or task's."""
    if plugin := plugins.get("suite", name):
        return plugins.load(plugin)
    return shipped()[name] if name in shipped() else members()[set_name(name)]


def columns(name: str) -> tuple[str, ...]:
    """What the scores of a suite, a set or a task are stored as, in the order in which they are computed."""
    return tuple(suite_of(name).COLUMNS) if name in suites() else (name,)


def unscored(suites: Iterable[str], have: Container[str]) -> tuple[str, ...]:
    """The suites of which a column is not among those stored."""
    return tuple(suite for suite in suites if any(column not in have for column in columns(suite)))


def problems(suites: Iterable[str], paths: DataPaths) -> list[str]:
    """One line for each suite that cannot be scored here: unknown, missing or truncated. Reads every file."""
    lines = (_problem(suite, paths) for suite in dict.fromkeys(suites))
    return list(dict.fromkeys(line for line in lines if line))


def require(suites: Iterable[str], paths: DataPaths) -> None:
    """Raise ConfigError with the lines of `problems`."""
    lines = problems(suites, paths)
    if lines:
        raise ConfigError(lines)


def data_hash(suite: str, paths: DataPaths) -> str:
    """Of everything that a suite reads, and of the version of the code that scores it. Raises ConfigError."""
    require_known([suite])
    return texts_hash([CODE_VERSION, *(f"{need} {_read(need, suite, paths)}" for need in needs(suite))])


def needs(suite: str) -> tuple[str, ...]:
    """The sets, tasks and corpora that a suite, a set or a task reads."""
    return tuple(suite_of(suite).NEEDS) if suite in suites() else (suite,)


def require_corpus(corpus: str, suite: str, paths: DataPaths) -> None:
    """Raise ConfigError where a corpus that a suite needs is not given."""
    if getattr(paths, corpus) is None:
        raise ConfigError([f"missing data: suite={suite} needs {CORPORA[corpus]}; give --data DIR"])


def _problem(name: str, paths: DataPaths) -> str | None:
    try:
        require_known([name])
        for need in needs(name):
            _read(need, name, paths)
    except ConfigError as error:
        return error.problems[0]
    return None


def _read(need: str, suite: str, paths: DataPaths) -> str:
    """The hash of what is read, where it is read at once: a corpus stands by its file."""
    if need in CORPORA:
        require_corpus(need, suite, paths)
        return file_hash(getattr(paths, need))
    return load_task(need, paths).content_hash if need in EVERY_TASK else load_pairs(need, paths).content_hash
