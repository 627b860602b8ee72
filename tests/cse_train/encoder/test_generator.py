"""The frozen generator: what transformers would predict, dropout as asked for (T16), and its one-line refusals."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, BertConfig, BertForMaskedLM, BertModel, DistilBertConfig
from transformers import DistilBertForMaskedLM as DistilBert

from cse_train import numerics
from cse_train.encoder import generator as module
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.folders import find_weights
from cse_train.encoder.generator import Generator, PackedMaskedLM, PaddedMaskedLM
from cse_train.encoder.identity import generator_hash, load_tokenizer
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from tests.cse_train.packs import lists_of

SHIPPED = "words-l1-h64"


@pytest.fixture
def backbone(tiny_encoder: Path) -> Backbone:
    return load_backbone(str(tiny_encoder))


@pytest.fixture
def distilbert(tmp_path: Path, backbone: Backbone, stirred) -> Path:
    """A tiny DistilBERT with the shipped vocabulary and eight ids that no tokenizer gives."""
    sizes = {"dim": 32, "n_heads": 4, "hidden_dim": 48, "n_layers": 1, "dropout": 0.2}
    model = DistilBert(DistilBertConfig(vocab_size=26_306, **sizes))
    stirred(model)
    model.save_pretrained(tmp_path / "distilbert")
    backbone.tokenizer.save_pretrained(tmp_path / "distilbert")
    return tmp_path / "distilbert"


def test_greedy_is_what_transformers_predicts(backbone, sentences, pad) -> None:
    generator = Generator(SHIPPED, backbone).eval()
    assert isinstance(generator.network, PackedMaskedLM)
    logits = BertForMaskedLM.from_pretrained(find_weights() / SHIPPED).eval()(**pad(sentences, 0)).logits
    expected = [row[: len(s)].argmax(-1).tolist() for row, s in zip(logits, sentences, strict=True)]
    packed = pack_lists(sentences)
    assert lists_of(packed, generator.predict(packed)) == expected


@pytest.mark.parametrize("kind", ["ours", "distilbert"])
def test_single_slots_are_predicted_like_all(backbone, distilbert, kind: str) -> None:
    generator = Generator(SHIPPED if kind == "ours" else str(distilbert), backbone, dropout=False)
    packed, at = pack_lists([[2, 9, 4, 3], [2, 4, 3], [2, 4, 7, 8, 3]]), torch.tensor([5, 0, 7])
    assert torch.equal(generator.predict(packed, at), generator.predict(packed)[at])
    assert generator.predict(packed, at[:0]).shape == (0,)


def test_distilbert_goes_through_transformers_and_keeps_to_the_vocabulary(backbone, distilbert, sentences, pad) -> None:
    generator = Generator(str(distilbert), backbone).eval()
    assert isinstance(generator.network, PaddedMaskedLM)
    logits = AutoModelForMaskedLM.from_pretrained(distilbert).eval()(**pad(sentences, 0)).logits[..., :26_298]
    expected = [row[: len(s)].argmax(-1).tolist() for row, s in zip(logits, sentences, strict=True)]
    packed = pack_lists(sentences)
    assert lists_of(packed, generator.predict(packed)) == expected


@pytest.mark.parametrize("card", [False, True])
def test_sampling_follows_the_probabilities_and_torch_seed(backbone, sentences, monkeypatch, card: bool) -> None:
    monkeypatch.setattr(numerics, "is_card", lambda device: card)
    generator = Generator(SHIPPED, backbone, dropout=False, sample=True)
    packed = pack_lists([sentences[0]] * 400)
    torch.manual_seed(1)
    first = generator.predict(packed)
    torch.manual_seed(1)
    assert torch.equal(generator.predict(packed), first)
    logits = torch.cat(list(generator.network(packed)))[3].softmax(-1)
    drawn = torch.bincount(torch.stack([row[3] for _, b in packed.split(first[:, None]) for row in b]).squeeze(1))
    top = int(logits.argmax())
    share = drawn[top] / 400 if top < len(drawn) else 0.0
    assert abs(share - logits[top]) < 4 * (logits[top] * (1 - logits[top]) / 400) ** 0.5


@pytest.mark.parametrize("kind", ["shipped", "distilbert"])
def test_T16_dropout_in_training_only_when_asked_for(backbone, distilbert, sentences, kind: str) -> None:
    name = SHIPPED if kind == "shipped" else str(distilbert)
    packed = pack_lists(sentences * 4)
    on = torch.nn.Sequential(Generator(name, backbone, dropout=True)).train()[0]
    off = torch.nn.Sequential(Generator(name, backbone, dropout=False)).train()[0]
    logits = [torch.cat(list(g.network(packed))) for g in (on, on, off, off)]
    logits.append(torch.cat(list(on.eval().network(packed))))
    assert not torch.equal(logits[0], logits[1])
    assert torch.equal(logits[2], logits[3]) and torch.equal(logits[2], logits[4])


def test_T16_other_vocabulary_is_refused_in_one_line(backbone, tmp_path) -> None:
    BertForMaskedLM.from_pretrained(find_weights() / SHIPPED).save_pretrained(tmp_path)
    tokenizer = load_tokenizer(find_weights() / SHIPPED)
    tokenizer.add_tokens(["newword"])
    tokenizer.save_pretrained(tmp_path)
    assert one_line(str(tmp_path), backbone).startswith("different vocabularies: ")


def test_nothing_trains_and_the_hash_is_that_of_the_files(backbone) -> None:
    generator = Generator(SHIPPED, backbone)
    assert not [name for name, p in generator.named_parameters() if p.requires_grad]
    assert generator.content_hash == generator_hash(SHIPPED) == load_backbone(SHIPPED).content_hash
    assert not generator.predict(pack_lists([[2, 9, 3]])).requires_grad


def one_line(name: str, like: Backbone) -> str:
    with pytest.raises(ConfigError) as caught:
        Generator(name, like)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_larger_than_memory_is_said_before_loading(backbone, tmp_path, monkeypatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 2 kB\n")
    monkeypatch.setattr(module, "MEMORY_FILE", tmp_path / "meminfo")
    monkeypatch.setattr(module, "load_backbone", None)
    line = one_line(SHIPPED, backbone)
    assert line.startswith(f"generator larger than memory: method.generator={SHIPPED} has 0.00 GB of weights, 0.00 GB")


def test_a_generator_without_head_or_folder_is_refused(backbone, tmp_path) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    BertModel(BertConfig(vocab_size=26_298, **sizes)).save_pretrained(tmp_path)
    backbone.tokenizer.save_pretrained(tmp_path)
    assert one_line(str(tmp_path), backbone).startswith(f"no masked-LM head: method.generator={tmp_path} lacks cls.")
    assert one_line("/nowhere", backbone).startswith("missing folder: method.generator=/nowhere")


def test_a_system_that_does_not_tell_its_memory_is_trusted(backbone, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "MEMORY_FILE", tmp_path / "nothing")
    assert module.available_memory() is None
    Generator(SHIPPED, backbone)
