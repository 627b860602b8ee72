"""The model card: the hub reads its front matter, and every number is the header's or the ledger's."""

import json
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard

from cse_train.checkpoint import load_model, read_best
from cse_train.encoder.packing import pack_lists
from cse_train.export.card import write_card
from cse_train.export.export import export
from cse_train.export.folders import parts_of
from cse_train.results import Lineage

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
