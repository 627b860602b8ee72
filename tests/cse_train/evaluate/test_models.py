"""Every kind of folder behind `open_model`, and everything that is none."""

import importlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from cse_train import checkpoint, methods
from cse_train.config import parse_run
from cse_train.encoder.backbone import load_backbone
from cse_train.evaluate.embedding import NotFinite
from cse_train.evaluate.models import open_model
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method

TEXTS = ["the river runs", "", "an old stone bridge in the town", "the river runs", "light"]


@pytest.fixture
def run_folder(tiny_settings: Callable[..., dict], tmp_path: Path) -> Callable[..., Path]:
    """method, settings -> the folder of a run whose best checkpoint is its start."""

    def make(method: str, **changes: object) -> Path:
        run = parse_run(tiny_settings(method, train_dev_max_length=48, **changes))
        model = load_method(method).build(run.options, load_backbone(run.train.encoder))
        checkpoint.save_best(tmp_path / "run", run, model, {})
        return tmp_path / "run"

    return make


@pytest.fixture
def plain(tiny_encoder: Path, tmp_path: Path) -> Path:
    """The tiny encoder with a pooler of random numbers, as transformers saves one."""
    shutil.copytree(tiny_encoder, tmp_path / "plain")
    AutoModel.from_pretrained(tiny_encoder).save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


def train_pooler(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["pooler.dense.bias"] += 0.1
    save_file(tensors, file, {"format": "pt"})


def alone(folder: Path, text: str) -> dict[str, np.ndarray]:
    """transformers' own embeddings of one text."""
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        out = model(**tokens, output_hidden_states=True)
    first, layer1, last = (out.hidden_states[at][0] for at in (0, 1, -1))
    return {
        "cls": out.pooler_output[0].numpy(),
        "cls_no_mlp": last[0].numpy(),
        "mean": last.mean(0).numpy(),
        "first_last": ((first + last) / 2).mean(0).numpy(),
        "first_last_layer1": ((layer1 + last) / 2).mean(0).numpy(),
    }


def test_T6_every_pooler_of_a_transformers_folder(plain: Path) -> None:
    train_pooler(plain)
    expected = [alone(plain, text) for text in TEXTS]
    for pooler in expected[0]:
        model = open_model(plain, pooler=pooler)
        found = model.embed(TEXTS)
        np.testing.assert_allclose(found, np.stack([one[pooler] for one in expected]), atol=1e-5)
        assert found.dtype == np.float32
        assert (model.pooler, model.max_length) == (pooler, 512)


def test_an_empty_sentence_is_its_special_tokens_and_equal_texts_are_equal(plain: Path) -> None:
    found = open_model(plain, pooler="mean").embed(["", *TEXTS])
    assert np.isfinite(found).all() and np.linalg.norm(found[0]) > 0
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[4])


def test_a_pooler_nobody_trained_is_refused(plain: Path, tiny_encoder: Path) -> None:
    with pytest.raises(ConfigError, match=r"^untrained pooler: pooler=cls of .*randomly initialised"):
        open_model(plain, pooler="cls")
    with pytest.raises(ConfigError, match=r"^untrained pooler: pooler=cls of wiki-l1-h64: no pooler in the weights"):
        open_model(Path("wiki-l1-h64"), pooler="cls")
    with pytest.raises(ConfigError, match=r"^untrained pooler: .*no pooler in the weights; choose one of"):
        open_model(tiny_encoder, pooler="cls")


def test_a_plain_encoder_needs_a_pooler_that_exists(plain: Path) -> None:
    with pytest.raises(ConfigError, match=r"^which pooler: .* is a plain encoder; choose one of cls, "):
        open_model(plain)
    with pytest.raises(ConfigError, match=r"^unknown pooler: pooler=men; did you mean mean\?$"):
        open_model(plain, pooler="men")


def test_longer_than_the_positions(plain: Path) -> None:
    with pytest.raises(ConfigError, match=r"^wrong length: max_length=65 of .*; give 1 to 64$"):
        open_model(plain, pooler="mean", max_length=65)
    long = ["light " * 100]
    assert np.isfinite(open_model(plain, pooler="mean").embed(long)).all()
    assert open_model(plain, pooler="mean", max_length=8).max_length == 8


