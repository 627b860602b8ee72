"""Models by their names on the hub, out of the hub's cache: beside folders and runs, as seeds, and what is absent."""

import shutil
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models import open_model
from cse_train.evaluate.run_suites import evaluate
from tests.commands import printed, refused
from tests.cse.compare.models import SET, A, Capture, Names, facts
from tests.cse_train.encoders import tokenizer_of, write_encoder

MINILM, PLAIN, TWIN = "sentence-transformers/all-MiniLM-L6-v2", "tiny-bert", "some-one/tiny-bert"
SUITE = ("--suite", SET)


def put(folder: Path, cache: Path, name: str) -> Path:
    """A folder where the hub's client keeps the snapshot of a model of this name."""
    place = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(folder, snapshot := place / "snapshots" / ("0" * 40))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40, encoding="utf8")
    return snapshot


@pytest.fixture
def cache(somewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Path:
    """A hub's cache with a model of sentence-transformers and two plain encoders, and no hub."""
    library: Any = pytest.importorskip(
        "sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'"
    )
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(hub := somewhere / "hub"))
    modules = library.sentence_transformer.modules
    for place, name in enumerate((PLAIN, TWIN, "minilm"), start=1):
        folder = Path("of", name)
        write_encoder(folder, "bert", tokenizer_of("[CLS]", "[SEP]"), initializer_range=0.1 * place)
        if name != "minilm":
            put(folder, hub, name)
    parts = [modules.Transformer("of/minilm"), modules.Pooling(32, "max"), modules.Normalize()]
    library.SentenceTransformer(modules=parts).save("minilm")
    put(Path("minilm"), hub, MINILM)
    capsys.readouterr()
    return hub


def score_of_folder(folder: str, pooler: str | None = None) -> float:
    (score,) = evaluate(open_model(Path(folder).resolve(), pooler=pooler), DataPaths(), [SET], {})
    return score.value


def test_a_name_of_the_hub_is_its_snapshot_beside_a_folder_and_runs(capsys: Capture, cache: Path, two: Names) -> None:
    said = facts(capsys, "compare", MINILM, "of/tiny-bert", "--also", A, "--pooler", "mean", *SUITE)
    for made, values in ((said, [score_of_folder("of/tiny-bert", "mean")]), (said["also"][0], [97.0] * 3)):
        (column,) = (column for column in made["columns"] if column["column"] == SET)
        assert column["A"]["values"] == pytest.approx([score_of_folder("minilm")], abs=1e-9)
        assert column["B"]["values"] == pytest.approx(values, abs=1e-9)
    assert said["A"]["name"] == MINILM and said["A"]["folder"].startswith(
        f"{cache}/models--sentence-transformers--all-"
    )
    assert f"A: {MINILM} (a folder, no seeds)" in printed(capsys, "compare", MINILM, "minilm", *SUITE).replace("\\", "")
    assert "no seeds tell" not in printed(capsys, "eval", MINILM, *SUITE)


def test_several_names_are_the_seeds_of_one_training(capsys: Capture, cache: Path) -> None:
    (column,) = facts(capsys, "compare", f"{PLAIN},{TWIN}", MINILM, "--pooler", "mean", *SUITE)["columns"]
    assert column["A"]["values"] == pytest.approx(
        [score_of_folder(f"of/{name}", "mean") for name in (PLAIN, TWIN)], abs=1e-9
    )


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("no-one/none", "no folder no-one/none is here, nor to be had from the hub or its cache"),
        (
            "none",
            "or SWEEP:CELL (cse ls), a model's folder or its name on the hub;",
        ),
        ("no-one/none/none", "unknown model: model=no-one/none/none; give a run"),
        (PLAIN, "which pooler: model="),
    ],
)
def test_what_is_not_to_be_had_is_one_line(capsys: Capture, cache: Path, name: str, line: str) -> None:
    assert line in refused(capsys, "compare", name, MINILM, *SUITE)
    assert refused(capsys, "eval", name, *SUITE).startswith(
        "cse: which pooler" if name == PLAIN else "cse: no such run"
    )


def test_a_snapshot_without_weights_is_no_model(capsys: Capture, cache: Path) -> None:
    for file in cache.glob("models--some-one--*/snapshots/*/model.safetensors"):
        file.unlink()
    assert "not a model: model=" in refused(capsys, "compare", TWIN, MINILM, "--pooler", "mean", *SUITE)
