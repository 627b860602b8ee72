"""An exported checkpoint gives the embeddings that `encode` gives; how it is read back, and its model card."""

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from transformers import AutoModel, AutoTokenizer

from cse_train import methods
from cse_train.checkpoint import LoadedRun, load_model, read_best
from cse_train.config import RunConfig, TrainConfig
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.pooling import POOLERS
from cse_train.evaluate.models import ExportedModel, open_model
from cse_train.export.agreement import LIBRARY, Agreement, ExportChanged
from cse_train.export.card import write_card
from cse_train.export.export import export
from cse_train.export.folders import parts_of
from cse_train.fields import ConfigError
from cse_train.methods.base import Method
from cse_train.results import Lineage
from cse_train.text import generated

ODD = ["A short one.", "Rain", "x" * 9, "", "the same word " * 40]
TEXTS = [*ODD, *generated.sentences(45, seed=2)]
BATCHNORM = {"pooler": "cls", "projector": "batchnorm"}
METHODS = [
    ("simcse", "bert", BATCHNORM),
    ("esimcse", "bert", {"pooler": "cls"}),
    ("diffcse", "bert", BATCHNORM),
    ("declutr", "bert", {"pooler": "first_last"}),
    ("sbert", "bert", {"pooler": "mean"}),
    ("cmlm", "roberta", {"pooler": "mean"}),
    ("dcpcse", "bert", {"pooler": "cls", "prompt_length": 5}),
    ("dcpcse", "roberta", {"pooler": "mean", "prompt_length": 5, "position_shift": False}),
    ("d2cse", "roberta", {"pooler": "first_last_layer1", "cls_prompt": True}),
    ("ct", "bert", {}),
    ("mirrorbert", "roberta", {"pooler": "cls_no_mlp"}),
    ("sgopt", "bert", {}),
]
CASES = [
    *(("simcse", "bert", {"pooler": pooler}) for pooler in POOLERS),
    *(("simcse", "roberta", {"pooler": pooler}) for pooler in ("cls", "first_last")),
    *(("simcse", "distilbert", {"pooler": pooler}) for pooler in ("cls", "first_last")),
    *(("simcse", encoder, {"pooler": pooler}) for encoder in ("gpt2", "qwen3") for pooler in ("last", "mean")),
    *METHODS,
    *(("d2cse", "bert", {"pooler": pooler, "cls_prompt": pooler != "mean"}) for pooler in POOLERS),
]


def named(case: object) -> str:
    return "-".join(map(str, case.values())) if isinstance(case, dict) else str(case)


def room(method: str, options: dict, positions: int = 64) -> int:
    """Tokens that fit: prompts that shift positions take some of them."""
    taken = options.get("prompt_length", 16) if method in ("dcpcse", "d2cse") else 0
    return positions - taken * options.get("position_shift", True)


def ours(model, folder: Path, texts: list[str], max_length: int) -> np.ndarray:
    tokenizer = load_backbone(str(folder)).tokenizer
    ids = tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]
    with torch.inference_mode():
        return torch.cat([model.encode(pack_lists(ids[at : at + 50])) for at in range(0, len(ids), 50)]).numpy()


@pytest.mark.parametrize(("method", "encoder", "options"), CASES, ids=named)
def test_sentence_transformers_gives_our_embeddings(checkpoint, random_encoder, tmp_path, method, encoder, options):
    library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    best, model = checkpoint(method, encoder, **options)
    agreement = export(best, tmp_path / "out")
    loaded = library.SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=True)
    expected = ours(model, random_encoder(encoder), TEXTS, room(method, options))
    np.testing.assert_allclose(loaded.encode(TEXTS, batch_size=8), expected, atol=1e-5, rtol=0)
    assert loaded.max_seq_length == room(method, options)
    assert loaded.similarity_fn_name == "cosine"
    assert agreement.largest < 1e-5 and abs(agreement.checkpoint_score - agreement.folder_score) < 1e-3
    assert agreement.library.startswith("sentence-transformers ")


@pytest.mark.slow
@pytest.mark.parametrize(("method", "encoder", "options"), CASES, ids=named)
def test_a_thousand_sentences(checkpoint, data_dir, tmp_path, method, encoder, options):
    """Real sentences through the shipped encoder."""
    import gzip
    from itertools import islice

    library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    if encoder != "bert":
        pytest.skip("the shipped encoders are BERTs")
    with gzip.open(data_dir / "wiki" / "wiki_sentences.txt.gz", "rt", encoding="utf8") as lines:
        texts = [line.strip() for line in islice(lines, 1000)]
    best, model = checkpoint(method, "words-l2-h128", **options)
    export(best, tmp_path / "out")
    loaded = library.SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=True)
    expected = ours(model, Path("words-l2-h128"), texts, 64)
    largest = np.abs(loaded.encode(texts, batch_size=64, show_progress_bar=False) - expected).max()
    print(f"{method} {options}: largest difference over {len(texts)} sentences {largest:.1e}")
    assert len(texts) == 1000 and largest < 1e-5


