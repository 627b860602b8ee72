"""`cse doctor --encoder` and a space's encoders: how each will be read, by what it really does."""

import json
from pathlib import Path

import pytest

from cse.cli.app import main
from cse.doctor.encoders import describe_encoder
from tests.commands import printed
from tests.cse_train.encoders import write_encoder
from tests.cse_train.zoo.kinds import write_kind
from tests.cse_train.zoo.pieces import LINES

SPACE = """version: 1
id: mine
method: simcse
seeds: 1
set: {train.encoder: %s, train.corpus: generated, train.dev: "generated_dev:16"}
space:
  method.pooler: {grid: [%s]}
"""


def lines_of(folder: Path, texts: list[str] | None = None) -> dict[str, str]:
    """First word of a line -> its level and the line."""
    found = describe_encoder(str(folder), texts or ())
    return {each.line.partition(":")[0]: f"{each.level} {each.line}" for each in found}


def test_our_own_encoder_is_told_with_its_ends_positions_rates_and_precision(tmp_path: Path) -> None:
    lines = lines_of(write_kind(tmp_path / "bert", "bert half"), LINES)
    assert lines["path"].startswith("fine path: our packed encoder")
    assert lines["precision"].startswith("fine precision: F16 in the files, fp32 in memory")
    assert "cls, cls_train_only" in lines["pooler"]
    assert "around a text [CLS] [SEP]; padding [PAD], mask [MASK]; 150 pieces" in lines["special tokens"]
    assert lines["positions"] == "fine positions: 64 tokens of a text"
    assert "hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1" in lines["dropout"]
    assert "0.00% of the tokens of 60 texts unknown" in lines["vocabulary"]


def test_a_causal_encoder_is_told_with_what_it_lacks(tmp_path: Path) -> None:
    lines = lines_of(write_kind(tmp_path / "gpt2", "gpt2"))
    assert lines["pooler"].startswith("note pooler: position 0 is no text's") and "mean, last" in lines["pooler"]
    assert lines["no token for padding alone"].startswith("note ") and "<|endoftext|> stands" in str(lines)
    assert lines["no mask token"].startswith("note ")
    assert lines["path"].startswith("fine path: transformers' AutoModel; each view is a pass of its own")


def test_what_stands_behind_a_folders_pooling_is_told_to_be_left_out(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "st", "bert")
    kinds = ("Transformer", "Pooling", "Dense", "Dense", "Normalize")
    modules = [{"idx": at, "path": str(at), "type": f"sentence_transformers.models.{k}"} for at, k in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    assert lines_of(folder)["modules"].startswith(
        "note modules: the folder has Dense, Dense behind its pooling, which "
    )


def test_positions_behind_the_padding_and_a_vocabulary_that_does_not_cover(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "xlm", "xlm-roberta", pad_token_id=1, max_position_embeddings=66)
    lines = lines_of(folder, ["unheard words everywhere"] * 8)
    assert lines["positions"] == "fine positions: 64 tokens of a text, behind 2 of padding"
    assert lines["vocabulary"].startswith("note vocabulary: 100.00% of the tokens of 8 texts unknown")


@pytest.mark.parametrize(("poolers", "level", "code"), [("cls", "stop", 2), ("cls, mean", "note", 0)])
def test_a_space_that_asks_for_what_its_encoder_has_not_is_told_before_a_run(
    poolers: str, level: str, code: int, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_kind(tmp_path / "gpt2", "gpt2")
    Path("mine.yaml").write_text(SPACE % (folder, poolers))
    assert main(["doctor", "mine.yaml"]) == code
    said = capsys.readouterr().out
    assert any(line.startswith(level) and "no first token: method.pooler=cls" in line for line in said.splitlines())


def test_the_command_takes_a_folder_and_exits_with_2_for_none(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    write_kind(tmp_path / "mine", "electra")
    assert "a electra, 2 layers of 32" in printed(capsys, "doctor", "--encoder", "mine")
    assert "missing folder" in printed(capsys, "doctor", "--encoder", "./absent", code=2)
