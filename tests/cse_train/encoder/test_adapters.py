"""An adapter of PEFT names its base by an absolute path, and is refused where that base is another one by now."""

import json
from pathlib import Path

import pytest

from cse.cli.app import main
from cse_train.encoder.folders import place_bases, require_bases

CONFIG = "adapter_config.json"


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an adapter of a base that lies beside it, as the library writes one."""
    monkeypatch.chdir(tmp_path)
    base, folder = tmp_path / "base", tmp_path / "best"
    base.mkdir()
    folder.mkdir()
    (base / "config.json").write_text('{"model_type": "bert"}')
    (base / "model.safetensors").write_bytes(b"weights")
    (folder / CONFIG).write_text('{"base_model_name_or_path": "base", "r": 8}')
    (folder / "modules.json").write_text("[]")
    (folder / "cse_run.json").write_text(json.dumps({"bases": place_bases(folder)}))
    return folder


def test_a_base_that_is_a_folder_is_named_by_its_absolute_path_with_a_hash(adapter: Path) -> None:
    said = json.loads((adapter / CONFIG).read_text())
    assert said == {"base_model_name_or_path": str(adapter.parent / "base"), "r": 8}
    (bases,) = json.loads((adapter / "cse_run.json").read_text()).values()
    assert list(bases) == [str(adapter.parent / "base")]
    (adapter.parent / "base" / "README.md").write_text("no part of the model")
    assert place_bases(adapter) == bases
    require_bases(adapter)


def test_a_base_of_the_hub_keeps_its_name(adapter: Path) -> None:
    (adapter / CONFIG).write_text('{"base_model_name_or_path": "someone/encoder"}')
    assert place_bases(adapter) == {}
    assert json.loads((adapter / CONFIG).read_text()) == {"base_model_name_or_path": "someone/encoder"}


def test_an_adapter_whose_base_has_changed_or_is_gone_is_refused(
    adapter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = adapter.parent / "base" / "model.safetensors"
    weights.write_bytes(b"weightz")
    words = ["eval", str(adapter), "--suite", "generated_dev"]
    assert main(words) == 2
    base = adapter.parent / "base"
    line = f"cse: another base: model={adapter} is an adapter of {base}, whose files have changed since it was trained"
    assert capsys.readouterr().err == f"{line}; put those back\n"
    weights.unlink()
    (base / "config.json").unlink()
    base.rmdir()
    assert main(words) == 2
    line = f"cse: no such base: model={adapter} is an adapter of {base}; put that folder back"
    assert capsys.readouterr().err == f"{line}\n"