def embed(folder: Path):
    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        batch = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, truncation=True, return_tensors="pt")
        return model(**batch)


@pytest.mark.parametrize("encoder", ["bert", "roberta"])
def test_hf_keeps_the_mlp_as_pooler(checkpoint, random_encoder, tmp_path, encoder):
    best, model = checkpoint("simcse", encoder, pooler="cls")
    agreement = export(best, tmp_path / "out", "hf")
    _, report = AutoModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    expected = ours(model, random_encoder(encoder), TEXTS, 64)
    np.testing.assert_allclose(embed(tmp_path / "out").pooler_output, expected, atol=1e-5, rtol=0)
    assert agreement.library.startswith("transformers ") and agreement.largest < 1e-5


@pytest.mark.parametrize("encoder", ["bert", "roberta", "distilbert"])
def test_hf_without_mlp(checkpoint, random_encoder, tmp_path, encoder):
    best, model = checkpoint("simcse", encoder, pooler="cls_train_only")
    export(best, tmp_path / "out", "hf")
    found = embed(tmp_path / "out").last_hidden_state[:, 0]
    np.testing.assert_allclose(found, ours(model, random_encoder(encoder), TEXTS, 64), atol=1e-5, rtol=0)
    assert not (tmp_path / "out" / "modules.json").exists()


@pytest.mark.parametrize(
    ("method", "encoder", "options", "why"),
    [
        ("dcpcse", "bert", {}, "method=dcpcse: no model of transformers reads its prompts"),
        ("d2cse", "bert", {}, "method=d2cse: no model of transformers reads its prompts"),
        ("diffcse", "bert", BATCHNORM, "method=diffcse, method.pooler=cls: no model of transformers has its BatchNorm"),
        ("simcse", "distilbert", {"pooler": "cls"}, "method=simcse, method.pooler=cls: a distilbert has no layer"),
    ],
)
def test_hf_refuses_what_it_would_lose(checkpoint, tmp_path, method, encoder, options, why):
    best, _ = checkpoint(method, encoder, **options)
    with pytest.raises(ConfigError, match=f"^not exportable: format=hf, {why}.*; use --format sentence-transformers$"):
        export(best, tmp_path / "out", "hf")
    assert not (tmp_path / "out").exists()


def test_an_export_is_a_backbone_again(checkpoint, random_encoder, tmp_path):
    best, model = checkpoint("simcse", "bert", pooler="cls_no_mlp")
    export(best, tmp_path / "out", "hf")
    backbone = load_backbone(str(tmp_path / "out"))
    ids = backbone.tokenizer(TEXTS, truncation=True, max_length=64)["input_ids"]
    found = backbone.encoder.eval()(pack_lists(ids)).cls_VNH[0].detach()
    np.testing.assert_allclose(found, ours(model, random_encoder("bert"), TEXTS, 64), atol=1e-6, rtol=0)


