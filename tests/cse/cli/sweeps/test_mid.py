"""Space and profile `mid` with stand-ins of the hub's encoders in the hub's cache: plan, run, table and report."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.cse_train.encoders import write_encoder

TOKENIZER = Path(__file__).resolve().parents[4] / "cse_train" / "weights" / "tokenizer"
KINDS = {"google/bert_uncased_L-4_H-512_A-8": "bert", "distilbert-base-uncased": "distilbert"}
SHORT = ["train.examples=64", "train.evaluations=2", "train.batch_size=16"]


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """HF_HOME with random encoders under the names that the space has."""
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    for name, kind in KINDS.items():
        model = tmp_path / "hf" / "hub" / f"models--{name.replace('/', '--')}"
        (model / "refs").mkdir(parents=True)
        (model / "refs" / "main").write_text("0" * 40, encoding="utf8")
        write_encoder(model / "snapshots" / ("0" * 40), kind, tokenizer, vocab_size=len(tokenizer))
    return tmp_path / "hf"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_the_plan_to_the_report(hub: Path, data_dir: Path, tmp_path: Path) -> None:
    def called(*words: str) -> str:
        environment = os.environ | {"HF_HOME": str(hub), "HF_HUB_OFFLINE": "1", "CSE_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, "-m", "cse", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    given = ["--seeds", "1", "--data", str(data_dir), *(word for line in SHORT for word in ("--set", line))]
    assert "6 cells x 1 seed = 6 runs, 6 unique: 0 done, 6 to run" in called("plan", "mid", *given)
    page = called("run", "mid", *given, "-y")
    assert "6 done, 0 failed" in page
    rows = re.findall(r"^\| (?:google|distil)\S+ +\| \S+ +\| +1 \|", page, re.MULTILINE)
    assert len(rows) == 6 and "BERT-Small (ConGen, SCT)" in page and "69.1" in page, page
    called("report", "mid", *given[4:], "--seeds", "1")
    assert any("BERT-Small (ConGen, SCT)" in path.read_text(encoding="utf8") for path in tmp_path.rglob("*.html"))
