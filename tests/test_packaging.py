"""The wheel alone, in a clean environment, from a folder whose own names collide with ours."""

import json
import zipfile
from pathlib import Path

import pytest

from tests.wheel import REPO, called

SPACE = """version: 1
id: mine
method: simcse
seeds: 2
set:
  train.encoder: words-l2-h128
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 32
  train.batch_size: 8
  train.evaluations: 2
space:
  method.temperature: {grid: [0.05]}
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A user's folder with an `analysis` package, a `cluster.py` and `search_spaces` of its own."""
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis" / "__init__.py").write_text("raise ImportError('the wrong analysis')\n", encoding="utf8")
    (tmp_path / "cluster.py").write_text("raise ImportError('the wrong cluster')\n", encoding="utf8")
    (tmp_path / "search_spaces").mkdir()
    (tmp_path / "search_spaces" / "E7.yaml").write_text("wrong: true\n", encoding="utf8")
    (tmp_path / "mine.yaml").write_text(SPACE, encoding="utf8")
    return tmp_path


def test_the_wheel_holds_the_data_and_neither_tests_nor_benchmarks(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"analysis", "cluster", "cse", "cse_train", "search_spaces"}
    for wanted in (
        "search_spaces/papers/E7_esimcse_dup_rate.yaml",
        "search_spaces/profiles/small.yaml",
        "search_spaces/former/wiki_small.yaml",
        "cse_train/weights/tokenizer/tokenizer.json",
        "cse_train/weights/words-l4-h128/model.safetensors",
        "cse_train/weights/words-l4-h128/config.json",
        "cse_train/weights/words-l4-h128/tokenizer.json",
    ):
        assert wanted in names
    pages = {path.relative_to(REPO).as_posix() for top in tops for path in (REPO / top).rglob("*.html")}
    assert "cse/site/wall.html" in pages and pages <= set(names)
    assert wheel.stat().st_size <= 20.3e6, "20.2 million bytes, of which 18.9 are the encoders and their tokenizers"


def test_an_id_is_found_from_any_folder(cse_of_wheel: Path, trap: Path) -> None:
    done = called(cse_of_wheel, trap, "plan", "E7", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == 24


def test_two_workers_run_our_code_and_not_the_folder_s(cse_of_wheel: Path, trap: Path) -> None:
    done = called(cse_of_wheel, trap, "run", "mine.yaml", "--workers", "2", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 done, 0 failed" in done.stdout
    assert (trap / "results" / "ledger.db").is_file()
    again = called(cse_of_wheel, trap, "run", "mine.yaml", "--workers", "2", "--yes")
    assert again.stdout.startswith("2/2 already in the ledger, 0 run"), again.stdout + again.stderr
