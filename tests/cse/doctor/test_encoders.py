"""A space's encoders in `cse doctor`: what each is, by what it really does, and what the space's methods miss in it."""

import json
from pathlib import Path

import pytest

from cse.cli.app import main
from cse.doctor.encoders import describe_space
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.cse_train.encoders import write_encoder
from tests.cse_train.zoo.kinds import write_kind

SPACE = """version: 1
id: mine
method: simcse
seeds: 1
set: {train.encoder: %s, train.corpus: generated, train.dev: "generated_dev:16"}
space:
  method.pooler: {grid: [%s]}
"""


def lines_of(encoder: str, folder: Path) -> list[str]:
    """The findings on a space with this encoder, each with its level before it."""
    file = folder / "mine.yaml"
    file.write_text(SPACE % (encoder, "mean"))
    return [f"{each.level} {each.line}" for each in describe_space(resolve(load_space(file)), DataPaths())]


def test_an_encoder_is_told_with_its_size_and_the_way_it_is_computed(tmp_path: Path) -> None:
    for kind, path in (("bert half", "in our packed encoder"), ("electra", "through transformers' model")):
        folder = write_kind(tmp_path / kind.replace(" ", "_"), kind)
        line = lines_of(str(folder), tmp_path)[0]
        assert line.startswith(f"fine {folder}: a {kind.split()[0]}, 2 layers of 32, ") and line.endswith(path)
    assert "missing folder" in lines_of(str(tmp_path / "absent"), tmp_path)[0]


def test_what_stands_behind_a_folders_pooling_is_told_to_be_left_out(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "st", "bert")
    kinds = ("Transformer", "Pooling", "Dense", "Dense", "Normalize")
    modules = [{"idx": at, "path": str(at), "type": f"sentence_transformers.models.{k}"} for at, k in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    assert any("note modules: the folder has Dense, Dense behind" in line for line in lines_of(str(folder), tmp_path))


def test_a_vocabulary_that_does_not_cover_the_texts_is_told(tmp_path: Path) -> None:
    told = [line for line in lines_of(str(write_encoder(tmp_path / "bert", "bert")), tmp_path) if "unknown" in line]
    assert len(told) == 1 and told[0].startswith("note vocabulary: ") and "of 2000 texts are unknown" in told[0]
    assert not any("unknown" in line for line in lines_of("words-l1-h64", tmp_path))


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
