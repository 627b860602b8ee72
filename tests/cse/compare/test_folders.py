"""Models by folder and by hub name: seeds of one training, runs beside them, what is absent."""

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import numpy as np
import pytest
import scipy.stats
import torch

import cse
import cse_train
from analysis.ledger import Ledger
from cse_train.checkpoint import save_best
from cse_train.config import RunConfig, TrainConfig
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.evaluate.models import open_model
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.run_suites import evaluate
from cse_train.export.agreement import LIBRARY
from cse_train.export.export import export
from cse_train.methods import config_class
from cse_train.methods.base import load_method
from tests.commands import printed, refused
from tests.cse.compare.models import PROTOCOL, SET, A, Capture, Names, book, facts
from tests.cse_train.encoders import tokenizer_of, write_encoder
from tests.documents import validated
from tests.run_values import score_of


@pytest.fixture
def values(somewhere: Path) -> dict[str, float]:
    """Folder -> its score: encoders with random weights, each of another spread."""
    scores = {}
    for place, name in enumerate(("a0", "a1", "a2", "b0", "b1", "b2")):
        write_encoder(somewhere / name, "bert", tokenizer_of("[CLS]", "[SEP]"), initializer_range=0.1 * (1 + place))
        (score,) = evaluate(open_model(somewhere / name, pooler="mean"), DataPaths(), [SET], {})
        scores[name] = score.value
    return scores


ONE, TWO = "words-l1-h64", "words-l2-h128"
WEIGHTS = Path(cse_train.__file__).parent / "weights"
MORE = ("--pooler", "mean", "--suite", SET)


def test_folders_are_seeds_of_which_none_is_common(capsys: Capture, values: dict[str, float]) -> None:
    argv = ("compare", "a0,a1,a2", "b0, b1, b2", *MORE)
    said = validated("compare", printed(capsys, *argv, "--format", "json"))
    ((column,), (pairs,)) = said["columns"], said["pairs"]
    assert [Path(folder).name for folder in said["A"]["folders"]] == ["a0", "a1", "a2"]
    for side, name in (("A", "a"), ("B", "b")):
        expected = sorted(value for folder, value in values.items() if folder.startswith(name))
        assert sorted(column[side]["values"]) == pytest.approx(expected, abs=1e-9) and column[side]["n"] == 3
    a, b = (np.array([value for folder, value in values.items() if folder.startswith(name)]) for name in "ab")
    half = scipy.stats.t.ppf(0.975, 2) * np.sqrt(a.var(ddof=1) / 3 + b.var(ddof=1) / 3)
    (alone,) = facts(capsys, *argv, "--over", "seeds")["columns"]
    assert alone["interval"] == pytest.approx([a.mean() - b.mean() - half, a.mean() - b.mean() + half], abs=1e-6)
    (items,) = facts(capsys, *argv, "--over", "sentences")["columns"]
    assert [alone["scope"], items["scope"], column["scope"]] == ["seeds", "sentences", "both"]
    sentences = items["interval"][1] - items["difference"]
    both = column["interval"][1] - column["difference"]
    assert (both, column["items"]) == (pytest.approx(np.hypot(half, sentences)), 30)
    assert (column["common"], pairs["seeds"]) == (0, [3, 3])
    assert "a0,a1,a2 (3 folders, each taken for a seed)" in printed(capsys, *argv)


def test_several_beside_one_are_compared_with_it_as_it_is(capsys: Capture, values: dict[str, float]) -> None:
    (column,) = facts(capsys, "compare", "a0,a1,a2", "b1", *MORE, "--over", "seeds")["columns"]
    above = scipy.stats.ttest_1samp([values[name] - values["b1"] for name in ("a0", "a1", "a2")], 0.0)
    interval = above.confidence_interval(0.95)
    assert column["interval"] == pytest.approx([interval.low, interval.high], abs=1e-6)
    assert "3 seeds of A, and B has none" in column["reason"]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("a0,a1,a0", "b0"), "no seeds of one training: model=a0,a1,a0: a folder stands twice; name each folder once"),
        (("a0,a1", "a1,b0"), "one model twice: A=a0,a1, B=a1,b0: both are "),
        (("a0,none", "b0"), "unknown model: model=none; "),
    ],
)
def test_each_mistake_is_one_line(capsys: Capture, somewhere: Path, argv: tuple[str, str], line: str) -> None:
    for name in ("a0", "a1", "b0"):
        (somewhere / name).mkdir()
    assert refused(capsys, "compare", *argv, *MORE).startswith(f"cse: {line}")


