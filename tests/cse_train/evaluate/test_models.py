"""Every kind of folder behind `open_model`, static vectors and encoders of others included, and what is none."""

import hashlib
import importlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from cse_train import checkpoint, methods
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.identity import backbone_identity
from cse_train.evaluate import baselines
from cse_train.evaluate.embedding import NotFinite
from cse_train.evaluate.models import open_model
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.evaluate.vectors import MAX_LENGTH, sts_protocol
from cse_train.export.export import export
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method
from cse_train.text.generated import sentences
from tests.commands import printed
from tests.cse_train.encoders import CAUSAL, Make, maker, tokenizer_of
from tests.cse_train.zoo.pieces import make_tokenizer

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
    with pytest.raises(ConfigError, match=r"^untrained pooler: pooler=cls of words-l1-h64: no pooler in the weights"):
        open_model(Path("words-l1-h64"), pooler="cls")
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


OTHER_TEXTS = ["the river", "old stone bridge in the town", "winter music of the garden light 7", "glass"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return maker(tmp_path_factory.mktemp("encoders"))


def last_states(folder: Path) -> np.ndarray:
    """transformers' own last layer at the end of each text, text by text."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return np.stack(
            [model(**tokenizer(t, return_tensors="pt")).last_hidden_state[0, -1].numpy() for t in OTHER_TEXTS]
        )


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", [*CAUSAL, "bert"])
def test_last_is_the_last_attended_token_whichever_side_is_padded(made, kind, side):
    folder = made(kind, tokenizer_of("[CLS]" if kind == "bert" else None, "[SEP]", padding_side=side))
    np.testing.assert_allclose(open_model(folder, pooler="last").embed(OTHER_TEXTS), last_states(folder), atol=1e-5)


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
        open_model(tmp_path / "run", pooler="last").embed(OTHER_TEXTS), last_states(Path(run.train.encoder)), atol=1e-5
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
    np.testing.assert_allclose(opened.embed(OTHER_TEXTS), last_states(folder), atol=1e-5)


library: Any = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
STATIC_TEXTS = ["the old bridge", "winter music in the garden near the river 5", "glass", "", "漢 glass"]
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


def plain_static(text: str, most: int = MAX_LENGTH) -> np.ndarray:
    """The mean of the folded vectors of a text's own tokens; zeros without one."""
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"][:most]
    vector: np.ndarray = FOLDED_VD[ids].mean(axis=0) if ids else np.zeros(WIDTH)
    return vector


@pytest.mark.parametrize("way", WAYS)
def test_vectors_are_those_of_the_library_and_of_plain_code(way: str, tmp_path: Path) -> None:
    WAYS[way](tmp_path / "static")
    model = open_model(tmp_path / "static")
    ours, expected = model.embed(STATIC_TEXTS), np.stack([plain_static(text) for text in STATIC_TEXTS])
    if "unit" in way:
        expected /= np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(ours, expected, atol=1e-6)
    if (tmp_path / "static" / "modules.json").is_file():
        theirs = library.SentenceTransformer(str(tmp_path / "static")).encode(STATIC_TEXTS)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert model.pooler == "sentence-transformers: StaticEmbedding"


def test_a_length_is_kept_and_stands_in_the_protocol(tmp_path: Path) -> None:
    write_library(tmp_path / "static")
    long = "winter music in the garden " * 200
    for asked, kept in ((None, MAX_LENGTH), (3, 3)):
        model = open_model(tmp_path / "static", max_length=asked)
        assert model.max_length == kept
        np.testing.assert_allclose(model.embed([long])[0], plain_static(long, kept), atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_they_are_no_encoder_to_train(way: str, tmp_path: Path) -> None:
    WAYS[way](tmp_path / "static")
    for read in (load_backbone, backbone_identity):
        with pytest.raises(ConfigError) as caught:
            read(str(tmp_path / "static"))
        line = f"static vectors: train.encoder={tmp_path}/static has no layers to train; cse eval scores it"
        assert caught.value.problems == [f"{line}; choose a transformer, or train it by a `trainer:` of yours"]


GLOVE = "the 1 0 0.5\n. . . 0 2 -1e-1\nRiver 3 3 3\nriver 0 4 1\nname@domain.com 1 1 1\nat name@domain.com 9 9 9\n"


def file_of(folder: Path, text: str, name: str = "glove.txt") -> Path:
    (folder / name).write_text(text, encoding="utf8")
    return folder / name


def test_the_mean_of_the_known_words_by_hand(tmp_path: Path) -> None:
    model = open_model(file_of(tmp_path, GLOVE))
    found = model.embed(["the river", "the River", "THE river unknown river", "nothing known", "", "the river"])
    wanted = [[0.5, 2, 0.75], [2, 1.5, 1.75], [1 / 3, 8 / 3, 2.5 / 3], [0, 0, 0], [0, 0, 0], [0.5, 2, 0.75]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert found.dtype == np.float32


def test_a_word_with_blanks_is_a_word_and_its_parts_are_not(tmp_path: Path) -> None:
    model = open_model(file_of(tmp_path, GLOVE))
    assert set(model.places) == {b"the", b". . .", b"River", b"river", b"name@domain.com", b"at name@domain.com"}
    assert model.embed([". . .", "at name@domain.com"]).tolist() == [[0, 0, 0], [1, 1, 1]]


def test_fasttext_s_first_line_is_no_word(tmp_path: Path) -> None:
    with_head = open_model(file_of(tmp_path, "2 3\nthe 1 0 0.5\nriver 0 4 1 \n", "crawl.vec"))
    without = open_model(file_of(tmp_path, GLOVE))
    assert set(with_head.places) == {b"the", b"river"}
    np.testing.assert_array_equal(with_head.embed(["the river 2"]), without.embed(["the river"]))


def test_the_file_s_hash_stands_in_the_protocol(tmp_path: Path) -> None:
    digest = hashlib.sha256(GLOVE.encode()).hexdigest()
    model = open_model(file_of(tmp_path, GLOVE))
    pairs = Pairs("sts_dev", ("a",), ("b",), np.array([1.0]), "hash")
    assert model.content_hash == digest
    assert sts_protocol(pairs, model).pooler == f"mean of glove.txt, sha256 {digest[:12]}"


def test_at_most_so_many_words(tmp_path: Path) -> None:
    model = open_model(file_of(tmp_path, GLOVE), max_length=1)
    assert model.max_length == 1 and model.embed(["the river"]).tolist() == [[1, 0, 0.5]]


def test_equals_a_dictionary_on_many_texts(tmp_path: Path) -> None:
    texts = sentences(60, seed=3)
    words = sorted({word.lower() for text in texts for word in text.split()})[::2]
    table = {word: np.random.default_rng(at).normal(size=5).round(6) for at, word in enumerate(words)}
    lines = [f"{word} {' '.join(map(str, vector))}" for word, vector in table.items()]
    model = open_model(file_of(tmp_path, f"{len(table)} 5\n" + "\n".join(lines), "made.vec"))
    for text, found in zip(texts, model.embed(texts), strict=True):
        known = [table[word.lower()] for word in text.split() if word.lower() in table]
        np.testing.assert_allclose(found, np.mean(known, axis=0) if known else np.zeros(5), atol=1e-5)


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        (
            "a 1 2\nb 1\n",
            "g.txt",
            r"^wrong vector: .*g.txt, line 2 has 1 values, the file 2; correct or fetch it again$",
        ),
        ("a 1 2\nb 1 2 3\n", "g.txt", r"^wrong vector: .*g.txt, line 2 has 3 values, the file 2"),
        ("2 3\na 1 2 3\nb 1 2\n", "g.vec", r"^wrong vector: .*g.vec, line 3 has 2 values, the file 3"),
        ("a 1 2\n\nb 1 2\n", "g.txt", r"^wrong vector: .*g.txt, line 2 has 0 values, the file 2"),
        ("3 2\na 1 2\nb 1 2\n", "g.vec", r"^truncated data: .*g.vec: 3 words expected, 2 found; fetch it again$"),
        ("", "g.txt", r"^no word: .*g.txt is empty; fetch the file again$"),
        (GLOVE, "glove.zip", r"^not word vectors: model=.*glove.zip; give a text file of .txt or .vec, .* unpacked$"),
    ],
)
def test_a_broken_file_is_one_line(text: str, name: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=line):
        open_model(file_of(tmp_path, text, name))


def test_what_is_no_number_is_one_line_with_its_number(tmp_path: Path) -> None:
    model = open_model(file_of(tmp_path, "the 1 2\nriver 1 two\nstone nan 1\n"))
    assert model.embed(["the"]).tolist() == [[1, 2]]
    with pytest.raises(ConfigError, match=r"^not a number: .*glove.txt, line 2 \(river\): .*two.*; correct the line"):
        model.embed(["the river"])
    with pytest.raises(ConfigError, match=r"^not finite: .*glove.txt, line 3; correct the line$"):
        model.embed(["stone"])


def test_a_pooler_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no pooler: pooler=mean of the word vectors .*; leave the pooler out$"):
        open_model(file_of(tmp_path, GLOVE), pooler="mean")


def test_the_command_scores_a_file(tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = file_of(tmp_path, GLOVE)
    said = printed(capsys, "eval", str(file), "--suite", "sts_dev", "--data", str(data_dir))
    assert f"pooler mean of glove.txt, sha256 {hashlib.sha256(GLOVE.encode()).hexdigest()[:12]}" in said
