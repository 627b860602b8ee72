"""A model folder with a pickle, on the command line: one line, exit code 2, and nothing in it runs."""

import os
import shutil
from pathlib import Path

import pytest
import torch

from cse.cli.app import main
from cse_train.backbone.folders import find_weights


class Attack:
    """Unpickled by Python itself, it makes a folder."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("the-code-ran",)


@pytest.mark.parametrize(
    "argv",
    [
        ("eval", "model", "--suite", "generated_dev", "--pooler", "mean"),
        ("embed", "model", "text.txt", "--to", "out.npy", "--pooler", "mean"),
        ("train", "simcse", "--train-file", "text.txt", "--set", "train.encoder=./model"),
        ("train", "diffcse", "--train-file", "text.txt", "--set", "method.generator=./model"),
    ],
    ids=lambda argv: " ".join(argv[:2]),
)
def test_a_pickle_with_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(find_weights() / "wiki-l1-h64", "model")
    shutil.copytree(find_weights() / "tokenizer", "model", dirs_exist_ok=True)
    Path("model/model.safetensors").unlink()
    torch.save({"weight": Attack()}, "model/pytorch_model.bin")
    Path("text.txt").write_text("\n".join(f"a line of {i} words" for i in range(80)), encoding="utf8")
    small = ("train.corpus=file", "train.dev=generated_dev:16", "train.encoder=wiki-l1-h64")
    own = tuple(part for pair in small for part in ("--set", pair)) if argv[0] == "train" else ()
    assert main([argv[0], argv[1], *own, *argv[2:]]) == 2
    *_, line = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("cse: not tensors alone: file=") and line.endswith("save the model as model.safetensors")
    assert not Path("the-code-ran").exists()