def test_a_folder_is_judged_against_runs_and_the_question_is_counted(capsys: Capture, ledger: Ledger) -> None:
    about = PROTOCOL | {"data_hash": load_pairs(SET, DataPaths()).content_hash}
    for seed, name in enumerate(book(ledger, 0.24, [62.0, 64.0, 66.0])):
        ledger.add_score(name, score_of(SET, 97 + seed / 2, about))
    made = validated("gate", printed(capsys, "gate", ONE, "--against", A, *MORE, "--format", "json", code=3))
    (column,), asked = made["columns"], made["asked"]
    assert (made["verdict"], column["column"], asked["number"], asked["uncounted"]) == ("worse", SET, 1, "")
    assert "3 seeds of B, and A has none" in column["reason"] and made["candidate"]["folder"] == ONE
    turned = cse.gate(A, ONE, pooler="mean", suite=SET)
    assert (turned.word, turned.exit_code, turned.asked.number) == ("better", 0, 1), "the same both ways round"
    assert facts(capsys, "gate", TWO, "--against", A, *MORE, code=3)["asked"]["number"] == 2, (
        "another folder is another"
    )
    assert refused(capsys, "gate", ONE, "--against", A, "--pooler", "mean").startswith(
        "cse: missing data: sts_dev needs"
    )


def test_two_folders_are_judged_over_sentences_and_two_sets_of_folders_over_both(
    capsys: Capture, somewhere: Path
) -> None:
    text = printed(capsys, "gate", ONE, "--against", TWO, *MORE, "--n-more", code=4).splitlines()
    assert text[0].startswith(f"undecided: {SET} +") and "(30 pairs; other seeds are not covered); about" in text[0]
    assert (
        " more pairs would decide it, half of the time between " in text[0]
        and text[1] == "more seeds would not decide it"
    )
    assert text[2].startswith("this question is not counted: both sides are folders")
    wide = facts(capsys, "gate", ONE, "--against", TWO, *MORE, "--margin", "80")
    assert (wide["verdict"], wide["scope"], wide["more_seeds"]) == ("tie", "sentences", 0)
    over_seeds = facts(capsys, "gate", ONE, "--against", TWO, *MORE, "--over", "seeds", code=4)
    assert (over_seeds["verdict"], over_seeds["more_seeds"], over_seeds["scope"]) == ("more-seeds", 2, "seeds")
    shutil.copytree(WEIGHTS / ONE, "copied")
    sides = (f"{ONE},words-l4-h128", "--against", f"{TWO},copied")
    made = facts(capsys, "gate", *sides, *MORE, "--candidates", "4", code=4)
    (column,) = made["columns"]
    assert (column["common"], column["A"]["n"], column["B"]["n"], made["asked"]["level"]) == (0, 2, 2, 0.05 / 4)
    assert column["interval"][0] < column["difference"] < column["interval"][1]
    assert refused(capsys, "gate", ONE, "--against", ONE, *MORE).startswith("cse: one model twice: ")
    assert not Path("results/ledger.db").exists()


MINILM, PLAIN, TWIN = "sentence-transformers/all-MiniLM-L6-v2", "tiny-bert", "some-one/tiny-bert"
SUITE = ("--suite", SET)


def put(folder: Path, cache: Path, name: str) -> Path:
    """A folder where the hub's client keeps the snapshot of a model of this name."""
    place = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(folder, snapshot := place / "snapshots" / ("0" * 40))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40, encoding="utf8")
    return snapshot


@pytest.fixture
def cache(somewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Path:
    """A hub's cache with a model of sentence-transformers and two plain encoders, and no hub."""
    library: Any = pytest.importorskip(
        "sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'"
    )
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(hub := somewhere / "hub"))
    modules = library.sentence_transformer.modules
    for place, name in enumerate((PLAIN, TWIN, "minilm"), start=1):
        folder = Path("of", name)
        write_encoder(folder, "bert", tokenizer_of("[CLS]", "[SEP]"), initializer_range=0.1 * place)
        if name != "minilm":
            put(folder, hub, name)
    parts = [modules.Transformer("of/minilm"), modules.Pooling(32, "max"), modules.Normalize()]
    library.SentenceTransformer(modules=parts).save("minilm")
    put(Path("minilm"), hub, MINILM)
    capsys.readouterr()
    return hub


