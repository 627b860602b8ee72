"""The names of stored scores against what the suites give on real data."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.protocol import Protocol, Result
from cse_train.evaluate.suites import registry, run
from cse_train.evaluate.suites.registry import GROUPS, column_of, columns, is_known, names
from cse_train.evaluate.suites.transfer import suite as transfer
from cse_train.fields import ConfigError


class Hashed:
    """A model without weights: a vector for each distinct word, summed."""

    name, pooler, max_length, content_hash = "hashed", "sum", 512, ""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.zeros((len(texts), 8), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split() or [""]:
                row[hashlib.blake2b(word.encode(), digest_size=2).digest()[0] % 8] += 1.0
        return rows


def result(suite: str, metric: str, rule: str = "") -> Result:
    protocol = Protocol(suite=suite, pooler="cls", split="test", max_length=512, rule=rule, data_hash="")
    return Result(suite=suite, metric=metric, value=1.0, protocol=protocol)


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (result("sts_test", "spearman"), "sts_test"),
        (result("sts", "spearman", "mean of 7 sets"), "sts"),
        (result("mr", "accuracy", "senteval, 10 folds, adam"), "mr"),
        (result("transfer", "devacc", "senteval, 5 folds, rmsprop"), "transfer_dev"),
        (result("mr", "accuracy", "fast, 10 folds"), "mr:accuracy (fast, 10 folds)"),
        (result("lengths", "gap", "lengths differ"), "lengths:gap"),
        (result("sts_test", "alignment", "positives gold > 4"), "sts_test:alignment (positives gold > 4)"),
    ],
)
def test_a_column_is_named_by_what_tells_scores_apart(found: Result, name: str) -> None:
    assert column_of(found) == name


QUICK = [group for group in GROUPS if not group.startswith("transfer") and group != "declutr"]


@pytest.mark.parametrize(
    "suite", [*QUICK, "sts_dev", "generated_dev:20", pytest.param("declutr", marks=pytest.mark.slow)]
)
def test_the_columns_of_a_suite_are_those_it_gives(suite: str, data_dir: Path) -> None:
    paths = DataPaths.from_folder(data_dir)
    results = run.evaluate(Hashed(), paths, [suite], run.Options())
    assert tuple(column_of(one) for one in results) == columns(suite)
    registry.require([suite], paths)


@pytest.mark.parametrize("mode", ["test", "dev"])
def test_the_columns_of_the_transfer_tasks(mode: transfer.Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = "accuracy" if mode == "test" else "devacc"
    monkeypatch.setattr(transfer, "require_sklearn", lambda: None)
    monkeypatch.setattr(transfer, "load_task", lambda name, paths: name)
    monkeypatch.setattr(transfer, "_result", lambda model, task, protocol, m: unrounded(result(task, metric, protocol)))
    found = run.evaluate(Hashed(), DataPaths(), ["transfer" if mode == "test" else "transfer_dev"], run.Options())
    assert tuple(column_of(one) for one in found) == columns("transfer" if mode == "test" else "transfer_dev")


def unrounded(one: Result) -> Result:
    return Result(
        suite=one.suite, metric=one.metric, value=1.0, protocol=one.protocol, details={"unrounded": one.value}
    )


def test_no_two_suites_share_a_column_but_with_their_parts() -> None:
    groups = {name: columns(name) for name in GROUPS}
    every = [column for own in groups.values() for column in own]
    assert len(every) == len(set(every))
    assert all(is_known(name) for name in names())
    assert not is_known("sts_tset")


def test_what_is_missing_is_told_once_for_each_suite() -> None:
    told = registry.problems(["sts", "sts", "transfer_dev", "repetition", "sts_tset", "generated_dev:9"], DataPaths())
    assert [line.partition(";")[0] for line in told] == [
        "missing data: sts12 needs senteval/downstream",
        "missing data: mr needs senteval/downstream",
        "missing data: suite=repetition needs wiki/wiki_sentences.txt.gz",
        "unknown suite: suite=sts_tset",
    ]
    with pytest.raises(ConfigError, match="missing data: sts12"):
        registry.require(["sts"], DataPaths())
