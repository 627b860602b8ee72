"""A pickle with code in it, wherever a model folder may have one: refused in one line, and the code never runs."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.folders import find_weights
from cse_train.encoder.generator import Generator
from cse_train.encoder.weight_files import read_tensors, require_safe
from cse_train.evaluate.models import open_model
from cse_train.fields import ConfigError

SMALL = "words-l1-h64"


class Attack:
    """Unpickled by Python itself, it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "the-code-ran"


@pytest.fixture
def folder(tmp_path: Path, mark: Path) -> Path:
    """A shipped encoder whose weights are a pickle with code."""
    made = tmp_path / "model"
    shutil.copytree(find_weights() / SMALL, made)
    (made / "model.safetensors").unlink()
    torch.save({"weight": Attack(mark)}, made / "pytorch_model.bin")
    return made


def test_the_attack_works_on_a_plain_load(folder: Path, mark: Path) -> None:
    torch.load(folder / "pytorch_model.bin", weights_only=False)
    assert mark.is_dir()


@pytest.mark.parametrize("way", ["eval", "encoder", "generator", "library", "other architecture"])
def test_no_way_in_runs_it(folder: Path, mark: Path, way: str) -> None:
    ways = {
        "eval": lambda: open_model(folder, pooler="mean"),
        "encoder": lambda: load_backbone(str(folder)),
        "generator": lambda: Generator(str(folder), load_backbone(SMALL)),
        "library": lambda: open_model(folder),
        "other architecture": lambda: load_backbone(str(folder)),
    }
    if way == "library":
        (folder / "modules.json").write_text("[]", encoding="utf8")
    if way == "other architecture":
        text = (folder / "config.json").read_text(encoding="utf8")
        (folder / "config.json").write_text(text.replace('"bert"', '"electra"'), encoding="utf8")
    with pytest.raises(ConfigError, match="not tensors alone: file=.*pytorch_model.bin; .*model.safetensors"):
        ways[way]()
    assert not mark.exists()


def test_a_pickle_of_tensors_alone_is_read(folder: Path) -> None:
    tensors = load_file(find_weights() / SMALL / "model.safetensors")
    torch.save(tensors, folder / "pytorch_model.bin")
    assert read_tensors(folder).keys() == tensors.keys()
    require_safe(folder)


def test_a_pickle_deep_in_a_folder_is_found(tmp_path: Path, mark: Path) -> None:
    (tmp_path / "2_Dense").mkdir()
    torch.save(Attack(mark), tmp_path / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="2_Dense"):
        require_safe(tmp_path)
    assert not mark.exists()
