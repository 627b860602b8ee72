"""Vectors of PromptBERT and Mirror-BERT are those of the releases' forwards, for BERT and for RoBERTa's templates.

The oracles go through transformers on whole texts; the literals are what the releases' own code gave for these weights.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModel, AutoTokenizer, BertConfig, RobertaConfig, RobertaTokenizer

import cse_train
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.evaluate.embedding import Embedder
from cse_train.methods import mirrorbert, promptbert

KINDS = pytest.mark.parametrize("kind", ["bert", "roberta"])
TEXTS = [
    "a man plays",
    "A man plays.",
    "what is that ?",
    'he said " no "',
    "light",
    "wow !",
    "( above )",
    "it 's old '",
]
ROBERTA = {"template": "This sentence : ' [X] ' means[MASK]."}
LETTERS = sorted(ByteLevel.alphabet())
MERGES = [("Ġ", "a"), ("Ġ", "t"), ("Ġ", "l"), ("t", "h"), ("Ġt", "h"), ("!", "."), (")", "."), ("Ġ", "'")]


def write_encoder(folder: Path, kind: str) -> Path:
    """Random weights far from zero with a tokenizer of the kind, in transformers' layout."""
    sizes = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
    torch.manual_seed(3)
    if kind == "bert":
        tokenizer: Any = AutoTokenizer.from_pretrained(Path(cse_train.__file__).parent / "weights" / "tokenizer")
        config: Any = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=512, pad_token_id=0, **sizes)
    else:
        words = ["<s>", "<pad>", "</s>", "<unk>", *LETTERS, *("".join(pair) for pair in MERGES), "<mask>"]
        tokenizer = RobertaTokenizer(vocab={word: at for at, word in enumerate(words)}, merges=MERGES)
        more = {"max_position_embeddings": 514, "pad_token_id": 1, "type_vocab_size": 1}
        config = RobertaConfig(vocab_size=len(tokenizer), **more, **sizes)
    model = AutoModel.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: write_encoder(tmp_path_factory.mktemp(kind), kind) for kind in ("bert", "roberta")}


def opened(folder: Path) -> tuple[Backbone, Any, Any]:
    """Ours without dropout, transformers' model, the tokenizer."""
    peer = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    return load_backbone(str(folder), 0.0), peer, AutoTokenizer.from_pretrained(folder)


def prompted(kind: str, backbone: Backbone, **options: Any) -> promptbert.PromptBERT:
    config = promptbert.Config(**(ROBERTA if kind == "roberta" else {}), **options)
    return promptbert.PromptBERT.build(config, backbone, training=False).eval()


@torch.no_grad()
def vector(peer: Any, ids: list[int], mask_id: int, positions: list[int] | None = None) -> np.ndarray:
    """The last layer at [MASK]."""
    places = {} if positions is None else {"position_ids": torch.tensor([positions])}
    states = peer(input_ids=torch.tensor([ids]), **places).last_hidden_state[0]
    return states[ids.index(mask_id)].numpy()


FROZEN = {
    ("bert", "test"): (0.349153, -0.819708, -1.807324),
    ("roberta", "test"): (0.763086, -0.399435, 0.255669),
    ("bert", "dev"): (-0.057485, -0.007865, 0.106459),
    ("roberta", "dev"): (0.398033, -1.027482, 0.716128),
    ("bert", "mean"): (0.727558, -1.053608, -1.389164),
    ("roberta", "mean"): (0.628585, 0.063005, -0.424989),
}
"""The first numbers of the first text: kongds/Prompt-BERT 690ba6e, evaluation.py's batcher ("test") and
models.py's sentemb_forward ("dev"); cambridgeltl/mirror-bert 8b6b9de, MirrorBERT.encode with max_length 64 ("mean")."""


@KINDS
def test_a_test_text_gets_an_end_mark_and_is_tokenised_within_its_template(encoders, kind: str) -> None:
    """PromptBERT's evaluation.py:190-202."""
    backbone, peer, tokenizer = opened(encoders[kind])
    model = prompted(kind, backbone)
    embedder = Embedder([model.text_of(text) for text in TEXTS], tokenizer, 512)
    ours = embedder(model.encode)[embedder.rows_N]
    for text, mine in zip(TEXTS, ours, strict=True):
        marked = text if text[-1] in ".?\"'" else text + "."
        whole = model.config.template.replace("[MASK]", tokenizer.mask_token).replace("[X]", marked)
        theirs = vector(peer, tokenizer(whole)["input_ids"], tokenizer.mask_token_id)
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
    assert ours[0, :3] == pytest.approx(FROZEN[kind, "test"], abs=1e-5)
    assert [model.text_of(text).lstrip() for text in ("", "no", "no.", "wow !")] == ["", "no.", "no.", "wow !."]


@KINDS
def test_the_dev_set_reads_texts_as_training_does(encoders, kind: str) -> None:
    """models.py:275-368: no end mark, no blank before the sentence, less the template alone, which begins at 0."""
    backbone, peer, tokenizer = opened(encoders[kind])
    model = prompted(kind, backbone)
    (encode,) = model.dev_encodes()
    front, behind = model.config.template.replace("[MASK]", tokenizer.mask_token).split("[X]")
    bs, es = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (front.strip(), behind))
    with torch.no_grad():
        ours = encode(pack_lists(tokenizer(TEXTS)["input_ids"])).numpy()
    for text, mine in zip(TEXTS, ours, strict=True):
        first, *sentence, last = tokenizer(text)["input_ids"]
        own = vector(peer, [first, *bs, *sentence, *es, last], tokenizer.mask_token_id)
        bare = [first, *bs, *es, last]
        places = [at + len(sentence) * (at > len(bs)) for at in range(len(bare))]
        np.testing.assert_allclose(mine, own - vector(peer, bare, tokenizer.mask_token_id, places), atol=1e-5)
    assert ours[0, :3] == pytest.approx(FROZEN[kind, "dev"], abs=1e-5)


def test_another_place_of_the_bare_template_is_another_vector_for_roberta_alone(encoders) -> None:
    for kind, alike in (("bert", True), ("roberta", False)):
        backbone, _, tokenizer = opened(encoders[kind])
        packed = pack_lists(tokenizer(TEXTS)["input_ids"])
        with torch.no_grad():
            one, two = (
                prompted(kind, backbone, bare_positions=place).dev_encodes()[0](packed)
                for place in ("from_0", "as_filled")
            )
        assert torch.equal(one, two) == alike


@KINDS
@pytest.mark.parametrize("length", [64, 20])
def test_mirror_bert_s_mean_counts_the_padding(encoders, kind: str, length: int) -> None:
    """contrastive_learning.py:46-48 at the length of training, mirror_bert.py:60-72 at the 64 tokens of the test."""
    backbone, peer, tokenizer = opened(encoders[kind])
    texts = [*TEXTS, "the light of the old town " * 20]
    model = mirrorbert.MirrorBERT.build(mirrorbert.Config(), backbone).eval()
    kept = {"truncation": True, "max_length": length}
    with torch.no_grad():
        if length == 64:
            ours = model.encode(pack_lists(tokenizer(texts)["input_ids"], pad_id=tokenizer.pad_token_id))
        else:
            rows = tokenizer(texts, **kept)["input_ids"]
            ours = model._pool(pack_lists(rows, pad_id=tokenizer.pad_token_id, width=length))
        given = tokenizer(texts, padding="max_length", return_tensors="pt", **kept)
        theirs = peer(**given).last_hidden_state.mean(1)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-5)
    if length == 64:
        assert ours[0, :3].tolist() == pytest.approx(FROZEN[kind, "mean"], abs=1e-5)
