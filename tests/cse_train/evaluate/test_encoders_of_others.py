"""Encoders that are no BERT, scored as they are: what a pooler reads of them, and what their folders say."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.evaluate import baselines
from cse_train.evaluate.models import open_model
from cse_train.evaluate.pairs import load_pairs
from cse_train.export.export import export
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method
from tests.cse_train.encoders import CAUSAL, Make, maker, tokenizer_of

TEXTS = ["the river", "old stone bridge in the town", "winter music of the garden light 7", "glass"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return maker(tmp_path_factory.mktemp("encoders"))


def last_states(folder: Path) -> np.ndarray:
    """transformers' own last layer at the end of each text, text by text."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return np.stack([model(**tokenizer(t, return_tensors="pt")).last_hidden_state[0, -1].numpy() for t in TEXTS])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", [*CAUSAL, "bert"])
def test_last_is_the_last_attended_token_whichever_side_is_padded(made, kind, side):
    folder = made(kind, tokenizer_of("[CLS]" if kind == "bert" else None, "[SEP]", padding_side=side))
    np.testing.assert_allclose(open_model(folder, pooler="last").embed(TEXTS), last_states(folder), atol=1e-5)


@pytest.mark.parametrize("pooler", ["cls", "cls_train_only", "cls_no_mlp"])
def test_a_pooler_of_cls_is_refused_for_a_plain_encoder(made, pooler):
    causal, bare = made("gpt2"), made("bert", tokenizer_of(None, None))
    for folder, why in ((causal, "which attends causally"), (bare, "whose tokenizer puts no token")):
        with pytest.raises(
            ConfigError, match=rf"^no first token: pooler={pooler} of {folder}, {why}.*; choose mean, last"
        ):
            open_model(folder, pooler=pooler)


def test_a_run_that_was_trained_so_is_refused_too_but_not_under_another_pooler(made, tmp_path):
    run = parse_run({"method": "simcse", "train.encoder": str(made("gpt2"))})
    model = load_method("simcse").build(run.options, load_backbone(run.train.encoder))
    checkpoint.save_best(tmp_path / "run", run, model, {})
    for action in (lambda: open_model(tmp_path / "run"), lambda: export(tmp_path / "run" / "best", tmp_path / "out")):
        with pytest.raises(ConfigError, match=r"^no first token: pooler=cls_train_only of .*attends causally"):
            action()
    np.testing.assert_allclose(
        open_model(tmp_path / "run", pooler="last").embed(TEXTS), last_states(Path(run.train.encoder)), atol=1e-5
    )


def test_the_rows_without_training_have_the_last_token_in_the_place_of_cls(made):
    pairs = load_pairs("generated_dev:20", DataPaths())
    causal = baselines.score_untrained(load_backbone(str(made("gpt2"))), pairs, 64)
    assert list(causal) == ["last", "mean", "first_last", "first_last_layer1", "whitening"]
    both = baselines.score_untrained(load_backbone(str(made("bert"))), pairs, 64)
    assert list(both) == ["cls", "mean", "first_last", "first_last_layer1", "whitening"]


def test_a_folder_that_pools_the_last_token_is_read_as_such(made, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    modules = library.sentence_transformer.modules
    folder = made("qwen3", tokenizer_of(None, "[SEP]"))
    transformer = modules.Transformer(str(folder))
    pooling = modules.Pooling(transformer.get_embedding_dimension(), "lasttoken")
    library.SentenceTransformer(modules=[transformer, pooling]).save(str(tmp_path / "st"))
    opened = open_model(tmp_path / "st")
    assert opened.pooler == "last"
    np.testing.assert_allclose(opened.embed(TEXTS), last_states(folder), atol=1e-5)
