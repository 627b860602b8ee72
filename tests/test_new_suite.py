"""A new suite is one module: added to a copy of the project, a space may name it, `cse eval` lists and scores it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
SUITE = '''
"""Mean length of embeddings."""

import numpy as np

from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.vectors import sts_protocol
from cse_train.results import Score

NAME = "norms"
SET = "generated_dev:20"
COLUMNS = (f"{SET}:mean_norm",)
NEEDS = (SET,)


def evaluate(model, paths):
    pairs = load_pairs(SET, paths)
    value = float(np.linalg.norm(model.embed(pairs.left), axis=1).mean())
    protocol = sts_protocol(pairs, model)
    return [Score(suite=SET, metric="mean_norm", value=value, protocol=protocol)]
'''
SPACE = """version: 1
id: normed
method: simcse
seeds: 1
evaluate: [norms]
space:
  method.temperature: {grid: [0.05]}
"""
COMMAND = "import sys; from cse.cli.app import main; sys.exit(main(sys.argv[1:]))"
LISTED = """
import sys
from pathlib import Path
from analysis.answers.build import columns_of
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
print(load_space("normed").evaluate, columns_of(resolve(load_space("normed"))), "torch" in sys.modules)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with one suite more and no line changed, and a space that names the suite."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("analysis", "cluster", "cse", "cse_train", "search_spaces"):
        shutil.copytree(REPO / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "cse_train" / "evaluate" / "suites" / "norms.py").write_text(SUITE, encoding="utf8")
    (folder / "search_spaces" / "normed.yaml").write_text(SPACE, encoding="utf8")
    return folder


def called(copy: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", *arguments], cwd=copy, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_space_names_a_new_suite_and_no_torch_is_imported(copy: Path) -> None:
    assert called(copy, LISTED) == "('norms',) ['generated_dev:20:mean_norm'] False\n"


def test_eval_lists_and_scores_a_new_suite(copy: Path) -> None:
    assert "lengths, mteb:TASK, norms, probing" in " ".join(called(copy, COMMAND, "eval", "--help").split())
    scored = called(copy, COMMAND, "eval", "words-l1-h64", "--pooler", "mean", "--suite", "norms,generated_dev:20")
    assert "mean_norm" in scored and "spearman" in scored
