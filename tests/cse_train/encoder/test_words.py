"""Word vectors as a backbone, and a run that carries the corpus's word embeddings alone."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cse_train.checkpoint import read_best
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder import compact_vocabulary
from cse_train.encoder.backbone import Backbone, WordVectors, load_backbone
from cse_train.encoder.compact_vocabulary import CompactEmbedding, compact
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.identity import backbone_identity
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.files import cache_folder
from cse_train.text import vector_files
from cse_train.text.tokens import tokenise
from cse_train.training.loop import Outcome, Session, train

MARKED = "<s> 9 0\n</s> 0 9\nriver 1 2\nRiver 3 4\n. 5 6\nsoon 7 8\nriver 0 0\n"


@pytest.fixture
def opened(tmp_path: Path):
    """The text of a file -> its backbone."""

    def backbone(text: str, name: str = "vectors.txt") -> Backbone:
        (tmp_path / name).write_bytes(text.encode("utf8", "surrogateescape"))
        return load_backbone(str(tmp_path / name))

    return backbone


def tokens(backbone: Backbone, text: str) -> list[str]:
    return backbone.tokenizer.convert_ids_to_tokens(backbone.tokenizer(text)["input_ids"])


def test_words_and_their_rows_by_hand(opened) -> None:
    backbone = opened(MARKED)
    assert isinstance(backbone.encoder, WordVectors)
    assert (backbone.width, backbone.encoder.vectors_VD.shape) == (2, (6, 2))
    assert tokens(backbone, "River  river.Soon soon") == ["<s>", "River", "river", ".", "<unk>", "soon", "</s>"]
    with torch.no_grad():
        words_KD, counts_N = backbone.encoder(pack_lists(backbone.tokenizer(["River river .", "Soon"])["input_ids"]))
    assert counts_N.tolist() == [2, 5], "the shorter sequence comes first in a pack"
    assert words_KD.tolist() == [[9, 0], [0, 9], [9, 0], [3, 4], [1, 2], [5, 6], [0, 9]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't know, can't you?", "I do n't know , ca n't you ?"),
        ("DON'T shout", "DO N'T shout"),
        ("She's the girl's well-known aunt.", "She 's the girl 's well-known aunt ."),
        ("about 3.5 or 1,000 at 10:30", "about 3.5 or 1,000 at 10:30"),
        ("`` so '' -- he said ... no", "`` so '' -- he said ... no"),
        ("naïve (very)!", "naïve ( very ) !"),
    ],
)
def test_a_sentence_becomes_words_as_in_the_penn_treebank(opened, text: str, words: str) -> None:
    distinct = dict.fromkeys(words.split())
    backbone = opened("".join(f"{word} 1 2\n" for word in ("Capital", *distinct)))
    assert tokens(backbone, text)[1:-1] == words.split()
    assert tokenise([words], backbone.tokenizer, None)[1].tolist() == [len(words.split()) + 2]


def test_a_file_without_capitals_is_read_in_lower_case(opened) -> None:
    lower, cased = opened("river 1 2\n", "lower.txt"), opened("river 1 2\nParis 0 0\n", "cased.txt")
    assert tokens(lower, "River") == ["<s>", "river", "</s>"]
    assert tokens(cased, "River") == ["<s>", "<unk>", "</s>"]


def test_marks_are_those_of_the_file_or_zeros(opened) -> None:
    fasttext = opened("3 2\n</s> 1 1\n<p> 2 2\n</p> 3 3\n", "crawl.vec")
    assert tokens(fasttext, "") == ["<p>", "</p>"]
    without = opened("river 1 2\n")
    with torch.no_grad():
        words_KD, _ = without.encoder(pack_lists(without.tokenizer([""])["input_ids"]))
    assert tokens(without, "") == ["<s>", "</s>"] and words_KD.tolist() == [[0, 0], [0, 0]]


def test_a_word_that_is_not_utf8_has_no_row(opened) -> None:
    backbone = opened("river 1 2\nri\udcffver 3 4\nstone 5 6\n")
    row = backbone.tokenizer.convert_tokens_to_ids("stone")
    assert backbone.encoder.vectors_VD[row].tolist() == [5, 6] and len(backbone.encoder.vectors_VD) == 4


def test_an_identity_is_the_file_s_bytes(opened, tmp_path: Path) -> None:
    backbone = opened(MARKED)
    file_hash = hashlib.sha256(MARKED.encode()).digest()
    content, tokenizer = backbone_identity(str(tmp_path / "vectors.txt"))
    assert content == backbone.content_hash == hashlib.sha256(file_hash).hexdigest()
    opened(MARKED + "stone 1 1\n", "more.txt")
    assert not {content, tokenizer} & set(backbone_identity(str(tmp_path / "more.txt")))
    opened(MARKED, "copy.txt")
    assert backbone_identity(str(tmp_path / "copy.txt")) == (content, tokenizer)


def test_a_damaged_table_is_built_again(opened) -> None:
    vectors = opened(MARKED).encoder.vectors_VD.clone()
    for file in cache_folder().glob("vectors/*/vectors.npy"):
        file.write_bytes(b"half")
    assert torch.equal(opened(MARKED).encoder.vectors_VD, vectors)


def test_the_package_s_vectors_have_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's two files, made here: a table with the words in its column `index`, and the vectors."""
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    files = tmp_path / "words.parquet", tmp_path / "vectors.npy"
    parquet.write_table(arrow.table({"index": ["river", "stone"]}), files[0])
    np.save(files[1], np.array([[1, 2], [3, 4]], dtype=np.float32))
    monkeypatch.setattr("cse_train.encoder.identity.find_packaged", lambda: files)
    backbone = load_backbone(vector_files.PACKAGED)
    assert tokens(backbone, "The Stone") == ["<s>", "<unk>", "stone", "</s>"]
    assert backbone.encoder.vectors_VD.tolist() == [[1, 2], [3, 4], [0, 0], [0, 0]]


