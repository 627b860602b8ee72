"""Folders of model2vec and of sentence-transformers' StaticEmbedding: scored as that library does, never trained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.identity import backbone_identity
from cse_train.evaluate.models import open_model
from cse_train.evaluate.vectors import MAX_LENGTH
from cse_train.fields import ConfigError
from tests.cse_train.zoo.pieces import make_tokenizer

library: Any = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
TEXTS = ["the old bridge", "winter music in the garden near the river 5", "glass", "", "漢 glass"]
WIDTH, ROWS = 8, 40
TOKENIZER = make_tokenizer("bert")
DRAWN = np.random.default_rng(0)
VECTORS_VD = DRAWN.normal(size=(len(TOKENIZER), WIDTH)).astype(np.float32)
MAPPING_V = DRAWN.integers(0, ROWS, len(TOKENIZER))
WEIGHTS_V = DRAWN.uniform(size=len(TOKENIZER)).astype(np.float32)
FOLDED_VD = VECTORS_VD[MAPPING_V] * WEIGHTS_V[:, None]
MODEL2VEC = {"embeddings": VECTORS_VD[:ROWS], "mapping": MAPPING_V, "weights": WEIGHTS_V}


def write_library(folder: Path) -> None:
    static = library.sentence_transformer.modules.StaticEmbedding(TOKENIZER, embedding_weights=FOLDED_VD)
    library.SentenceTransformer(modules=[static]).save(str(folder))


def write_model2vec(folder: Path, normalise: bool = False, modules: bool = True) -> None:
    """As `StaticModel.save_pretrained` of model2vec writes it; before 0.4 it wrote no modules.json."""
    folder.mkdir()
    save_file({name: torch.from_numpy(value) for name, value in MODEL2VEC.items()}, folder / "model.safetensors")
    TOKENIZER.backend_tokenizer.save(str(folder / "tokenizer.json"))
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": normalise}
    (folder / "config.json").write_text(json.dumps(config))
    if modules:
        only = {"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}
        (folder / "modules.json").write_text(json.dumps([only]))


WAYS: dict[str, Callable[[Path], None]] = {
    "library": write_library,
    "model2vec": write_model2vec,
    "model2vec of before": lambda folder: write_model2vec(folder, modules=False),
    "model2vec of unit length": lambda folder: write_model2vec(folder, normalise=True, modules=False),
}


def plain(text: str, most: int = MAX_LENGTH) -> np.ndarray:
    """The mean of the folded vectors of a text's own tokens; zeros without one."""
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"][:most]
    vector: np.ndarray = FOLDED_VD[ids].mean(axis=0) if ids else np.zeros(WIDTH)
    return vector


@pytest.mark.parametrize("way", WAYS)
def test_vectors_are_those_of_the_library_and_of_plain_code(way: str, tmp_path: Path) -> None:
    WAYS[way](tmp_path / "static")
    model = open_model(tmp_path / "static")
    ours, expected = model.embed(TEXTS), np.stack([plain(text) for text in TEXTS])
    if "unit" in way:
        expected /= np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(ours, expected, atol=1e-6)
    if (tmp_path / "static" / "modules.json").is_file():
        theirs = library.SentenceTransformer(str(tmp_path / "static")).encode(TEXTS)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert model.pooler == "sentence-transformers: StaticEmbedding"


def test_a_length_is_kept_and_stands_in_the_protocol(tmp_path: Path) -> None:
    write_library(tmp_path / "static")
    long = "winter music in the garden " * 200
    for asked, kept in ((None, MAX_LENGTH), (3, 3)):
        model = open_model(tmp_path / "static", max_length=asked)
        assert model.max_length == kept
        np.testing.assert_allclose(model.embed([long])[0], plain(long, kept), atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_they_are_no_encoder_to_train(way: str, tmp_path: Path) -> None:
    WAYS[way](tmp_path / "static")
    for read in (load_backbone, backbone_identity):
        with pytest.raises(ConfigError) as caught:
            read(str(tmp_path / "static"))
        line = f"static vectors: train.encoder={tmp_path}/static has no layers to train; cse eval scores it"
        assert caught.value.problems == [f"{line}; choose a transformer, or train it by a `trainer:` of yours"]
