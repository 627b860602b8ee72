"""A new method is one module and one YAML: added to a copy of the project, it passes the contract and sweeps."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
REPO = Path(__file__).resolve().parents[1]

MODULE = '''
"""Noise instead of dropout: view 2 is view 1 plus a Gaussian."""

from dataclasses import dataclass
from typing import Annotated

import torch

from cse_train.distributed import gather_with_grad
from cse_train.encoder.packing import pack
from cse_train.fields import Range
from cse_train.losses import info_nce
from cse_train.methods.base import Batch, Method, StepOutput
from cse_train.encoder.pooling import pool
from cse_train.losses import view_statistics
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """One option."""

    VERSION = 1

    noise: Annotated[float, Range(above=0)] = 0.1
    """Standard deviation of the noise."""


class Noisy(Method[Config]):
    @classmethod
    def make_collate(cls, config, tokenizer, max_seq_length):
        def collate(share):
            column, rows = share.store.column("text"), share.rows
            text = pack(column.flat, column.starts[rows], column.lengths[rows], pad_id=tokenizer.pad_token_id)
            return Batch({"text": text}, len(rows))

        return collate

    def __init__(self, config, backbone, training=True):
        super().__init__()
        self.noise, self.encoder = config.noise, backbone.encoder

    def forward(self, batch):
        clean_BH = self.encode(batch.inputs["text"])
        views = gather_with_grad(clean_BH), gather_with_grad(clean_BH + self.noise * torch.randn_like(clean_BH))
        loss = info_nce(*views)
        return StepOutput(loss, {"loss": loss.detach(), **view_statistics(*views)})

    def encode(self, packed):
        return pool(self.encoder(packed, tokens=True), "mean")[0]
'''
PICTURES = "tests/docs/test_pages.py::test_every_link_leads_somewhere"
"""Pages link to files that the copy has not."""
CLI = "import sys; from cse.cli.app import main; sys.exit(main(sys.argv[1:]))"
SPACE = """version: 1
id: noisy
method: noisy
seeds: 1
evaluate: ["generated_dev:40"]
set:
  train.encoder: words-l2-h128
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 32
  train.batch_size: 8
  train.evaluations: 2
space:
  method.noise: {grid: [0.1, 0.3]}
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with one module and one YAML more, and no line changed."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("analysis", "benchmarks", "cluster", "cse", "cse_train", "docs", "search_spaces", "tests"):
        shutil.copytree(REPO / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        shutil.copy(REPO / name, folder)
    (folder / "cse_train" / "methods" / "noisy.py").write_text(MODULE, encoding="utf8")
    (folder / "search_spaces" / "methods" / "noisy.yaml").write_text(SPACE, encoding="utf8")
    return folder


def called(copy: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_new_method_passes_the_contract(copy: Path) -> None:
    said = called(copy, "-m", "pytest", "-q", "-k", "noisy", "tests/cse_train/methods/test_contract.py")
    assert "5 passed" in said and "failed" not in said


def test_no_list_must_name_a_new_method(copy: Path) -> None:
    """Profiles, schema, proofs and pages are asked for when a release lists the method (`released_methods.json`)."""
    spaces = [f"tests/search_spaces/test_{name}.py" for name in ("schema", "shipped_spaces", "tables")]
    plans = ["tests/cluster/plan/test_cost.py", "tests/search_spaces/identity/test_method_code.py"]
    pages = ["tests/docs/test_methods_page.py", "tests/docs/test_pages.py"]
    said = called(copy, "-m", "pytest", "-q", *spaces, *plans, *pages, "--deselect", PICTURES)
    assert " passed" in said and "failed" not in said


def test_a_new_method_sweeps_on_two_workers_and_prints_its_table(copy: Path) -> None:
    where = ("--ledger", str(copy / "ledger.db"), "--storage", str(copy / "runs"), "--workers", "2")
    said = called(copy, "-c", CLI, "run", "noisy", *where, "--yes")
    assert "2 done, 0 failed" in said
    assert said.count("| 0.1 ") == 1 and said.count("| 0.3 ") == 1

    module = copy / "cse_train" / "methods" / "noisy.py"
    module.write_text(MODULE.replace("clean_BH + self.noise", "clean_BH + 2 * self.noise"), encoding="utf8")
    command = [sys.executable, "-c", CLI, "run", "noisy", *where, "--yes"]
    environment = os.environ | {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2 and "changed code: method=noisy, 2 finished runs were made by other" in done.stderr
    assert "2/2 already in the ledger, 0 run" in called(copy, *command[1:], "--keep")