def test_what_is_absent_or_broken_is_one_line(opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_files, "PACKAGE", "no_such_package_here")
    with pytest.raises(ConfigError, match=r"^missing encoder: train.encoder=glove-6b-50d; pip install 'cse"):
        load_backbone("glove-6b-50d")
    with pytest.raises(ConfigError, match=r"^missing encoder: train.encoder=absent.vec; no such file; give a text"):
        backbone_identity("absent.vec")
    with pytest.raises(ConfigError, match=r"^wrong vector: .*, line 2 has 1 values, the file 2; correct or fetch it"):
        opened("a 1 2\nb 1\n")
    with pytest.raises(ConfigError, match=r"^not finite: .*, line 1; correct the line$"):
        opened("a nan 2\n")
    opened("a 1 2\n")
    with pytest.raises(ConfigError, match=r"^no dropout: train.dropout=0.1; .* holds word vectors; use null$"):
        load_backbone(str(tmp_path / "vectors.txt"), 0.1)


WORD = "encoder.word.weight"
RUNS = {
    "simcse": {},
    "esimcse": {"method_momentum": 0.9, "method_momentum_init": "random"},
    "declutr": {"method_objective": "contrastive"},
    "ct": {},
    "consert": {},
    "sgopt": {"method_train_embeddings": True},
    "isbert": {},
}
FULL = [
    ("simcse", {"train_weight_decay": 0.01}),
    ("simcse", {"method_mlm_weight": 0.1}),
    ("simcse", {"method_augmentation": "mlm", "method_generator": "words-l1-h64"}),
    ("esimcse", {"method_extension": "stop_word"}),
    ("declutr", {}),
    ("diffcse", {}),
    ("d2cse", {}),
    ("dcpcse", {}),
    ("mirrorbert", {}),
]


@pytest.fixture
def run_of(tiny_settings: Callable[..., dict], text_file: Path) -> Callable[..., Outcome]:
    def run_one(folder: Path, method: str, stop: int | None = None, **changes: object) -> Outcome:
        settings = tiny_settings(method, train_evaluations=4, **changes)
        return train(parse_run(settings), DataPaths(train_file=text_file), folder, lambda point: point.step == stop)

    return run_one


