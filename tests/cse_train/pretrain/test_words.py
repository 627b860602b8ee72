"""Word embeddings that start from word vectors, and vocabularies of whole words."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cse.cli.app import main
from cse_train import fields
from cse_train.backbone.backbone import load_backbone
from cse_train.fields import ConfigError
from cse_train.pretrain.config import PretrainConfig
from cse_train.pretrain.pretrain import pretrain
from cse_train.pretrain.words import read_word_vectors
from cse_train.text.corpora.generated import sentences as generated_sentences
from tests.cse_train.pretrain.small import SMALL, Stopped

SIZE = 6


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "sentences.txt"
    path.write_text("\n".join(generated_sentences(400, 0)) + "\n", encoding="utf8")
    return path


@pytest.fixture(scope="module")
def vectors(text) -> Path:
    """A vector for each word of the text that begins with a letter before t, and for one that the text has not."""
    words = sorted({word for word in re.findall(r"\w+", text.read_text().lower()) if word < "t"})
    rows = np.random.default_rng(0).normal(1.0, 2.0, (len(words) + 1, SIZE))
    path = text.with_name("vectors.txt")
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in row)}" for word, row in zip(["zzz", *words], rows, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


def changed(vectors: Path, **values) -> PretrainConfig:
    return PretrainConfig(
        **{**vars(SMALL), "tokens": 4000, "vocabulary": "words", "embeddings": str(vectors), **values}
    )


def embeddings(folder: Path) -> tuple[dict[str, int], torch.Tensor]:
    backbone = load_backbone(str(folder))
    return backbone.tokenizer.get_vocab(), backbone.encoder.word.weight.detach()


def centred(vectors: Path, words: list[str]) -> torch.Tensor:
    table = read_word_vectors(str(vectors))
    rows = torch.from_numpy(np.stack([table[word] for word in words]))
    return rows - rows.mean(0)


@pytest.mark.parametrize("factorised", [False, True])
@pytest.mark.parametrize("width", [4, 16])
def test_frozen_rows_keep_the_angles_of_their_vectors(text, vectors, tmp_path, factorised, width):
    """A fixed map, orthonormal where it can be, keeps them to fp16; a trained one moves them."""
    config = changed(vectors, frozen=1.0, factorised=factorised, width=width, learning_rate=1e-2)
    vocabulary, table = embeddings(pretrain(config, text, tmp_path / "out"))
    words = [word for word in vocabulary if word in read_word_vectors(str(vectors))]
    assert len(words) > 30 and "zzz" not in words
    rows, expected = table[[vocabulary[word] for word in words]], centred(vectors, words)
    if width > SIZE:
        assert rows.std() == pytest.approx(0.06, rel=0.35)
        difference = F.cosine_similarity(rows[:1], rows) - F.cosine_similarity(expected[:1], expected)
        assert (difference.abs().max() < 0.01) != factorised
    told = (tmp_path / "out" / "README.md").read_text()
    moved = ", while the map to the hidden size was trained" if factorised else ""
    assert f"vectors.txt, which were held for 100% of the tokens{moved}.\n" in told
    assert torch.linalg.matrix_rank(rows, rtol=1e-2) == min(width, SIZE)


def test_rows_are_free_after_their_share_of_the_tokens(text, vectors, tmp_path):
    tables, tokens = [], []

    def look(point: dict) -> None:
        state = torch.load(tmp_path / "state.pt", weights_only=True)
        tables.append(state["model"]["encoder.word.weight"])
        tokens.append(state["tokens"])

    pretrain(changed(vectors, frozen=0.5), text, tmp_path, every=700, progress=look)
    vocabulary = load_backbone(str(tmp_path)).tokenizer.get_vocab()
    rows = [vocabulary[word] for word in vocabulary if word in read_word_vectors(str(vectors))]
    held = sum(count <= 2000 for count in tokens)
    assert held >= 2 and all(torch.equal(tables[0][rows], table[rows]) for table in tables[:held])
    assert not torch.equal(tables[0][2], tables[1][2]), "[CLS] is trained all the time"
    assert (tables[-1][rows] != tables[0][rows]).any(1).float().mean() > 0.9


@pytest.mark.parametrize("factorised", [False, True])
def test_a_run_from_vectors_goes_on_bit_for_bit(text, vectors, tmp_path, factorised):
    config = changed(vectors, frozen=0.5, factorised=factorised, cls_task="sentence_order")

    def stop(point: dict) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        pretrain(config, text, tmp_path / "cut", every=1500, progress=stop)
    torch.manual_seed(99)
    cut, whole = (pretrain(config, text, tmp_path / name, every=1500) for name in ("cut", "whole"))
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_words_that_have_no_vector_are_unknown_or_made_of_pieces(text, vectors, tmp_path):
    rest = set()
    for vocabulary in ("words", "words_and_pieces"):
        folder = pretrain(changed(vectors, vocabulary=vocabulary, tokens=200), text, tmp_path / vocabulary)
        tokenizer = load_backbone(str(folder)).tokenizer
        known = next(word for word in tokenizer.get_vocab() if len(word) > 3 and word.isalpha())
        assert tokenizer.tokenize(known.upper()) == [known]
        parts = tokenizer.tokenize("unbelievably")
        rest.add(len(parts))
        assert (parts == ["[UNK]"]) == (vocabulary == "words")
        assert [tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id] == [2, 3, 4]
    assert max(rest) > 1


def test_the_most_frequent_words_are_taken(text, vectors, tmp_path):
    folder = pretrain(changed(vectors, words=120, tokens=200), text, tmp_path)
    vocabulary = [*load_backbone(str(folder)).tokenizer.get_vocab()]
    assert len(vocabulary) == 5 + 120 and "and" in vocabulary
    card = json.loads((folder / "card.json").read_text())
    assert card["recipe"]["embeddings"] == str(vectors) and card["recipe"]["words"] == 120
    told = (folder / "README.md").read_text()
    assert "vocabulary of whole words." in told and "start from vectors.txt." in told


def test_another_recipe_leaves_a_finished_folder_as_it_is(text, vectors, tmp_path):
    folder = pretrain(changed(vectors, tokens=200), text, tmp_path)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(ConfigError, match=r"^another recipe: vocabulary=pieces \(was words\); "):
        pretrain(changed(vectors, tokens=200, vocabulary="pieces"), text, tmp_path)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize("words", [["--embeddings", "nowhere.txt"], ["--set", "embeddings=nowhere.txt"]])
def test_the_command_refuses_vectors_that_are_not_there(text, tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    assert main(["pretrain", "--to", "out", "--train-file", str(text), *words]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"cse: missing vectors: embeddings={tmp_path}/nowhere.txt; give glove-6b-50d or an existing")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"factorised": True, "frozen": 0.5}, "no vectors: factorised=True; give --embeddings too\nno vectors: frozen"),
        ({"embeddings": "/nowhere.txt"}, "missing vectors: embeddings=/nowhere.txt; give glove-6b-50d or an existing"),
        ({"embeddings": "{folder}/broken.txt"}, "wrong vector: {folder}/broken.txt, line 2 has 2 values, the file 3"),
        ({"embeddings": "{folder}/few.txt"}, "few words: embeddings={folder}/few.txt and words=24000 make up"),
        ({"embeddings": "{folder}/none.txt", "vocabulary": "pieces"}, "no word: embeddings have a vector for"),
    ],
)
def test_the_users_mistakes_are_one_line(text, tmp_path, changes, line):
    (tmp_path / "broken.txt").write_text("the 1 2 3\nof 1 2\n")
    (tmp_path / "few.txt").write_text("the 1 2 3\n")
    (tmp_path / "none.txt").write_text("zzzz 1 2 3\n")
    if "embeddings" in changes:
        changes = changes | {"embeddings": changes["embeddings"].format(folder=tmp_path)}
    with pytest.raises(ConfigError) as error:
        pretrain(
            fields.make(PretrainConfig, {"vocabulary": "words", "held_out": 40, "max_positions": 96} | changes),
            text,
            tmp_path / "out",
        )
    assert str(error.value).startswith(line.format(folder=tmp_path))
    assert not (tmp_path / "out" / "model.safetensors").exists()
