"""Registry of evaluation suites: every other module of this folder is a suite, and needs no torch to be imported.

A suite states `NAME`; `COLUMNS`, what its scores are stored as (`Score.column`), in the order in which they are
computed; `NEEDS`, the sets, tasks and corpora that it reads; and `evaluate(model, paths, **options) -> list[Score]`,
which takes the options of `run_suites.Options` that it names. Where it has `evaluate_dev`, there is a suite `NAME_dev`
of its scores on dev data too, stored as `DEV_COLUMNS`. Where `MEMBERS` names sets or tasks, each can be asked
for alone: `evaluate` takes them as `members`. `LOWER` names the metrics whose lower value is the better one, `UNRANKED`
those of which none is better, `HIGHER` the others where a name such as `loss` suggests otherwise. `SPANS` gives the
width of a metric's range where that is not 100: 1 for a cosine. Suites of plug-ins come from `cse_train.plugins`, and
have no members; of their metrics only what `SPANS` says is known. A suite with a `PREFIX` is no suite by itself: every
name that begins so is one of its members, `member_hash(name)` is the hash of what that member reads, and `NAME` is how
help writes them.
"""

import contextlib
import functools
import hashlib
import importlib
import pkgutil
from collections.abc import Container, Iterable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Literal

from cse_train.data_paths import DataPaths
from cse_train.evaluate import judgements
from cse_train.evaluate import suites as folder
from cse_train.evaluate.judgements import Judgements, load_judgements
from cse_train.evaluate.metric_names import needs_direction
from cse_train.evaluate.pairs import Pairs, load_pairs, set_name
from cse_train.evaluate.tasks import EVERY_TASK, Task, load_task
from cse_train.evaluate.user_sets import open_user_file
from cse_train.fields import ConfigError, nearest
from cse_train.plugins import registry as plugins
from cse_train.results import CODE_VERSION, DEV_SUFFIX, RULED, Protocol
from cse_train.text.files import file_hash, texts_hash
from cse_train.user_files import UserFile

SUITE_CORPORA = {"wiki": "wiki/wiki_sentences.txt.gz; give --data DIR, or cse data get wiki1m"}
"""Corpus that a suite may need -> its file in the folder of `--data` and the ways to get it, for messages."""

SHIPPED_TESTS = {
    "ae629cd4cf90da8dad78b28a": "sts12",
    "b136d5e8bd3eee0e4c991fd6": "sts13",
    "295c26eee0778dcbe72b43d1": "sts14",
    "469d3716e094c5097b39a2b3": "sts15",
    "3e7e7f30c48e13056f142510": "sts16",
    "57d94d358d7e07c7c9322baf": "sts_test",
    "c2af1a50a7d06d5eb7374547": "sickr_test",
    "7b24d90252cb2fd201ad6c53": "sst2",
    "fd1d7d83ad07172bc6c3adf8": "trec",
    "2fadc893b3b769c14c8fa46a": "mrpc",
    "059f4f338510596a76c0d8de": "sst5",
    "8335f87b51ebcf010114a99d": "mr",
    "f3131b28100e1c84f98fa377": "cr",
    "70ca9dfaa96a82b20e324e54": "subj",
    "388dec642983d8843233ae07": "mpqa",
}
"""Fingerprint of a test set that the suites score -> its name: no dev set may have its texts."""
Suite = ModuleType | SimpleNamespace


@functools.cache
def list_shipped() -> Mapping[str, Suite]:
    """Returns name -> suite for the suites of this folder, sorted."""
    modules = sorted(module.name for module in pkgutil.iter_modules(folder.__path__) if module.name != "registry")
    loaded: dict[str, Suite] = {}
    for suite in (importlib.import_module(f"{folder.__name__}.{name}") for name in modules):
        loaded[suite.NAME] = suite
        if hasattr(suite, "evaluate_dev"):
            name, columns = suite.NAME + DEV_SUFFIX, suite.DEV_COLUMNS
            loaded[name] = SimpleNamespace(NAME=name, COLUMNS=columns, NEEDS=suite.NEEDS, evaluate=suite.evaluate_dev)
    return loaded


def suites() -> list[str]:
    """Returns all suites' names, plug-ins' too, sorted. ConfigError where a plug-in has the name of a set or task."""
    added = plugins.names("suite")
    conflicts = [name for name in added if name in members()]
    if conflicts:
        raise ConfigError([f"name of ours: suite={name} is a set or task; rename the plug-in" for name in conflicts])
    return sorted({*list_shipped(), *added})


def _find_prefixed(name: str) -> Suite | None:
    """Returns the suite whose PREFIX a name begins with, as `mteb:` of `mteb:TASK`; None for any other name."""
    return next((suite for suite in list_shipped().values() if name.startswith(getattr(suite, "PREFIX", " "))), None)


