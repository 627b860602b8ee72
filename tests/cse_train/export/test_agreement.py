"""Reading an export back: what is scored, what is said, and what stands in for absent files and libraries."""

import importlib.util

import pytest

from cse_train.data_paths import DataPaths
from cse_train.export.agreement import LIBRARY, Agreement, ExportChanged
from cse_train.export.export import export

SAME = {
    "library": "transformers 5",
    "checkpoint_score": 70.0,
    "folder_score": 70.0,
    "texts": 9,
    "largest": 1e-6,
    "scale": 1.0,
}


def test_both_numbers_are_said(checkpoint, tmp_path) -> None:
    best, _ = checkpoint(pooler="mean")
    agreement = export(best, tmp_path / "out", "hf")
    (line,) = agreement.lines()
    assert line.startswith(
        f"generated_dev:20: checkpoint {agreement.checkpoint_score:.4f}, reloaded with transformers 5."
    )
    assert f"{agreement.folder_score:.4f} (embeddings of {agreement.texts} texts differ by" in line


def test_an_absent_dev_set_is_replaced_and_named(checkpoint, tmp_path) -> None:
    best, _ = checkpoint(pooler="mean", dev="sts_dev")
    agreement = export(best, tmp_path / "out", "hf", paths=DataPaths())
    assert (agreement.suite, agreement.dev_set) == ("generated_dev:200", "sts_dev")
    assert agreement.lines()[1].startswith("sts_dev selected the checkpoint, but its files are not here: give --data")


def test_the_dev_set_that_selected_is_scored(checkpoint, tmp_path, data_dir) -> None:
    best, _ = checkpoint(pooler="mean", dev="sts_dev")
    agreement = export(best, tmp_path / "out", "hf", paths=DataPaths.from_folder(data_dir))
    assert agreement.suite == agreement.dev_set == "sts_dev" and agreement.texts > 2500
    assert abs(agreement.checkpoint_score - agreement.folder_score) <= 1e-3


@pytest.mark.parametrize(
    ("suite", "changes", "agrees"),
    [
        ("sts_dev", {"folder_score": 70.0009}, True),
        ("sts_dev", {"folder_score": 70.0011}, False),
        ("generated_dev:200", {"folder_score": 70.2}, True),
        ("generated_dev:200", {"largest": 2e-4}, False),
        ("generated_dev:200", {"largest": 2e-4, "scale": 4.0}, True),
    ],
)
def test_how_far_apart_is_too_far(suite, changes, agrees) -> None:
    """Scores decide where the dev set is here, else embeddings: a score of 200 made-up pairs is coarse."""
    agreement = Agreement(suite=suite, dev_set="sts_dev", **(SAME | changes))
    if agrees:
        return agreement.require()
    with pytest.raises(ExportChanged, match="^export changed the model: "):
        agreement.require()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("simcse", {"pooler": "cls"}),
        ("simcse", {"pooler": "first_last"}),
        ("d2cse", {"pooler": "cls", "cls_prompt": True}),
        ("dcpcse", {"pooler": "first_last_layer1"}),
    ],
)
def test_without_sentence_transformers_its_layout_is_read_by_transformers(
    checkpoint, tmp_path, monkeypatch, method, options
) -> None:
    there = importlib.util.find_spec

    def without(name: str, package: str | None = None):
        return None if name == LIBRARY else there(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    best, _ = checkpoint(method, **options)
    agreement = export(best, tmp_path / "out")
    assert agreement.library.startswith("transformers ") and agreement.largest < 1e-5
