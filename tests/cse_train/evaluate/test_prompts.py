"""Prompts of a sentence-transformers folder stand where that library puts them; it is the oracle, to 1e-5."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.evaluate.models import open_model
from cse_train.evaluate.run_suites import evaluate
from cse_train.evaluate.suites.mteb import MtebEncoder, prompt_of
from cse_train.export.export import export
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method
from cse_train.text.corpora import add_prompt, open_source
from cse_train.training.loop import train
from search_spaces.identity.signature import identity, signature
from tests.cse_train.encoders import tokenizer_of, write_encoder

library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
TEXTS = ["the river", "old stone bridge in the town", "winter music of the garden light 7", "glass"]
PROMPTS = {"query": "town light ", "passage": "old road in the ", "STS": "house ", "Retrieval-query": "field "}


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes a folder of that library: architecture, pooling, default prompt, whether a mean counts the prompt."""

    def write(kind: str = "bert", pooling: str = "mean", default: str | None = None, averaged: bool = True) -> Path:
        modules = library.sentence_transformer.modules
        causal = kind != "bert"
        tokenizer = tokenizer_of(None if causal else "[CLS]", "[SEP]", padding_side="left" if causal else "right")
        transformer = modules.Transformer(str(write_encoder(tmp_path / "bare", kind, tokenizer)))
        pooled = modules.Pooling(32, pooling, include_prompt=averaged)
        model = library.SentenceTransformer(modules=[transformer, pooled], prompts=PROMPTS, default_prompt_name=default)
        model.save(str(tmp_path / "st"))
        return tmp_path / "st"

    return write


def run_of(encoder: Path, **settings: Any) -> Any:
    shared = {"train.corpus": "file", "train.dev": "generated_dev:40", "train.examples": 32, "train.batch_size": 8}
    flat = {"method": "simcse", "method.pooler": "mean", "train.encoder": str(encoder), "train.evaluations": 2}
    return parse_run({**flat, **shared, "train.dev_max_length": 64, **settings})


CASES = [
    ("bert", "mean", "query", False),
    ("qwen3", "lasttoken", "query", True),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            ("bert", "mean", "query", True),
            ("bert", "cls", "passage", True),
            ("qwen3", "mean", "query", False),
            ("bert", "mean", None, True),
        )
    ),
]


@pytest.mark.parametrize(("kind", "pooling", "default", "averaged"), CASES)
def test_an_untrained_run_embeds_as_the_library_does(folder, tmp_path, kind, pooling, default, averaged):
    """Through our own encoders; read as a folder of the library; and exported, read back by the library."""
    from cse_train.encoder.backbone import load_backbone

    given = folder(kind, pooling, default, averaged)
    expected = {name: library.SentenceTransformer(str(given)).encode(TEXTS, prompt_name=name) for name in PROMPTS}
    expected[None] = library.SentenceTransformer(str(given)).encode(TEXTS)
    expected["none"] = library.SentenceTransformer(str(given)).encode(TEXTS, prompt="")
    pooler = {"mean": "mean", "cls": "cls_no_mlp", "lasttoken": "last"}[pooling]
    for name, vectors in expected.items():
        opened = open_model(given, prompt=name)
        np.testing.assert_allclose(opened.embed(TEXTS), vectors, atol=1e-5)
        run = run_of(given, **{"method.pooler": pooler, "train.prompt": name})
        model = load_method("simcse").build(run.options, load_backbone(str(given), None, name))
        best = tmp_path / f"run-{name}"
        checkpoint.save_best(best, run, model, {})
        ours = open_model(best)
        np.testing.assert_allclose(ours.embed(TEXTS), vectors, atol=1e-5)
        assert ours.prompt == opened.prompt == PROMPTS.get(name or default or "", "")
        np.testing.assert_allclose(open_model(best, prompt="none").embed(TEXTS), expected["none"], atol=1e-5)
        export(best / "best", tmp_path / f"out-{name}")
        np.testing.assert_allclose(
            library.SentenceTransformer(str(tmp_path / f"out-{name}")).encode(TEXTS), vectors, atol=1e-5
        )
        if averaged:
            np.testing.assert_allclose(open_model(best).embed(TEXTS, PROMPTS["STS"]), expected["STS"], atol=1e-5)