def test_bad_input_is_one_line_and_leaves_nothing(checkpoint, tmp_path, monkeypatch):
    best, _ = checkpoint("simcse", "bert", pooler="mean")
    with pytest.raises(ConfigError, match=r"^unknown format: format=hg; did you mean hf\?$"):
        export(best, tmp_path / "out", "hg")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    with pytest.raises(ConfigError, match=r"^folder not empty: to="):
        export(best, tmp_path / "full")
    monkeypatch.setattr("cse_train.export.export.write_modules", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="disk full"):
        export(best, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_embeds_otherwise_is_not_kept(checkpoint, tmp_path, monkeypatch):
    """A forgotten layer average: every file is well formed, and the model is another."""
    best, _ = checkpoint("simcse", "bert", pooler="first_last")
    monkeypatch.setattr("cse_train.export.folders.LAYERS_READ", {})
    with pytest.raises(ExportChanged, match=r"^export changed the model: generated_dev:20: checkpoint "):
        export(best, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_method_with_more_than_encoder_and_pooler_is_refused(checkpoint, tmp_path, monkeypatch):
    best, _ = checkpoint("simcse", "bert", pooler="mean")
    run = RunConfig(method="simcse", train=TrainConfig(), options=methods.config_class("simcse")())
    odd = LoadedRun(dataclasses.replace(run, method="odd"), Method(), None)
    monkeypatch.setattr("cse_train.export.export.load_model", lambda *_, **__: odd)
    with pytest.raises(ConfigError, match=r"^not exportable: method=odd"):
        export(best, tmp_path / "out")


@pytest.mark.parametrize("method", ["consert", "isbert"])
def test_a_pooling_that_no_library_has_is_refused(checkpoint, tmp_path, method):
    """The mean of two layers' tokens, and convolutions under the mean."""
    best, _ = checkpoint(method)
    more = "is more than an encoder, a pooler and a linear map"
    line = f"^not exportable: method={method} {more}; use cse eval or cse embed$"
    with pytest.raises(ConfigError, match=line):
        export(best, tmp_path / "out")


SAME = {
    "library": "transformers 5",
    "checkpoint_score": 70.0,
    "folder_score": 70.0,
    "texts": 9,
    "largest": 1e-6,
    "scale": 1.0,
}


def test_both_numbers_are_said(checkpoint, tmp_path) -> None:
    best, _ = checkpoint(pooler="mean")
    agreement = export(best, tmp_path / "out", "hf")
    (line,) = agreement.lines()
    assert line.startswith(
        f"generated_dev:20: checkpoint {agreement.checkpoint_score:.4f}, reloaded with transformers 5."
    )
    assert f"{agreement.folder_score:.4f} (embeddings of {agreement.texts} texts differ by" in line


def test_an_absent_dev_set_is_replaced_and_named(checkpoint, tmp_path) -> None:
    best, _ = checkpoint(pooler="mean", dev="sts_dev")
    agreement = export(best, tmp_path / "out", "hf", paths=DataPaths())
    assert (agreement.suite, agreement.dev_set) == ("generated_dev:200", "sts_dev")
    assert agreement.lines()[1].startswith("sts_dev selected the checkpoint, but its files are not here: give --data")


def test_the_dev_set_that_selected_is_scored(checkpoint, tmp_path, data_dir) -> None:
    best, _ = checkpoint(pooler="mean", dev="sts_dev")
    agreement = export(best, tmp_path / "out", "hf", paths=DataPaths.from_folder(data_dir))
    assert agreement.suite == agreement.dev_set == "sts_dev" and agreement.texts > 2500
    assert abs(agreement.checkpoint_score - agreement.folder_score) <= 1e-3


@pytest.mark.parametrize(
    ("suite", "changes", "agrees"),
    [
        ("sts_dev", {"folder_score": 70.0009}, True),
        ("sts_dev", {"folder_score": 70.0011}, False),
        ("generated_dev:200", {"folder_score": 70.2}, True),
        ("generated_dev:200", {"largest": 2e-4}, False),
        ("generated_dev:200", {"largest": 2e-4, "scale": 4.0}, True),
    ],
)
def test_how_far_apart_is_too_far(suite, changes, agrees) -> None:
    """Scores decide where the dev set is here, else embeddings: a score of 200 made-up pairs is coarse."""
    agreement = Agreement(suite=suite, dev_set="sts_dev", **(SAME | changes))
    if agrees:
        return agreement.require()
    with pytest.raises(ExportChanged, match="^export changed the model: "):
        agreement.require()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("simcse", {"pooler": "cls"}),
        ("simcse", {"pooler": "first_last"}),
        ("d2cse", {"pooler": "cls", "cls_prompt": True}),
        ("dcpcse", {"pooler": "first_last_layer1"}),
    ],
)
def test_without_sentence_transformers_its_layout_is_read_by_transformers(
    checkpoint, tmp_path, monkeypatch, method, options
) -> None:
    """It opens with the library's limit, pooler and hash, and embeds as the checkpoint does."""
    there = importlib.util.find_spec

    def without(name: str, package: str | None = None):
        return None if name == LIBRARY else there(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    best, _ = checkpoint(method, **options)
    agreement = export(best, tmp_path / "out")
    assert agreement.library.startswith("transformers ") and agreement.largest < 1e-5
    theirs = open_model(tmp_path / "out")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    ours, texts = open_model(tmp_path / "out"), ["a b c", "", "a b c", "d e f g h"]
    assert isinstance(ours, ExportedModel)
    about = [(model.pooler, model.max_length, model.content_hash) for model in (ours, theirs)]
    assert about[0] == about[1]
    for max_length in (None, 4):
        expected, made = (open_model(path, max_length=max_length).embed(texts) for path in (best, tmp_path / "out"))
        np.testing.assert_allclose(made, expected, atol=1e-5)
    module = tmp_path / "out" / "prompted_transformer.py"
    if module.exists():
        module.write_text(module.read_text() + "\n")
        with pytest.raises(ConfigError, match="^not installed: "):
            open_model(tmp_path / "out")


LINEAGE = Lineage(
    signature="0123456789abcdef01234567",
    sweeps=("mine", "E7"),
    cell={"method.temperature": 0.05},
    seeds={0: 70.0, 1: 72.0, 2: None},
    hashes={"corpus": "c0ffee", "dev": "decade"},
    provenance={"commit": "abc123+", "versions": {"torch": "2.13.0", "ray": "2.60.0"}},
    scores=[("sts_test", 71.239, {"suite": "sts_test", "pooler": "cls", "rule": "", "data_hash": "beef"})],
)


@pytest.fixture
def card(checkpoint, tmp_path: Path):
    """(form, lineage, what `checkpoint` takes) -> the card's text."""

    def make(form: str, lineage: Lineage, *args: str, **options: object) -> str:
        best, _ = checkpoint(*args, **options)
        write_card(parts_of(load_model(best), read_best(best)[1]), form, lineage, tmp_path)
        return (tmp_path / "README.md").read_text(encoding="utf8")

    return make


def test_the_front_matter_is_what_the_hub_reads(card, tmp_path) -> None:
    text = card("sentence-transformers", Lineage(), pooler="mean")
    matter = yaml.safe_load(text.split("---")[1])
    assert matter["library_name"] == "sentence-transformers" and "license" not in matter
    assert {"sentence-similarity", "simcse"} <= set(matter["tags"])
    assert ModelCard.load(tmp_path / "README.md").data.library_name == "sentence-transformers"


def test_a_run_of_a_ledger_tells_its_lineage(card) -> None:
    text = card("hf", LINEAGE, pooler="mean")
    for row in (
        "| sweep | mine, E7 |",
        "| cell | method.temperature=0.05 |",
        "| run signature | 0123456789abcdef01234567 |",
        "| seed | 0 |",
        "| commit | abc123+ |",
        "| torch | 2.13.0 |",
        "| selected on | generated_dev:20, split dev |",
        "| best | 12.35 after 640 examples |",
        "| seeds of the same setting | 0: 70.00, 1: 72.00; mean 71.00 |",
        "| sts_test | 71.24 | pooler cls, data_hash beef |",
        "| corpus | c0ffee |",
    ):
        assert row in text
    assert "ray" not in text.split("## Settings")[0]


def test_a_run_outside_a_ledger_tells_what_its_header_knows(card) -> None:
    text = card("sentence-transformers", Lineage(), pooler="mean")
    assert "| generated_dev:20 | 12.35 | pooler mean, split dev, max_length 64" in text
    assert "sweep" not in text and "Content hashes" not in text


def test_settings_name_no_folder_of_this_computer(card, random_encoder) -> None:
    text = card("hf", Lineage(), pooler="mean")
    settings = json.loads(text.split("```json")[1].split("```")[0])
    assert settings["train.encoder"] == "bert" and settings["method.pooler"] == "mean"
    assert str(random_encoder("bert").parent) not in text


@pytest.mark.parametrize(
    ("form", "method", "options", "says"),
    [
        ("sentence-transformers", "simcse", {"pooler": "cls"}, 'SentenceTransformer("PATH_OR_NAME")'),
        ("sentence-transformers", "d2cse", {}, 'SentenceTransformer("PATH_OR_NAME", trust_remote_code=True)'),
        ("hf", "simcse", {"pooler": "cls"}, "embeddings = out.pooler_output"),
        ("hf", "simcse", {"pooler": "first_last"}, "(out.hidden_states[0] + out.last_hidden_state) / 2"),
    ],
)
def test_it_says_how_to_load(card, form, method, options, says) -> None:
    assert says in card(form, Lineage(), method, **options)


@pytest.mark.parametrize("pooler", ["cls", "cls_no_mlp", "mean", "first_last", "first_last_layer1"])
def test_the_code_for_transformers_gives_our_embeddings(checkpoint, tmp_path, pooler) -> None:
    """The card's own lines, run as they stand."""
    import numpy as np
    import torch

    best, model = checkpoint(pooler=pooler)
    export(best, tmp_path / "out", "hf")
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf8")
    code = text.split("```python")[1].split("```")[0].replace("PATH_OR_NAME", str(tmp_path / "out"))
    names: dict = {}
    exec(code, names)
    ids = names["tokenizer"](["A sentence.", "Another one."])["input_ids"]
    with torch.inference_mode():
        expected = model.encode(pack_lists(ids)).numpy()
    np.testing.assert_allclose(names["embeddings"].detach().numpy(), expected, atol=1e-5, rtol=0)
