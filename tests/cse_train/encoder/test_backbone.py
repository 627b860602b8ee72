"""Where backbones and adapters come from, what they hash to, and the one line that says why one cannot be had."""

import json
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
from transformers import (
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    ElectraConfig,
    PreTrainedTokenizerFast,
)

from cse.cli.app import main
from cse_train.encoder.automodel import AutoModelEncoder
from cse_train.encoder.backbone import load_backbone, require_same_vocabulary
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.folders import find_weights, list_encoders, place_bases, require_bases
from cse_train.encoder.identity import backbone_identity, load_tokenizer
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.pooling import needs_tokens, pool
from cse_train.fields import ConfigError
from cse_train.text.tokens import tokenizer_hash

OTHERS = {
    "distilbert": DistilBertConfig(vocab_size=97, dim=32, n_heads=4, hidden_dim=48, n_layers=3, dropout=0.1),
    "electra": ElectraConfig(
        vocab_size=97,
        embedding_size=16,
        hidden_size=32,
        num_attention_heads=4,
        num_hidden_layers=3,
        intermediate_size=48,
    ),
}


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return load_tokenizer(find_weights() / "any")


@pytest.fixture
def folder(tmp_path: Path, config_of, stirred, tokenizer) -> Path:
    """A BertForMaskedLM as transformers writes it, with a tokenizer."""
    config = config_of("bert", 2)
    config.vocab_size = len(tokenizer)
    model = BertForMaskedLM(config)
    stirred(model)
    model.save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_a_folder_of_transformers(folder, sentences, pad):
    backbone = load_backbone(str(folder))
    assert isinstance(backbone.encoder, Encoder) and backbone.head is not None
    assert (backbone.width, backbone.config.num_hidden_layers, len(backbone.tokenizer)) == (32, 2, 8192)
    theirs = BertForMaskedLM.from_pretrained(folder).eval().bert(**pad(sentences, 0)).last_hidden_state
    ours = backbone.encoder.eval()(pack_lists(sentences)).cls_VNH[0]
    torch.testing.assert_close(ours, theirs[:, 0], atol=1e-5, rtol=0)


def test_identity_without_weights_is_the_loaded_one_and_follows_the_weights(folder):
    backbone = load_backbone(str(folder))
    before = backbone_identity(str(folder))
    assert before == (backbone.content_hash, backbone.tokenizer_hash)
    model = BertForMaskedLM.from_pretrained(folder)
    model.bert.embeddings.LayerNorm.bias.data[0] += 1
    model.save_pretrained(folder)
    after = backbone_identity(str(folder))
    assert after[0] != before[0] and after[1] == before[1]


def test_dropout_replaces_both_rates(folder):
    encoder = load_backbone(str(folder), dropout=0.3).encoder
    assert encoder.config.hidden_dropout_prob == encoder.config.attention_probs_dropout_prob == 0.3
    assert (
        {layer.attention_dropout for layer in encoder.layers}
        == {layer.hidden_dropout for layer in encoder.layers}
        == {0.3}
    )
    assert load_backbone(str(folder)).config.hidden_dropout_prob == 0.1


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("pooler", ["cls_no_mlp", "mean", "first_last", "first_last_layer1"])
def test_other_architectures_run_through_automodel(tmp_path, kind, pooler, sentences, pad, stirred, tokenizer):
    model = AutoModel.from_config(OTHERS[kind])
    stirred(model)
    model.eval().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = load_backbone(str(tmp_path)).encoder.eval()
    assert isinstance(encoder, AutoModelEncoder) and encoder.width == 32
    batch = pad(sentences, 0)
    states = model(**batch, output_hidden_states=True).hidden_states
    both = {"first_last": states[0], "first_last_layer1": states[1]}.get(pooler, states[-1]) / 2 + states[-1] / 2
    means = torch.stack([row[: len(s)].mean(0) for row, s in zip(both, sentences, strict=True)])
    expected = states[-1][:, 0] if pooler == "cls_no_mlp" else means
    pooled = pool(encoder(pack_lists(sentences), views=2, tokens=needs_tokens(pooler)), pooler)
    torch.testing.assert_close(pooled, expected.expand(2, -1, -1), atol=1e-5, rtol=0)
    packed = pack_lists(sentences)
    every = encoder(packed, layers=True).states_TH
    assert len(every) == len(states)
    for ours, theirs in zip(every, states, strict=True):
        rows = [theirs[packed.order_N[row], :n] for row, n in enumerate(packed.lengths_N.tolist())]
        torch.testing.assert_close(ours[packed.attended_T()], torch.cat(rows), atol=1e-5, rtol=0)