def losses(outcome: Outcome) -> list[float]:
    return [point.metrics["loss"] for point in outcome.points]


def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every run of this context trains the whole vocabulary."""
    monkeypatch.setattr(compact_vocabulary, "compact", lambda model, ids: None)
    return monkeypatch


@pytest.mark.parametrize("method", list(RUNS))
def test_the_checkpoint_equals_full_training(
    method: str, run_of: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = run_of(tmp_path / "small", method, **RUNS[method])
    with monkeypatch.context() as context:
        without(context)
        full = run_of(tmp_path / "full", method, **RUNS[method])
    assert losses(small) == pytest.approx(losses(full), abs=1e-5)
    ours, theirs = read_best(tmp_path / "small")[2], read_best(tmp_path / "full")[2]
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, atol=1e-4, rtol=0, msg=lambda text, name=name: f"{name}: {text}")


def test_rows_that_no_line_uses_stay(run_of: Callable[..., Outcome], tmp_path: Path, tiny_encoder: Path) -> None:
    from safetensors.torch import load_file

    run_of(tmp_path, "simcse")
    begun = load_file(tiny_encoder / "model.safetensors")["bert.embeddings.word_embeddings.weight"]
    moved = (read_best(tmp_path)[2][WORD] != begun).any(1)
    assert 20 < int(moved.sum()) < 120 < len(begun)


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_either_kind_of_run_goes_on_from_the_others_checkpoint(
    first: bool,
    second: bool,
    run_of: Callable[..., Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    updates: list[int],
) -> None:
    whole = run_of(tmp_path / "whole", "simcse")
    for small, stop in ((first, 10), (second, None)):
        with monkeypatch.context() as context:
            if not small:
                without(context)
            ended = run_of(tmp_path / "halves", "simcse", stop=stop)
    assert updates == [*range(20), *range(20)], "the second half begins at update 10"
    assert losses(ended) == pytest.approx(losses(whole), abs=1e-5)


@pytest.mark.parametrize(("method", "changes"), FULL)
def test_refused_where_it_would_change_a_number(
    method: str, changes: dict, tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path
) -> None:
    session = opened_backbone(tiny_settings(method, **changes), text_file, tmp_path)
    assert not any(isinstance(module, CompactEmbedding) for module in session.model.modules())


def test_taken_where_it_changes_none(tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path) -> None:
    for method, changes in RUNS.items():
        session = opened_backbone(tiny_settings(method, **changes), text_file, tmp_path / method)
        tables = [module for module in session.model.modules() if isinstance(module, CompactEmbedding)]
        assert [20 < len(table.weight) < 120 for table in tables] == [True] * (
            2 if method in ("esimcse", "ct", "sgopt") else 1
        )


def opened_backbone(settings: dict, text_file: Path, folder: Path) -> Session:
    return Session.open(parse_run(settings), DataPaths(train_file=text_file), folder)


def test_an_id_outside_the_corpus_is_read_in_eval_mode_alone() -> None:
    table = nn.Embedding(10, 4)
    small = CompactEmbedding(table, torch.tensor([2, 5, 9]))
    ids = torch.tensor([5, 2, 9, 5])
    assert torch.equal(small.train()(ids), table(ids))
    assert torch.equal(small.eval()(torch.arange(10)), table(torch.arange(10)))
    with pytest.raises(IndexError):
        small.train()(torch.tensor([2, 3]))


def test_state_dicts_hold_the_whole_table() -> None:
    from transformers import BertConfig

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    encoder, other = (Encoder(BertConfig(vocab_size=12, **sizes)) for _ in range(2))
    whole = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    compact(encoder, torch.tensor([0, 7]).numpy())
    encoder.load_state_dict(whole)
    assert torch.equal(encoder.word.weight, whole["word.weight"][[0, 7]])
    with torch.no_grad():
        encoder.word.weight.add_(1)
    whole["word.weight"][[0, 7]] += 1
    assert all(torch.equal(encoder.state_dict()[name], tensor) for name, tensor in whole.items())
    with pytest.raises(RuntimeError, match=r"word\.weight"):
        encoder.load_state_dict(whole | {"word.weight": whole["word.weight"][:5]})