def test_training_and_its_dev_score_read_the_prompt(folder, text_file, tmp_path):
    given, paths = folder(default="query"), DataPaths(train_file=text_file)
    source = add_prompt(open_source("file", paths), "town light ")
    assert all(row[0].startswith("town light ") for row in source.rows())
    values = {}
    for name in (None, "query", "none", "passage"):
        outcome = train(run_of(given, **{"train.prompt": name}), paths, tmp_path / str(name), lambda point: False)
        values[name] = [point.metrics for point in outcome.points]
    assert values[None] == values["query"], "the default is that prompt"
    assert values["query"] != values["none"] != values["passage"]
    (score,) = evaluate(open_model(tmp_path / "None"), paths, ["generated_dev:40"], {})
    assert score.protocol.prompt == "town light " and score.protocol.facts["prompt"] == "town light "
    assert score.value == pytest.approx(max(v["generated_dev:40"] for v in values[None]), abs=1e-6)


def test_a_label_has_no_prompt(labelled_file):
    rows = list(add_prompt(open_source("file", DataPaths(train_file=labelled_file)), "town ").rows())
    assert {row[2] for row in rows} <= {"entailment", "neutral", "contradiction"}
    assert all(text.startswith("town ") for row in rows for text in row[:2])


def test_a_prompt_is_part_of_the_signature_and_no_prompt_moves_none(folder, text_file):
    given, paths = folder(default="query"), DataPaths(train_file=text_file)

    def signed(encoder: Path, **settings: Any) -> str:
        run = run_of(encoder, **settings)
        return signature(run, identity(run, paths))

    file = given / "config_sentence_transformers.json"
    before = signed(given)
    assert identity(run_of(given), paths)["prompt"] == "town light "
    assert signed(given, **{"train.prompt": "none"}) != before
    file.write_text(file.read_text().replace("town light ", "town glass "))
    assert signed(given) != before, "another text under the same name"
    file.write_text(json.dumps({"prompts": {"query": ""}}))
    bare = signed(given)
    file.unlink()
    assert signed(given) == bare and "prompt" not in identity(run_of(given), paths)


def test_what_cannot_be_is_one_line(folder, text_file, tmp_path):
    given, paths = folder(default="query"), DataPaths(train_file=text_file)

    def line(**settings: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            train(run_of(given, **settings), paths, tmp_path / "run", lambda point: False)
        return str(caught.value)

    assert line(**{"train.prompt": "quer"}).startswith(
        f"unknown prompt: train.prompt=quer of train.encoder={given}; did"
    )
    assert line(**{"train.max_seq_length": 7}).startswith(
        "prompt fills the text: train.max_seq_length=7, train.prompt="
    )
    assert line(method="declutr").startswith("prompt of a document: train.prompt=query ")
    with pytest.raises(ConfigError, match=r"^unknown prompt: prompt=query of words-l1-h64; it has none; leave it out$"):
        open_model(Path("words-l1-h64"), pooler="mean", prompt="query")
    (given / "config_sentence_transformers.json").write_text("{")
    assert line().startswith("unreadable prompts: ")


def test_prompts_without_a_default_are_named(folder, text_file, tmp_path, caplog):
    train(run_of(folder()), DataPaths(train_file=text_file), tmp_path / "run", lambda point: False)
    assert "has Retrieval-query, STS, passage, query and no default; train.prompt=NAME takes one" in caplog.text


def test_a_task_of_mteb_takes_the_prompt_that_mteb_takes(folder):
    sts, search = (SimpleNamespace(name=f"Some{kind}", type=kind) for kind in ("STS", "Retrieval"))
    query, document = SimpleNamespace(value="query"), SimpleNamespace(value="document")
    given = folder(default="passage")
    theirs = library.SentenceTransformer(str(given))
    model = MtebEncoder.__new__(MtebEncoder)
    model._model = open_model(given)
    found = {
        ("sts", None): (sts, None, theirs.encode(TEXTS, prompt_name="STS")),
        ("search", None): (search, None, theirs.encode(TEXTS)),
        ("search", "query"): (search, query, theirs.encode_query(TEXTS, prompt_name="Retrieval-query")),
        ("search", "document"): (search, document, theirs.encode_document(TEXTS)),
    }
    for name, (task, kind, expected) in found.items():
        vectors = model.encode([{"text": TEXTS}], task_metadata=task, prompt_type=kind, hf_split="test", hf_subset="")
        np.testing.assert_allclose(vectors, expected, atol=1e-5, err_msg=str(name))
    other = SimpleNamespace(name="NFCorpus", type="Retrieval")
    assert (
        prompt_of({"query": "q"}, other, query) == "q"
        and prompt_of({"NFCorpus": "n", "query": "q"}, other, query) == "n"
    )
    assert prompt_of({"query": "q"}, other, None) is None
