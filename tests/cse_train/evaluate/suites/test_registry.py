"""The names of stored scores against what the suites give on real data."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate import run_suites
from cse_train.evaluate.suites import registry, transfer
from cse_train.evaluate.suites.registry import columns, is_known, names, suites
from cse_train.fields import ConfigError
from cse_train.results import Protocol, Score


class Hashed:
    """A model without weights: a vector for each distinct word, summed."""

    name, pooler, max_length, content_hash, prompt = "hashed", "sum", 512, "", ""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.zeros((len(texts), 8), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split() or [""]:
                row[hashlib.blake2b(word.encode(), digest_size=2).digest()[0] % 8] += 1.0
        return rows


def scored(suite: str, metric: str, rule: str = "") -> Score:
    protocol = Protocol(suite=suite, pooler="cls", split="test", max_length=512, rule=rule, data_hash="")
    return Score(suite=suite, metric=metric, value=1.0, protocol=protocol)


@pytest.mark.parametrize(
    ("score", "name"),
    [
        (scored("sts_test", "spearman"), "sts_test"),
        (scored("sts", "spearman", "mean of 7 sets"), "sts"),
        (scored("mr", "accuracy", "senteval, 10 folds, adam"), "mr"),
        (scored("transfer", "devacc", "senteval, 5 folds, rmsprop"), "transfer_dev"),
        (scored("senteval", "mean", "senteval, 10 folds, adam, 16 of 18 downstream tasks"), "senteval"),
        (scored("senteval", "devmean", "senteval, 10 folds, adam, 16 of 18 downstream tasks"), "senteval_dev"),
        (scored("probing", "devmean", "senteval, 10 folds, adam"), "probing_dev"),
        (scored("mrpc", "f1", "senteval, 10 folds, adam"), "mrpc:f1"),
        (scored("mr", "accuracy", "fast, 10 folds"), "mr:accuracy (fast, 10 folds)"),
        (scored("lengths", "gap", "lengths differ"), "lengths:gap"),
        (scored("sts_test", "alignment", "positives gold > 4"), "sts_test:alignment (positives gold > 4)"),
    ],
)
def test_a_column_is_named_by_what_tells_scores_apart(score: Score, name: str) -> None:
    assert score.column == name


SLOW = ("senteval", "senteval_dev")
ELSEWHERE = ("transfer", "transfer_dev", "probing", "probing_dev", "mteb:TASK")
"""Suites with a test of their own."""
QUICK = [group for group in suites() if group not in (*SLOW, *ELSEWHERE)]


@pytest.mark.parametrize(
    "suite",
    [*QUICK, "sts_dev", "generated_dev:20", *(pytest.param(group, marks=pytest.mark.slow) for group in SLOW)],
)
def test_the_columns_of_a_suite_are_those_it_gives(suite: str, data_dir: Path) -> None:
    paths = DataPaths.from_folder(data_dir)
    scores = run_suites.evaluate(Hashed(), paths, [suite], {})
    assert tuple(score.column for score in scores) == columns(suite)
    registry.require([suite], paths)


@pytest.mark.parametrize("mode", ["test", "dev"])
def test_the_columns_of_the_transfer_tasks(mode: transfer.Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = "accuracy" if mode == "test" else "devacc"
    monkeypatch.setattr(transfer, "require_sklearn", lambda: None)
    monkeypatch.setattr(transfer, "load_task", lambda name, paths: name)
    monkeypatch.setattr(transfer, "_score", lambda model, task, protocol, m: unrounded(scored(task, metric, protocol)))
    suite = "transfer" if mode == "test" else "transfer_dev"
    scores = run_suites.evaluate(Hashed(), DataPaths(), [suite], {})
    assert tuple(score.column for score in scores) == columns(suite)


def unrounded(score: Score) -> Score:
    return replace(score, details={"unrounded": score.value})


def test_no_two_suites_share_a_column_but_with_their_parts() -> None:
    groups = [set(columns(name)) for name in suites()]
    assert all(len(group) == len(columns(name)) for name, group in zip(suites(), groups, strict=True))
    assert all(a <= b or b <= a or not a & b for a, b in itertools.combinations(groups, 2))
    assert all(is_known(name) for name in names())
    assert not is_known("sts_tset")


def test_what_is_missing_is_told_once_for_each_suite() -> None:
    lines = registry.problems(["sts", "sts", "transfer_dev", "repetition", "sts_tset", "generated_dev:9"], DataPaths())
    assert [line.partition(";")[0] for line in lines] == [
        "missing data: sts12 needs senteval/downstream",
        "missing data: mr needs senteval/downstream",
        "missing data: suite=repetition needs wiki/wiki_sentences.txt.gz",
        "unknown suite: suite=sts_tset",
    ]
    with pytest.raises(ConfigError, match="missing data: sts12"):
        registry.require(["sts"], DataPaths())


def test_the_hash_of_a_suite_s_data_moves_with_any_set_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = DataPaths()
    one, more = (registry.data_hash(f"generated_dev:{count}", paths) for count in (20, 21))
    assert one == registry.data_hash("generated_dev:20", paths) != more
    monkeypatch.setattr(registry, "CODE_VERSION", "next")
    assert registry.data_hash("generated_dev:20", paths) != one
    with pytest.raises(ConfigError, match="unknown suite: suite=sts_tset; did you mean sts_test"):
        registry.data_hash("sts_tset", paths)
    with pytest.raises(ConfigError, match="^missing data: sts12 needs senteval/downstream"):
        registry.data_hash("sts", paths)