@functools.cache
def members() -> Mapping[str, Suite]:
    """Returns set or task -> the suite that scores it."""
    return {member: suite for suite in list_shipped().values() for member in getattr(suite, "MEMBERS", ())}


def names() -> list[str]:
    """Returns the names of all suites, sets and tasks, without variants of a set such as `generated_dev:N`."""
    return [*suites(), *members()]


def is_known(name: str) -> bool:
    """Returns whether a name, variants included, can be scored."""
    return set_name(name) in names() or _find_prefixed(name) is not None


def require_known(suites: Iterable[str], paths: DataPaths) -> None:
    """Raises ConfigError with a line for each name that is no shipped suite, set or task, and no user's own set."""
    mine = {file.name for file in paths.files if file.role != "corpus"}
    unknown = [name for name in suites if not is_known(name) and name not in mine]
    lines = [f"unknown suite: suite={name}; {nearest(name, [*names(), *mine])}" for name in unknown]
    if lines:
        raise ConfigError(lines)


def suite_of(name: str, paths: DataPaths) -> Suite:
    """Returns the suite that scores a known name: the suite itself, that of a set or task, or of a user set's kind."""
    if (file := paths.data_set(name)) is not None:
        kinds = {"ratings": list_shipped()["sts"], "labels": list_shipped()["transfer"], "retrieval": judgements}
        return kinds[open_user_file(file).kind]
    return _find_prefixed(name) or (_suite(name) if name in suites() else members()[set_name(name)])


def _is_suite(name: str) -> bool:
    return name in suites() and _find_prefixed(name) is None


def _suite(name: str) -> Suite:
    plugin = plugins.get("suite", name)
    return list_shipped()[name] if plugin is None else _require_directions(plugins.load(plugin))


def _require_directions(suite: Suite) -> Suite:
    """Returns the suite; ConfigError for each metric, such as a loss, whose better direction it does not state."""
    declared = {metric for names in ("LOWER", "HIGHER", "UNRANKED") for metric in getattr(suite, names, ())}
    metrics = dict.fromkeys(metric_of(column) or column for column in suite.COLUMNS)
    if silent := [metric for metric in metrics if needs_direction(metric) and metric not in declared]:
        line = "no direction: suite={} metric={}; name it in LOWER of the suite, or in HIGHER"
        raise ConfigError([line.format(suite.NAME, metric) for metric in silent])
    return suite


def columns(name: str) -> tuple[str, ...]:
    """Returns the columns under which the scores of a suite, a set or a task are stored, in the order of computing.

    A user's own set has one column, its name.
    """
    return tuple(_suite(name).COLUMNS) if _is_suite(name) else (name,)


def metric_of(column: str) -> str:
    """Returns the metric in the name of a stored column; empty for a column that is a set's or a task's own name."""
    return column.partition(":")[2].partition(" (")[0]


def sense(column: str) -> Literal["higher", "lower"] | None:
    """Returns which value of a stored column is the better one; None where none is."""
    metric = metric_of(column) or column
    by_metric: dict[str, Literal["higher", "lower"] | None] = {}
    for suite in _describing(column):
        by_metric |= dict.fromkeys(getattr(suite, "LOWER", ()), "lower")
        by_metric |= dict.fromkeys(getattr(suite, "UNRANKED", ()))
    return by_metric.get(metric, "higher")


def span(column: str) -> float | None:
    """Returns the width of a stored column's range; None for a metric of a plug-in that its `SPANS` does not name."""
    metric, describing = metric_of(column) or column, _describing(column)
    spans = [suite.SPANS[metric] for suite in describing if metric in getattr(suite, "SPANS", {})]
    if spans:
        return float(spans[0])
    if describing[0] not in list_shipped().values():
        return None
    is_shipped = not metric_of(column) or is_known(column) or metric in _metrics() or metric.startswith(RULED)
    return 100.0 if is_shipped else None


def _describing(column: str) -> list[Suite]:
    """Returns the plug-in that has the column, as a list; for any other column, all shipped suites."""
    loaded = (_suite(name) for name in suites() if name not in list_shipped())
    return [suite for suite in loaded if column in suite.COLUMNS] or list(list_shipped().values())


@functools.cache
def _metrics() -> frozenset[str]:
    """Returns the metrics of all shipped suites and of users' own sets."""
    return frozenset(
        [*judgements.RANK_METRICS, *(metric_of(c) for suite in list_shipped().values() for c in suite.COLUMNS)]
    )


def find_unscored(suites: Iterable[str], have: Container[str]) -> tuple[str, ...]:
    """Returns the suites that have at least one column missing among the stored columns `have`."""
    return tuple(suite for suite in suites if any(column not in have for column in columns(suite)))


