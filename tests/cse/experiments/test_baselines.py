"""Rows under a table: of what depends on the encoder alone, nothing is computed for each corpus."""

from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.experiments import baselines
from cse_train.data_paths import DataPaths
from cse_train.evaluate.baselines import idf_bag_of_words, score_untrained
from cse_train.evaluate.pairs import load_pairs
from cse_train.text.generated import sentences
from search_spaces.cells import resolve
from search_spaces.parse import parse_file

SPACE = """version: 1
id: T
method: simcse
set: {train.encoder: wiki-l1-h64, train.dev: "generated_dev:20"}
space:
  train.corpus: {grid: [generated, file]}
"""


def test_a_second_corpus_changes_the_idf_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def counted(*given):  # type: ignore[no-untyped-def]
        encoded.append(1)
        return score_untrained(*given)

    monkeypatch.setattr("cse_train.evaluate.baselines.score_untrained", counted)
    (tmp_path / "t.yaml").write_text(SPACE, encoding="utf8")
    texts = sentences(50, 7)
    (tmp_path / "text.txt").write_text("\n".join(texts) + "\n", encoding="utf8")
    paths, ledger = DataPaths(train_file=tmp_path / "text.txt"), Ledger.open(tmp_path / "ledger.db")
    resolved = resolve(parse_file(tmp_path / "t.yaml"))
    baselines.ensure(resolved, ledger, paths)
    rows = {entry.corpus: dict(entry.rows) for entry in ledger.baselines()}
    assert len(encoded) == 1 and list(rows["generated"]) == list(rows["file"])
    assert "untrained, whitened" not in rows["file"]  # 40 texts in 64 dimensions: whitened, all are equally far apart
    differing = [name for name, value in rows["file"].items() if value != rows["generated"][name]]
    assert differing == ["idf bag of words"]
    assert rows["file"]["idf bag of words"] == idf_bag_of_words(load_pairs("generated_dev:20", paths), texts)
    baselines.ensure(resolved, ledger, DataPaths(train_file=tmp_path / "text.txt"))
    assert len(encoded) == 1

    (tmp_path / "text.txt").write_text("\n".join(texts[:20]) + "\n", encoding="utf8")
    baselines.ensure(resolved, ledger, paths)
    assert len(encoded) == 1
    again = {entry.corpus: dict(entry.rows) for entry in ledger.baselines()}
    assert again["file"]["word counts"] == rows["file"]["word counts"]
    assert again["file"]["idf bag of words"] == idf_bag_of_words(load_pairs("generated_dev:20", paths), texts[:20])