def score_of_folder(folder: str, pooler: str | None = None) -> float:
    (score,) = evaluate(open_model(Path(folder).resolve(), pooler=pooler), DataPaths(), [SET], {})
    return score.value


def test_a_name_of_the_hub_is_its_snapshot_beside_a_folder_and_runs(capsys: Capture, cache: Path, two: Names) -> None:
    said = facts(capsys, "compare", MINILM, "of/tiny-bert", "--also", A, "--pooler", "mean", *SUITE)
    for made, values in ((said, [score_of_folder("of/tiny-bert", "mean")]), (said["also"][0], [97.0] * 3)):
        (column,) = (column for column in made["columns"] if column["column"] == SET)
        assert column["A"]["values"] == pytest.approx([score_of_folder("minilm")], abs=1e-9)
        assert column["B"]["values"] == pytest.approx(values, abs=1e-9)
    assert said["A"]["name"] == MINILM and said["A"]["folder"].startswith(
        f"{cache}/models--sentence-transformers--all-"
    )
    assert f"A: {MINILM} (a folder, no seeds)" in printed(capsys, "compare", MINILM, "minilm", *SUITE).replace("\\", "")
    assert "no seeds tell" not in printed(capsys, "eval", MINILM, *SUITE)


def test_several_names_are_the_seeds_of_one_training(capsys: Capture, cache: Path) -> None:
    (column,) = facts(capsys, "compare", f"{PLAIN},{TWIN}", MINILM, "--pooler", "mean", *SUITE)["columns"]
    assert column["A"]["values"] == pytest.approx(
        [score_of_folder(f"of/{name}", "mean") for name in (PLAIN, TWIN)], abs=1e-9
    )


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("no-one/none", "no folder no-one/none is here, nor to be had from the hub or its cache"),
        (
            "none",
            "or SWEEP:CELL (cse ls), a model's folder or its name on the hub;",
        ),
        ("no-one/none/none", "unknown model: model=no-one/none/none; give a run"),
        (PLAIN, "which pooler: model="),
    ],
)
def test_what_is_not_to_be_had_is_one_line(capsys: Capture, cache: Path, name: str, line: str) -> None:
    assert line in refused(capsys, "compare", name, MINILM, *SUITE)
    assert refused(capsys, "eval", name, *SUITE).startswith(
        "cse: which pooler" if name == PLAIN else "cse: no such run"
    )


def test_a_snapshot_without_weights_is_no_model(capsys: Capture, cache: Path) -> None:
    for file in cache.glob("models--some-one--*/snapshots/*/model.safetensors"):
        file.unlink()
    assert "not a model: model=" in refused(capsys, "compare", TWIN, MINILM, "--pooler", "mean", *SUITE)


def test_a_release_is_judged_over_sentences_without_a_further_library(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two exported folders, in another folder, where sentence-transformers is absent; 400 graded pairs of one's own."""
    monkeypatch.chdir(tmp_path)
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == LIBRARY else there(name, *rest)
    )
    monkeypatch.setitem(sys.modules, LIBRARY, None)
    train = TrainConfig(encoder=ONE, dev=SET, dev_max_length=64)
    run = RunConfig(method="simcse", train=train, options=config_class("simcse")())
    for place, (name, damage) in enumerate((("new", 0.0), ("old", 0.2))):
        model = load_method("simcse").build(run.options, load_backbone(ONE), training=False).eval()
        noise = torch.Generator().manual_seed(place)
        with torch.no_grad():
            for tensor in model.parameters():
                tensor.add_(damage * torch.randn(tensor.shape, generator=noise))
        save_best(tmp_path / f"run-{name}", run, model, {"best": 1.0, "best_examples": 64})
        export(tmp_path / f"run-{name}" / "best", tmp_path / name)
    pairs = load_pairs("generated_dev:400", DataPaths())
    lines = zip(pairs.left, pairs.right, pairs.gold, strict=True)
    text = "\n".join(["sentence1\tsentence2\tscore", *(f"{a}\t{b}\t{grade}" for a, b, grade in lines)])
    Path("own.tsv").write_text(text + "\n", encoding="utf8")
    made = facts(capsys, "gate", "new", "--against", "old", "--suite", "{file: own.tsv, kind: ratings}")
    assert (made["verdict"], made["scope"], made["columns"][0]["items"]) == ("better", "sentences", 400)
    worse = facts(capsys, "gate", "old", "--against", "new", "--suite", "{file: own.tsv, kind: ratings}", code=3)
    assert worse["verdict"] == "worse"
