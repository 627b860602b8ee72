"""Rows without training are those of the table's transformers: word vectors are no encoder before they are trained."""

from pathlib import Path

from analysis.ledger import Ledger
from cse.experiments import baselines
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import resolve

SPACE = """version: 1
id: W
title: A table
seeds: 1
evaluate: ["generated_dev:20"]
set: {train.corpus: generated, train.dev: "generated_dev:20"}
cells:
  - {label: SimCSE, set: {method: simcse, train.encoder: wiki-l1-h64}}
  - {label: InferSent, set: {method: infersent, train.encoder: VECTORS}}
"""
VECTORS = Path(__file__).parents[2] / "cse_train" / "programs" / "word_vectors.txt"


def test_word_vectors_have_no_rows_without_training(tmp_path: Path) -> None:
    (tmp_path / "W.yaml").write_text(SPACE.replace("VECTORS", str(VECTORS)))
    ledger = Ledger.open(tmp_path / "ledger.db")
    baselines.ensure(resolve(load_space(str(tmp_path / "W.yaml"))), ledger, DataPaths())
    assert {entry.encoder for entry in ledger.baselines()} == {"wiki-l1-h64"}
