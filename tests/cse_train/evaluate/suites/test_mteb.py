"""A task of MTEB, scored by the package itself on a cache of the hub that is made here of STS-B's own texts."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.suites import registry
from cse_train.fields import ConfigError

TASK = "mteb:STSBenchmark"
CSE = [sys.executable, "-m", "cse"]
needs_mteb = pytest.mark.skipif(
    importlib.util.find_spec("mteb") is None, reason="mteb is not installed: pip install 'cse-search[mteb]'"
)


@pytest.fixture(scope="module")
def hub_cache(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `datasets` as it stands after mteb/stsbenchmark-sts was loaded once, its test split alone."""
    from datasets import DatasetInfo, Features, SplitDict, SplitInfo, Value
    from datasets.arrow_writer import ArrowWriter

    cache = tmp_path_factory.mktemp("hub")
    folder = cache / "mteb___stsbenchmark-sts" / "default" / "0.0.0" / ("0" * 40)
    folder.mkdir(parents=True)
    features = Features({"sentence1": Value("string"), "sentence2": Value("string"), "score": Value("float64")})
    pairs = load_pairs("sts_test", DataPaths.from_folder(data_dir))
    with ArrowWriter(features=features, path=str(folder / "stsbenchmark-sts-test.arrow")) as writer:
        for left, right, grade in zip(pairs.left, pairs.right, map(float, pairs.gold), strict=True):
            writer.write({"sentence1": left, "sentence2": right, "score": grade})
        count, size = writer.finalize()
    splits = SplitDict()
    splits.add(SplitInfo("test", num_bytes=size, num_examples=count, dataset_name="stsbenchmark-sts"))
    about = {"builder_name": "parquet", "dataset_name": "stsbenchmark-sts", "config_name": "default"}
    DatasetInfo(features=features, splits=splits, version="0.0.0", **about).write_to_directory(str(folder))
    return cache


def cse(hub_cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"HF_DATASETS_CACHE": str(hub_cache), "HF_HUB_OFFLINE": "1"}
    return subprocess.run([*CSE, *words], env=os.environ | environment, capture_output=True, text=True)


@needs_mteb
def test_its_main_score_is_ours_on_the_same_texts(hub_cache: Path, data_dir: Path) -> None:
    suites = ("--suite", f"sts_test,{TASK}", "--data", str(data_dir), "--format", "json")
    done = cse(hub_cache, "eval", "words-l2-h128", "--pooler", "mean", *suites)
    assert done.returncode == 0, done.stderr
    ours, theirs = json.loads(done.stdout)
    assert theirs["suite"] == TASK and theirs["metric"] == "cosine_spearman"
    assert theirs["value"] == pytest.approx(ours["value"], abs=1e-6) and ours["value"] > 30
    assert theirs["protocol"]["rule"].startswith("cosine_spearman, mteb ") and theirs["protocol"]["split"] == "test"
    assert theirs["details"]["scores"]["test"][0]["cosine_spearman"] * 100 == theirs["value"]


@needs_mteb
@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("STSBenchmrk", "unknown task of mteb: suite=mteb:STSBenchmrk; did you mean STSBenchmark"),
        ("STS12", "missing data: suite=mteb:STS12 cannot be read ("),
        ("CIFAR10", "no text task: suite=mteb:CIFAR10 has image"),
    ],
)
def test_a_task_that_cannot_be_scored_is_one_line(hub_cache: Path, task: str, line: str) -> None:
    done = cse(hub_cache, "eval", "words-l2-h128", "--pooler", "mean", "--suite", f"mteb:{task}")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"cse: {line}")


def test_without_the_package_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cse_train.evaluate.suites.mteb.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"suite=mteb:Absent needs mteb; pip install 'cse-search\[mteb\]'"):
        registry.require(["mteb:Absent"], DataPaths())


def test_a_task_is_a_name_of_ours_and_its_column_is_its_name() -> None:
    assert registry.is_known(TASK) and not registry.is_known("mteb")
    assert registry.columns(TASK) == (TASK,) and registry.needs(TASK) == (TASK,)
    assert registry.sense(TASK) == "higher"
    assert registry.find_unscored([TASK], {TASK: 1}) == () and registry.find_unscored([TASK], {}) == (TASK,)
