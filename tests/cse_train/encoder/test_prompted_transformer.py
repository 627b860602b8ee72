"""The one file that travels with prompts: it stands alone, and a model that is saved again still has it."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

from cse_train.encoder import prompted_transformer
from cse_train.export.export import export

TEXTS = ["A short one.", "", "Rain fell over the river all night.", "market " * 60]
OPTIONS = {"pooler": "first_last", "cls_prompt": True, "prompt_length": 3}


def loaded(folder: Path):
    library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    return library.SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)


def test_it_imports_torch_transformers_and_what_comes_with_them() -> None:
    nodes = list(ast.walk(ast.parse(Path(prompted_transformer.__file__).read_text(encoding="utf8"))))
    froms = {node.module.split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    names = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert (froms | names) - set(sys.stdlib_module_names) == {"torch", "transformers", "safetensors"}


def test_the_folder_holds_one_python_file_and_no_model_without_prompts(checkpoint, tmp_path) -> None:
    best, _ = checkpoint("d2cse", **OPTIONS)
    export(best, tmp_path / "out")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.py")] == [
        "prompted_transformer.py"
    ]
    assert not (tmp_path / "out" / "config.json").exists(), "AutoModel would take the bare encoder for the model"


def test_saved_by_the_library_it_loads_again(checkpoint, tmp_path) -> None:
    best, _ = checkpoint("d2cse", **OPTIONS)
    export(best, tmp_path / "out")
    model = loaded(tmp_path / "out")
    model.save(str(tmp_path / "again"))
    np.testing.assert_allclose(loaded(tmp_path / "again").encode(TEXTS), model.encode(TEXTS), atol=1e-6, rtol=0)


def test_a_text_prompt_goes_in_front(checkpoint, tmp_path) -> None:
    best, _ = checkpoint("dcpcse", pooler="mean")
    export(best, tmp_path / "out")
    model = loaded(tmp_path / "out")
    np.testing.assert_allclose(model.encode(["river"], prompt="old "), model.encode(["old river"]), atol=1e-6, rtol=0)


def test_prompts_and_their_positions_matter(checkpoint, tmp_path) -> None:
    """Without the shift, or without the [CLS] prompt, the embeddings are others: neither is ignored."""
    import json

    best, _ = checkpoint("d2cse", **OPTIONS)
    export(best, tmp_path / "out")
    settings = tmp_path / "out" / "0_PromptedTransformer" / "prompts.json"
    known = json.loads(settings.read_text(encoding="utf8"))
    before = loaded(tmp_path / "out").encode(TEXTS)
    for change in ({"position_shift": False}, {"cls_prompt": False}):
        settings.write_text(json.dumps(known | change), encoding="utf8")
        assert np.abs(loaded(tmp_path / "out").encode(TEXTS) - before).max() > 1e-3
