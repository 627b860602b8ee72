"""The same text gives the same vocabulary, id for id."""

import random

import pytest

from cse_train.backbone.folders import shipped_folder
from cse_train.backbone.identity import load_tokenizer
from cse_train.pretrain.vocabulary import ALPHABET, SPECIAL, train_vocabulary
from cse_train.text.generated import sentences as generated_sentences


@pytest.fixture(scope="module")
def text() -> list[str]:
    """Generated sentences with more rare letters than the alphabet holds, all equally rare."""
    rare = [f"x{chr(0x0400 + i)}y {chr(0x0400 + i)}" for i in range(ALPHABET)]
    return generated_sentences(600, 0) + rare


def test_training_repeats_in_any_order_of_the_text(text):
    first = train_vocabulary(text, size=900)
    shuffled = random.Random(0).sample(text, len(text))
    for other in (train_vocabulary(text, size=900), train_vocabulary(shuffled, size=900)):
        assert other.get_vocab() == first.get_vocab()
        assert other.backend_tokenizer.to_str() == first.backend_tokenizer.to_str()


def test_it_is_a_bert_tokenizer(text):
    tokenizer = train_vocabulary(text, size=1200)
    assert len(tokenizer) <= 1200
    assert tokenizer.convert_ids_to_tokens(list(range(5))) == SPECIAL
    ids = tokenizer("The unseenword, ÉTÉ!")["input_ids"]
    assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    pieces = tokenizer.convert_ids_to_tokens(tokenizer("thethe")["input_ids"][1:-1])
    assert pieces[0] == "the" and all(piece.startswith("##") for piece in pieces[1:])
    assert (
        tokenizer.decode(tokenizer(text[0])["input_ids"], skip_special_tokens=True).split()[0]
        == text[0].split()[0].lower()
    )


def test_the_shipped_vocabulary_has_the_same_shape():
    tokenizer = load_tokenizer(shipped_folder() / "tokenizer")
    assert len(tokenizer) == 8192
    assert tokenizer.convert_ids_to_tokens(list(range(5))) == SPECIAL
    assert len(tokenizer("Encyclopedias describe Paris.")["input_ids"]) < 12
