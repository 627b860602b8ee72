"""The wheel alone, in a clean environment, from a folder whose own names collide with ours."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
SPACE = """version: 1
id: mine
method: simcse
seeds: 2
set:
  train.encoder: wiki-l2-h128
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 32
  train.batch_size: 8
  train.evaluations: 2
space:
  method.temperature: {grid: [0.05]}
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of what git would commit: no build leftovers of the checkout get in."""
    source = tmp_path_factory.mktemp("source")
    listed = ["git", "-C", str(REPO), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, capture_output=True, check=True, text=True).stdout.split("\0"):
        if name and (REPO / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((REPO / name).read_bytes())
    built = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(built), str(source)]
    subprocess.run(build, check=True, timeout=300)
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def cse(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`cse` of a new environment that holds the wheel; its dependencies are read from the one that runs the tests."""
    place = tmp_path_factory.mktemp("clean")
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], check=True, timeout=300)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    Path(packages, "zz_dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf8")
    return place / "bin" / "cse"


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


def called(cse: Path, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = kept | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CSE_CACHE": str(folder / "cache")}
    return subprocess.run([cse, *argv], cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


def test_the_wheel_holds_the_data_and_neither_tests_nor_benchmarks(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"analysis", "cluster", "cse", "cse_train", "search_spaces"}
    for wanted in (
        "search_spaces/papers/E7_esimcse_dup_rate.yaml",
        "search_spaces/profiles/small.yaml",
        "cse_train/weights/tokenizer/tokenizer.json",
        "cse_train/weights/wiki-l4-h128/model.safetensors",
        "cse_train/weights/wiki-l4-h128/config.json",
    ):
        assert wanted in names


def test_an_id_is_found_from_any_folder(cse: Path, trap: Path) -> None:
    done = called(cse, trap, "plan", "E7", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == 24


def test_two_workers_run_our_code_and_not_the_folder_s(cse: Path, trap: Path) -> None:
    done = called(cse, trap, "run", "mine.yaml", "--workers", "2", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 done, 0 failed" in done.stdout
    assert (trap / "results" / "ledger.db").is_file()
    again = called(cse, trap, "run", "mine.yaml", "--workers", "2", "--yes")
    assert again.stdout.startswith("2/2 already in the ledger, 0 run"), again.stdout + again.stderr
