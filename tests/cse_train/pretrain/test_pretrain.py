"""Pretraining end to end on a small text: resume, the folder it leaves, and what is refused."""

import gzip
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from cse.cli.app import main
from cse_train import fields, numerics
from cse_train.backbone.backbone import load_backbone
from cse_train.backbone.folders import find_weights
from cse_train.backbone.identity import load_tokenizer
from cse_train.data_paths import DataPaths
from cse_train.encoder.packing import pack_lists
from cse_train.evaluate.pairs import load_pairs
from cse_train.fields import ConfigError
from cse_train.numerics import Diverged
from cse_train.pretrain import run
from cse_train.pretrain.config import PretrainConfig
from cse_train.pretrain.pretrain import pretrain
from cse_train.text.corpora.generated import sentences as generated_sentences
from tests.cse_train.pretrain.small import SMALL, Stopped


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "sentences.txt.gz"
    with gzip.open(path, "wt", encoding="utf8") as out:
        out.write("\n".join(generated_sentences(400, 0)) + "\n")
    return path


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory) -> Path:
    """An undisturbed run, without dev scores."""
    return pretrain(SMALL, text, tmp_path_factory.mktemp("whole"), every=3000)


def test_resume_is_exact_and_dev_scores_disturb_nothing(text, whole, tmp_path):
    dev = load_pairs("generated_dev:40", DataPaths())

    def stop_after_two(point: dict) -> None:
        if point["tokens"] > 6000:
            raise Stopped

    with pytest.raises(Stopped):
        pretrain(SMALL, text, tmp_path, dev=dev, every=3000, progress=stop_after_two)
    torch.manual_seed(99)
    points: list[dict] = []
    pretrain(SMALL, text, tmp_path, dev=dev, every=3000, progress=points.append)
    assert len(points) == 1
    assert (tmp_path / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    first, second = (torch.load(folder / "state.pt", weights_only=True) for folder in (whole, tmp_path))
    assert [point["loss"] for point in first["log"]] == [point["loss"] for point in second["log"]]
    assert all(torch.equal(first["model"][name], second["model"][name]) for name in first["model"])
    curve = json.loads((tmp_path / "card.json").read_text())["sts_dev_against_tokens"]
    assert len(curve) == 3 and curve[0].keys() == {"tokens", "cls_no_mlp", "mean", "first_last"}
    assert (
        f"| 0 | {' | '.join(f'{value:.2f}' for value in list(curve[0].values())[1:])} |"
        in (tmp_path / "README.md").read_text()
    )


def test_the_folder_holds_the_model_in_fp16_and_its_card(whole):
    backbone = load_backbone(str(whole))
    state = torch.load(whole / "state.pt", weights_only=True)["model"]
    for name, tensor in backbone.encoder.state_dict().items():
        assert torch.equal(tensor, state[f"encoder.{name}"].half().float()), name
    assert torch.equal(backbone.head.transform.weight, state["head.transform.weight"].half().float())
    assert backbone.encoder(pack_lists([[2, 9, 3]])).cls_VNH.shape == (1, 1, 16)
    card = json.loads((whole / "card.json").read_text())
    assert card["recipe"]["tokens"] == 9000 <= card["tokens"] < 9000 + 2 * 96 * 16
    assert card["tokenizer_hash"] == backbone.tokenizer_hash
    assert card["held_out"]["loss"] < np.log(8192)
    assert "| single sentences |" in (whole / "README.md").read_text()


def test_training_lowers_the_loss(whole):
    losses = [point["loss"] for point in torch.load(whole / "state.pt", weights_only=True)["log"]]
    assert losses[-1] < losses[0] - 0.3


def test_another_recipe_is_refused_but_another_total_goes_on(text, whole, tmp_path):
    (tmp_path / "state.pt").write_bytes((whole / "state.pt").read_bytes())
    changed = PretrainConfig(**{**vars(SMALL), "seed": 1, "dropout": 0.2})
    with pytest.raises(ConfigError, match=r"another recipe: dropout=0.2 \(was 0.1\), seed=1 \(was 0\)"):
        pretrain(changed, text, tmp_path)
    pretrain(PretrainConfig(**{**vars(SMALL), "tokens": 10_000}), text, tmp_path)
    assert torch.load(tmp_path / "state.pt", weights_only=True)["tokens"] >= 10_000


def test_the_card_names_the_precision_of_every_part(text, whole, tmp_path, monkeypatch):
    state = torch.load(whole / "state.pt", weights_only=True)
    state["log"] = [{k: v for k, v in point.items() if k != "precision"} for point in state["log"]]
    torch.save(state, tmp_path / "state.pt")
    monkeypatch.setattr(numerics, "multiplies_bf16", lambda: False)
    monkeypatch.setattr(run, "multiplies_bf16", lambda: False)
    pretrain(PretrainConfig(**{**vars(SMALL), "tokens": 10_000}), text, tmp_path)
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["precision"]["training"] == "bf16 autocast, fp32 weights, then fp32"
    assert card["training_loss"][-1]["precision"] == "fp32"


@pytest.mark.parametrize(
    ("source", "changes", "line"),
    [
        ("/nowhere.txt", {}, "missing data: text=/nowhere.txt"),
        ("{text}", {"dropout": 1.5}, "out of range: dropout=1.5; give float >= 0 and < 1"),
        ("{text}", {"held_out": 395}, "too little text: held_out=395 of 400 sentences"),
    ],
)
def test_the_users_mistakes_are_one_line(text, tmp_path, source, changes, line):
    with pytest.raises(ConfigError) as error:
        pretrain(fields.make(PretrainConfig, changes), Path(source.replace("{text}", str(text))), tmp_path / "out")
    assert str(error.value).startswith(line)
    assert not (tmp_path / "out" / "model.safetensors").exists()


@pytest.mark.parametrize(("rate", "loss"), [(1e4, "nan"), (1.0, r"\d+\.?\d*")])
def test_a_run_that_diverges_ends_in_one_line_and_writes_no_model(
    text, tmp_path, monkeypatch, capsys, rate, loss
) -> None:
    """At a rate of 1e4 all tensors were NaN, at 1 the loss was 33: `wrote ...; use it` and exit code 0."""
    settings = {**vars(SMALL), "learning_rate": rate, "tokens": 4000}
    given = [f"--set={name}={value}" for name, value in settings.items() if value != vars(PretrainConfig())[name]]
    code = main(["pretrain", "--to", str(tmp_path / "out"), "--train-file", str(text), *given])
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert code == 1
    assert re.fullmatch(rf"cse: loss is {loss} after \d+ tokens, guessing has 9.01; lower learning_rate", line), line
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"tokenizer.json", "tokenizer_config.json"}