@pytest.mark.parametrize("method", methods.names())
def test_a_run_embeds_as_its_method_does(method: str, run_folder: Callable[..., Path]) -> None:
    folder = run_folder(method)
    model, best = open_model(folder), open_model(folder / "best")
    run, module, _ = checkpoint.load_model(folder)
    pooler = module.pooler.pooler if getattr(module, "pooler", None) else f"that of {method}"
    assert (model.pooler, model.max_length) == (pooler, 48)
    assert getattr(module, "pooler", None) is None or pooler == getattr(run.options, "pooler", pooler)
    assert model.content_hash == best.content_hash
    first, second = model.embed(TEXTS), best.embed(TEXTS[::-1])
    np.testing.assert_allclose(first, second[::-1], atol=1e-5)
    assert not module.training and first.shape == (5, 32)


def test_another_pooler_of_a_run(run_folder: Callable[..., Path]) -> None:
    folder = run_folder("simcse", method_pooler="cls_no_mlp")
    assert open_model(folder, pooler="mean").pooler == "mean"
    assert not np.allclose(open_model(folder).embed(TEXTS), open_model(folder, pooler="mean").embed(TEXTS))
    with pytest.raises(ConfigError, match=r"^untrained pooler: pooler=cls of .* was trained with cls_no_mlp"):
        open_model(folder, pooler="cls")


@pytest.mark.parametrize("method", ["consert", "isbert", "promptbert"])
def test_a_method_that_pools_in_its_own_way_keeps_it(method: str, run_folder: Callable[..., Path]) -> None:
    with pytest.raises(
        ConfigError, match=rf"^fixed pooler: pooler=mean of .* with that of {method}; leave the pooler out$"
    ):
        open_model(run_folder(method), pooler="mean")


def test_what_is_no_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for path, told in ((tmp_path, "has no run's checkpoint"), (tmp_path / "absent", "is no folder")):
        with pytest.raises(ConfigError, match=r"^not a model: ") as error:
            open_model(path)
        assert told in str(error.value) and "\n" not in str(error.value)


def test_embeddings_that_are_not_finite(plain: Path) -> None:
    tensors = load_file(plain / "model.safetensors")
    tensors["encoder.layer.1.output.LayerNorm.bias"][0] = 3e38  # a number, but no sum of two tokens' is one
    save_file(tensors, plain / "model.safetensors", {"format": "pt"})
    with pytest.raises(NotFinite, match=r"^not finite: 4 of 4 embeddings of "):
        open_model(plain, pooler="mean").embed(TEXTS)


def test_nothing_to_embed(plain: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no texts"):
        open_model(plain, pooler="mean").embed([])


@pytest.fixture
def library_folder(plain: Path, tmp_path: Path) -> Path:
    library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    modules = importlib.import_module("sentence_transformers.models")
    transformer, pooling = modules.Transformer(str(plain), max_seq_length=32), modules.Pooling(32, pooling_mode="mean")
    library.SentenceTransformer(modules=[transformer, pooling], device="cpu").save(str(tmp_path / "library"))
    return tmp_path / "library"


def test_a_sentence_transformers_folder(library_folder: Path, plain: Path) -> None:
    model = open_model(library_folder)
    assert (model.pooler, model.max_length) == ("mean", 32)
    np.testing.assert_allclose(model.embed(TEXTS), open_model(plain, pooler="mean").embed(TEXTS), atol=1e-5)
    assert open_model(library_folder, max_length=8).max_length == 8
    with pytest.raises(ConfigError, match=r"^two poolers: pooler=mean"):
        open_model(library_folder, pooler="mean")


def test_a_sentence_transformers_folder_without_the_library(
    library_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ConfigError, match=r"^not installed: .*; pip install 'cse-search\[sentence-transformers\]'$"):
        open_model(library_folder)
    monkeypatch.undo()
    (library_folder / "modules.json").write_text("{broken")
    with pytest.raises(ConfigError, match=r"^not a model: .*sentence-transformers cannot load it$"):
        open_model(library_folder)
