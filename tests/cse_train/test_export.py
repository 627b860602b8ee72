"""An exported checkpoint gives the embeddings that `encode` gives, in the library it was exported for."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, BertConfig, DistilBertConfig, RobertaConfig

from cse_train import methods
from cse_train.checkpoint import save_best
from cse_train.config import RunConfig, TrainConfig
from cse_train.export import export
from cse_train.fields import ConfigError
from cse_train.modules.backbone import load_backbone
from cse_train.modules.packing import pack_lists
from cse_train.modules.pooling import POOLERS

TEXTS = [
    "A short one.",
    "The museum of the old town was built in the nineteenth century, near the river.",
    "Rain",
    "x" * 9,
]
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
CONFIGS = {
    "bert": BertConfig(vocab_size=8192, max_position_embeddings=64, pad_token_id=0, **SIZES),
    "roberta": RobertaConfig(vocab_size=8192, max_position_embeddings=66, pad_token_id=1, type_vocab_size=1, **SIZES),
    "distilbert": DistilBertConfig(
        vocab_size=8192, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=64
    ),
}


@pytest.fixture
def encoder_folder(tmp_path: Path, tiny_encoder: Path):
    """Random weights far from zero in transformers' layout, with the shipped tokenizer."""

    def make(kind: str) -> Path:
        torch.manual_seed(3)
        model = AutoModel.from_config(CONFIGS[kind])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        model.save_pretrained(tmp_path / kind)
        AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path / kind)
        return tmp_path / kind

    return make


@pytest.fixture
def checkpoint(tmp_path: Path, encoder_folder):
    """A SimCSE checkpoint with a pooler, and what its `encode` gives for TEXTS."""

    def make(pooler: str, kind: str = "bert") -> tuple[Path, Tensor]:
        train = TrainConfig(encoder=str(encoder_folder(kind)), dev_max_length=64)
        method = methods.load("simcse")
        run = RunConfig(method="simcse", train=train, options=method.Config(pooler=pooler))
        backbone = load_backbone(train.encoder)
        model = method.build(run.options, backbone).eval()
        if model.pooler.projector is not None:
            torch.nn.init.normal_(model.pooler.projector.dense.bias)
        save_best(tmp_path / "run", run, model, {})
        ids = backbone.tokenizer(TEXTS, truncation=True, max_length=64)["input_ids"]
        with torch.inference_mode():
            return tmp_path / "run" / "best", model.encode(pack_lists(ids))

    return make


@pytest.mark.parametrize(
    ("kind", "pooler"),
    [*(("bert", pooler) for pooler in POOLERS), ("roberta", "cls"), ("roberta", "first_last"), ("distilbert", "cls"),
     ("distilbert", "mean"), ("distilbert", "first_last")],
)  # fmt: skip
def test_sentence_transformers_gives_our_embeddings(checkpoint, tmp_path, kind, pooler):
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    best, expected = checkpoint(pooler, kind)
    folder = export(best, tmp_path / "out")
    model = library.SentenceTransformer(str(folder), device="cpu")
    found = torch.tensor(model.encode(TEXTS, batch_size=2))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert model.max_seq_length == 64
    assert model.similarity_fn_name == "cosine"


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_hf_keeps_the_mlp_as_pooler(checkpoint, tmp_path, kind):
    best, expected = checkpoint("cls", kind)
    folder = export(best, tmp_path / "out", "hf")
    model, report = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    found = embed(model, folder).pooler_output
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", CONFIGS)
def test_hf_without_mlp(checkpoint, tmp_path, kind):
    best, expected = checkpoint("cls_train_only", kind)
    folder = export(best, tmp_path / "out", "hf")
    found = embed(AutoModel.from_pretrained(folder), folder).last_hidden_state[:, 0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert not (folder / "modules.json").exists()


def embed(model: torch.nn.Module, folder: Path):
    model.eval()
    with torch.inference_mode():
        return model(**AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt"))


def test_an_export_is_a_backbone_again(checkpoint, tmp_path):
    best, expected = checkpoint("cls_no_mlp")
    backbone = load_backbone(str(export(best, tmp_path / "out", "hf")))
    ids = backbone.tokenizer(TEXTS)["input_ids"]
    found = backbone.encoder.eval()(pack_lists(ids)).cls_VNH[0]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_bad_input_is_one_line_and_leaves_nothing(checkpoint, tmp_path, monkeypatch):
    best, _ = checkpoint("mean")
    with pytest.raises(ConfigError, match=r"^unknown format: format=hg; did you mean hf\?$"):
        export(best, tmp_path / "out", "hg")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    with pytest.raises(ConfigError, match=r"^folder not empty: to="):
        export(best, tmp_path / "full")
    monkeypatch.setattr("cse_train.export.write_modules", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="disk full"):
        export(best, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_a_method_with_more_than_encoder_and_pooler_is_refused(checkpoint, tmp_path, monkeypatch):
    best, _ = checkpoint("mean")
    run = RunConfig(method="simcse", train=TrainConfig(), options=methods.load("simcse").Config())
    odd = (dataclasses.replace(run, method="odd"), torch.nn.Linear(2, 2), None)
    monkeypatch.setattr("cse_train.export.load_model", lambda _: odd)
    with pytest.raises(ConfigError, match=r"^not exportable: method=odd"):
        export(best, tmp_path / "out")