def test_a_state_that_had_diverged_before_gives_no_model(text, whole, tmp_path):
    state = torch.load(whole / "state.pt", weights_only=True)
    state["model"] = {name: tensor * math.nan for name, tensor in state["model"].items()}
    torch.save(state, tmp_path / "state.pt")
    with pytest.raises(Diverged, match=r"^loss is nan on the held-out text, guessing has 9.01; lower learning_rate$"):
        pretrain(SMALL, text, tmp_path)
    assert not (tmp_path / "model.safetensors").exists() and not (tmp_path / "card.json").exists()


def test_a_weight_that_fp16_does_not_hold_is_written_to_no_file(text, whole, tmp_path):
    state = torch.load(whole / "state.pt", weights_only=True)
    state["model"]["encoder.word.weight"][:, 0] = 1e5
    torch.save(state, tmp_path / "state.pt")
    with pytest.raises(Diverged, match=r"^weights too large: .*; lower learning_rate$"):
        pretrain(SMALL, text, tmp_path)
    assert not (tmp_path / "model.safetensors").exists() and not (tmp_path / "card.json").exists()


def test_steps_without_a_masked_token_are_left_out_of_the_loss(text, tmp_path):
    few = {**vars(SMALL), "tokens": 4000, "batch_sentences": 2, "long_share": 0.0, "mask_ratio": 0.02}
    folder = pretrain(PretrainConfig(**{**few, "cls_task": "next_sentence"}), text, tmp_path / "few")
    (point,) = json.loads((folder / "card.json").read_text(), parse_constant=pytest.fail)["training_loss"]
    assert 8 < point["loss"] < 11
    none = PretrainConfig(**{**few, "tokens": 200, "mask_ratio": 1e-9})
    with pytest.raises(ConfigError, match=r"^nothing masked: mask_ratio=1e-09; raise it, or give longer sentences$"):
        pretrain(none, text, tmp_path / "none")


def test_the_readme_says_what_the_text_was_and_no_licence(whole):
    told = (whole / "README.md").read_text()
    assert "(0 M tokens of sentences.txt.gz, " in told
    assert "Wikipedia" not in told and "CC BY" not in told


def test_a_state_that_cannot_be_read_is_refused(text, tmp_path):
    (tmp_path / "state.pt").write_bytes(text.read_bytes())
    with pytest.raises(ConfigError, match=r"^unreadable state: "):
        pretrain(SMALL, text, tmp_path)


def test_a_state_of_a_card_is_refused_on_a_cpu(text, whole, tmp_path):
    state = torch.load(whole / "state.pt", weights_only=True)
    state["torch_rng"] = torch.zeros(16, dtype=torch.uint8)  # a CUDA generator's seed and offset
    torch.save(state, tmp_path / "state.pt")
    with pytest.raises(ConfigError) as error:
        pretrain(PretrainConfig(**{**vars(SMALL), "tokens": 10_000}), text, tmp_path)
    line = "another device: device=cpu, and the state was begun on another kind; go on there, or choose another folder"
    assert error.value.problems == [line]


def test_a_finished_run_is_written_again_to_the_byte(text, whole, tmp_path):
    again = tmp_path / whole.name
    again.mkdir()
    (again / "state.pt").write_bytes((whole / "state.pt").read_bytes())
    pretrain(SMALL, text, again)
    for file in ("model.safetensors", "card.json", "config.json", "README.md"):
        assert (again / file).read_bytes() == (whole / file).read_bytes(), file


def test_the_shipped_vocabulary():
    tokenizer = load_tokenizer(find_weights() / "tokenizer")
    assert len(tokenizer) == 8192
    assert tokenizer.convert_ids_to_tokens(list(range(5))) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(tokenizer("Encyclopedias describe Paris.")["input_ids"]) < 12