def _load_set(file: UserFile) -> Pairs | Task | Judgements:
    """Loads a user's own set of whatever kind. ConfigError for an unreadable set."""
    kind, paths = open_user_file(file).kind, DataPaths(files=(file,))
    if kind == "retrieval":
        return load_judgements(file)
    return load_pairs(file.name, paths) if kind == "ratings" else load_task(file.name, paths)


def set_hash(name: str, paths: DataPaths) -> str:
    """Returns the content hash of a user's own set, as stored in its scores. ConfigError for an unreadable set."""
    file = paths.data_set(name)
    assert file is not None, name
    return _load_set(file).content_hash


def fingerprint_of(file: UserFile) -> str:
    """Returns the hash of the letters and digits of a user's dev or test set, each item one sentence or a pair.

    It is equal for sets with equal texts, however these are tokenised, ordered, cased or graded, the two texts of a
    pair in either order. ConfigError for a set that cannot be read.
    """
    loaded = _load_set(file)
    items: Iterable[tuple[str, ...]]
    if isinstance(loaded, Pairs):
        items = zip(loaded.left, loaded.right, strict=True)
    elif isinstance(loaded, Task):
        items = [(text,) for split in loaded.splits.values() for text in split.texts[0]]
    else:
        items = [(text,) for text in (*loaded.queries, *loaded.documents)]
    plain = {"\t".join(sorted("".join(filter(str.isalnum, text.lower())) for text in item)) for item in items}
    return hashlib.sha256("\n".join(sorted(plain)).encode("utf8", "surrogatepass")).hexdigest()[:24]


def code_version(name: str) -> str:
    """Returns the version of the code that scores a suite, stored with its scores; a plug-in's has name and digest."""
    plugin = plugins.get("suite", name)
    return CODE_VERSION if plugin is None else f"{CODE_VERSION} {name} {plugins.digest(plugin)}"


def still_valid(scores: Mapping[str, Protocol], paths: DataPaths) -> set[str]:
    """Returns the columns of stored scores (column -> protocol) whose user set or plug-in has not changed since.

    A file or a plug-in that is gone says nothing against its scores.
    """
    valid = set[str]()
    for name, protocol in scores.items():
        content = protocol.data_hash
        with contextlib.suppress(ConfigError):
            content = content if paths.data_set(name) is None else set_hash(name, paths)
        _, suite, digest = (*protocol.code_version.split(), "", "", "")[:3]
        plugin = plugins.get("suite", suite) if suite else None
        if content == protocol.data_hash and (plugin is None or plugins.digest(plugin) == digest):
            valid.add(name)
    return valid


def problems(suites: Iterable[str], paths: DataPaths) -> list[str]:
    """Returns one line for each suite that cannot be scored here: unknown, missing or truncated. Reads every file."""
    lines = []
    for suite in dict.fromkeys(suites):
        try:
            require_known([suite], paths)
            for need in needs(suite):
                _read(need, suite, paths)
        except ConfigError as error:
            lines.append(error.problems[0])
    return list(dict.fromkeys(lines))


def require(suites: Iterable[str], paths: DataPaths) -> None:
    """Raises ConfigError with the lines of `problems` where a suite cannot be scored."""
    lines = problems(suites, paths)
    if lines:
        raise ConfigError(lines)


def data_hash(suite: str, paths: DataPaths) -> str:
    """Returns the hash of everything that a suite reads, and of the version of its code. Raises ConfigError."""
    require_known([suite], paths)
    return texts_hash([code_version(suite), *(f"{need} {_read(need, suite, paths)}" for need in needs(suite))])


def needs(suite: str) -> tuple[str, ...]:
    """Returns the sets, tasks and corpora that a suite, a set or a task reads."""
    return tuple(_suite(suite).NEEDS) if _is_suite(suite) else (suite,)


def require_corpus(corpus: str, suite: str, paths: DataPaths) -> None:
    """Raises ConfigError where a corpus that a suite needs is not given."""
    if getattr(paths, corpus) is None:
        raise ConfigError([f"missing data: suite={suite} needs {SUITE_CORPORA[corpus]}"])


def _read(need: str, suite: str, paths: DataPaths) -> str:
    """Returns the hash of a set, task or corpus that a suite reads; of a corpus, the hash of its file."""
    if need in SUITE_CORPORA:
        require_corpus(need, suite, paths)
        return file_hash(getattr(paths, need))
    if paths.data_set(need) is not None:
        return set_hash(need, paths)
    if (family := _find_prefixed(need)) is not None:
        return str(family.member_hash(need))
    return load_task(need, paths).content_hash if need in EVERY_TASK else load_pairs(need, paths).content_hash