def test_other_architectures_take_dropout_and_give_two_views(tmp_path, sentences, tokenizer):
    AutoModel.from_config(OTHERS["distilbert"]).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = load_backbone(str(tmp_path), dropout=0.25).encoder.train()
    assert encoder.config.dropout == encoder.config.attention_dropout == 0.25
    first, second = encoder(pack_lists(sentences), views=2).cls_VNH
    assert (first - second).abs().amax(1).min() > 1e-3


def test_different_vocabularies_are_refused_in_one_line(folder, tmp_path, tokenizer):
    other = tmp_path / "other"
    BertForMaskedLM.from_pretrained(folder).save_pretrained(other)
    tokenizer.add_tokens(["newword"])
    tokenizer.save_pretrained(other)
    encoder, generator = load_backbone(str(folder)), load_backbone(str(other))
    require_same_vocabulary(encoder, load_backbone(str(folder)))
    with pytest.raises(ConfigError, match=r"^different vocabularies: .*8192 pieces.*8193 pieces") as caught:
        require_same_vocabulary(encoder, generator)
    assert "\n" not in str(caught.value)


def one_line(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_backbone(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_cannot_be_had_is_said_in_one_line(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert one_line("/nowhere/at/all").startswith("missing folder: train.encoder=/nowhere/at/all")
    assert "did you mean words-l4-h128?" in one_line("words-l4-h182") or "words-l4-h128" not in list_encoders()
    assert "not in the hub's cache, and the hub cannot be reached" in one_line("some-body/some-model")
    (tmp_path / "empty").mkdir()
    assert "needs config.json and model.safetensors" in one_line(str(tmp_path / "empty"))
    BertConfig.from_pretrained(folder, num_hidden_layers=5).save_pretrained(folder)
    assert one_line(str(folder)).startswith("incomplete weights: model_type=bert")


def test_a_folder_without_tokenizer_is_named(folder):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    assert one_line(str(folder)).startswith("missing tokenizer: ")


def test_shipped_encoders_load_here_and_in_transformers():
    if not list_encoders():
        pytest.skip("no shipped weights in this checkout")
    for name in list_encoders():
        backbone = load_backbone(name)
        peer, report = BertForMaskedLM.from_pretrained(find_weights() / name, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
        assert peer.dtype == torch.float32 and backbone.head is not None
        assert backbone.config.vocab_size == len(backbone.tokenizer) == 26_298
        # Told without transformers, whose reading of the file is what `load_backbone` trains with.
        assert backbone_identity(name)[1] == tokenizer_hash(backbone.tokenizer)
        assert backbone.config.max_position_embeddings == 512
    sizes = [path.stat().st_size for path in find_weights().glob("*/*.safetensors")]
    assert max(sizes) <= 15e6 and sum(sizes) <= 30e6


CONFIG = "adapter_config.json"


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an adapter of a base that lies beside it, as the library writes one."""
    monkeypatch.chdir(tmp_path)
    base, folder = tmp_path / "base", tmp_path / "best"
    base.mkdir()
    folder.mkdir()
    (base / "config.json").write_text('{"model_type": "bert"}')
    (base / "model.safetensors").write_bytes(b"weights")
    (folder / CONFIG).write_text('{"base_model_name_or_path": "base", "r": 8}')
    (folder / "modules.json").write_text("[]")
    (folder / "cse_run.json").write_text(json.dumps({"bases": place_bases(folder)}))
    return folder


def test_a_base_that_is_a_folder_is_named_by_its_absolute_path_with_a_hash(adapter: Path) -> None:
    said = json.loads((adapter / CONFIG).read_text())
    assert said == {"base_model_name_or_path": str(adapter.parent / "base"), "r": 8}
    (bases,) = json.loads((adapter / "cse_run.json").read_text()).values()
    assert list(bases) == [str(adapter.parent / "base")]
    (adapter.parent / "base" / "README.md").write_text("no part of the model")
    assert place_bases(adapter) == bases
    require_bases(adapter)


def test_a_base_of_the_hub_keeps_its_name(adapter: Path) -> None:
    (adapter / CONFIG).write_text('{"base_model_name_or_path": "someone/encoder"}')
    assert place_bases(adapter) == {}
    assert json.loads((adapter / CONFIG).read_text()) == {"base_model_name_or_path": "someone/encoder"}


def test_an_adapter_whose_base_has_changed_or_is_gone_is_refused(
    adapter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = adapter.parent / "base" / "model.safetensors"
    weights.write_bytes(b"weightz")
    words = ["eval", str(adapter), "--suite", "generated_dev"]
    assert main(words) == 2
    base = adapter.parent / "base"
    line = f"cse: another base: model={adapter} is an adapter of {base}, whose files have changed since it was trained"
    assert capsys.readouterr().err == f"{line}; put those back\n"
    weights.unlink()
    (base / "config.json").unlink()
    base.rmdir()
    assert main(words) == 2
    line = f"cse: no such base: model={adapter} is an adapter of {base}; put that folder back"
    assert capsys.readouterr().err == f"{line}\n"
