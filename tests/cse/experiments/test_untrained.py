"""Rows and models that nobody trains: scored once by a small encoder and a small set, and kept."""

from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse.experiments import untrained
from cse.experiments.untrained import score_models
from cse_train.data_paths import DataPaths
from cse_train.evaluate.baselines import idf_bag_of_words, score_untrained
from cse_train.evaluate.models import open_model
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.run_suites import evaluate
from cse_train.text.generated import sentences
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.parse import parse_file
from tests.commands import printed

SET = "generated_dev:20"
SPACE = """version: 1
id: {id}
method: simcse
evaluate: ["generated_dev:20"]
paper:
  citation: c
  table: t
  source: s
  metric: m
  columns: ["generated_dev:20"]
  references:
    - {{label: CLS, evaluated: {{encoder: words-l1-h64, pooler: cls_no_mlp}}, cells: {{"generated_dev:20": 40.5}}}}
    - {{label: Mean, evaluated: {{encoder: words-l1-h64, pooler: mean}}, cells: {{"generated_dev:20": 50}}}}
    - {{label: Words, evaluated: {{vectors: tiny}}, cells: {{"generated_dev:20": 60}}}}
    - {{label: Far, evaluated: {{encoder: none/such, pooler: mean}}, cells: {{"generated_dev:20": 70}}}}
    - {{label: Left, evaluated: {{encoder: roberta-base, pooler: mean}}, cells: {{"generated_dev:20": 80}}}}
"""


def space(folder: Path, id: str = "T") -> Path:
    (folder / f"{id}.yaml").write_text(SPACE.format(id=id), encoding="utf8")
    return folder / f"{id}.yaml"


def vectors(folder: Path, length: int = 1) -> DataPaths:
    """Vectors of the generated words, of their letters' counts; `length` scales one axis."""
    words = sorted({word for text in sentences(200, 0) for word in text.split()})
    lines = [f"{word} {length * len(word)} {word.count('e')} {word.count('a')} 1" for word in words]
    (folder / "vectors").mkdir(exist_ok=True)
    (folder / "vectors" / "tiny.vec").write_text("\n".join(lines) + "\n", encoding="utf8")
    return DataPaths.from_folder(folder)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "scores.db")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The poolers of the models that were really run."""
    poolers: list[str] = []

    def counted(model, paths, names, options):  # type: ignore[no-untyped-def]
        poolers.append(model.pooler.partition(",")[0])
        return evaluate(model, paths, names, options)

    monkeypatch.setattr(untrained, "evaluate", counted)
    return poolers


def test_each_model_is_scored_once_and_again_where_its_weights_change(
    tmp_path: Path, ledger: Ledger, computed: list[str]
) -> None:
    tables = [resolve(parse_file(space(tmp_path, id))) for id in ("T", "U")]
    told: list[str] = []
    paths = vectors(tmp_path)
    reasons, others = score_models(tables, ledger, paths, told.append)
    assert computed == ["cls_no_mlp", "mean", "mean of tiny.vec"]
    assert told[0] == f"scoring without training: words-l1-h64, cls_no_mlp, on {SET}" and len(told) == 3
    assert reasons == others and list(reasons) == ["Far"]
    assert reasons["Far"].startswith("missing encoder: train.encoder=none/such; ")
    assert "give its folder by --profile FILE with `substitutions: {train.encoder: {none/such: DIR}}`" in reasons["Far"]

    values = {(score.model, score.pooler): score.value for score in ledger.untrained_scores()}
    for pooler in ("cls_no_mlp", "mean"):
        model = open_model(Path("words-l1-h64"), pooler=pooler)
        (wanted,) = evaluate(model, DataPaths(), [SET], {})
        assert values["words-l1-h64", pooler] == wanted.value
    score_models(tables, ledger, paths, told.append)
    assert len(computed) == 3, "the ledger has them"
    score_models(tables, ledger, vectors(tmp_path, length=3), told.append)
    assert computed[3:] == ["mean of tiny.vec"]
    words = [score.value for score in ledger.untrained_scores() if score.model == "tiny"]
    assert len(words) == 2 and words[0] != words[1]


def test_absent_vectors_and_a_wrong_line_are_reasons(tmp_path: Path, ledger: Ledger) -> None:
    table = resolve(parse_file(space(tmp_path)))
    (absent,) = score_models([table], ledger, DataPaths(), lambda line: None)
    assert absent["Words"] == (
        "missing data: word vectors tiny; put vectors/tiny.txt or vectors/tiny.vec into --data DIR, "
        "a word and its numbers on a line"
    )
    paths = vectors(tmp_path)
    assert paths.vectors is not None
    (paths.vectors / "tiny.vec").write_text("the 1 2\nriver 1\n", encoding="utf8")
    (broken,) = score_models([table], ledger, paths, lambda line: None)
    assert broken["Words"].startswith("wrong vector: ") and "line 2" in broken["Words"]
    assert {score.model for score in ledger.untrained_scores()} == {"words-l1-h64"}


def test_a_table_prints_them_beside_the_published_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], computed: list[str]
) -> None:
    argv = ["table", str(space(tmp_path)), "--storage", str(tmp_path)]
    data = [*argv, "--data", str(tmp_path), "--ledger", str(tmp_path / "ledger.db")]
    Ledger.open(tmp_path / "ledger.db").close()
    vectors(tmp_path)
    before = printed(capsys, *argv)
    assert "| paper: Mean" in before
    assert "- Not scored: CLS, Mean, Words, Far: no score yet; `cse table T --untrained --data DIR` makes it" in before
    assert main([*data, "--untrained"]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[0] == f"cse: scoring without training: words-l1-h64, cls_no_mlp, on {SET}"
    row = next(line for line in said.out.splitlines() if "without training: CLS" in line)
    _, n, ours, paper, delta = (entry.strip() for entry in row.split("|")[1:-1])
    assert (n, paper) == ("-", "40.5") and float(delta) == pytest.approx(float(ours) - 40.5, abs=0.006)
    assert "| paper: Far" in said.out and "- Not scored: Far: missing encoder: train.encoder=none/such;" in said.out
    assert "- Not scored: Left: its encoder has no counterpart at profile small" in said.out
    assert "- Mean: words-l1-h64, " in said.out and "pooler mean, precision fp32" in said.out

    count = len(computed)
    again = printed(capsys, *data)
    assert len(computed) == count and "without training: Words" in again


WORDS_SPACE = """version: 1
id: W
title: A table
seeds: 1
evaluate: ["generated_dev:20"]
set: {train.corpus: generated, train.dev: "generated_dev:20"}
cells:
  - {label: SimCSE, set: {method: simcse, train.encoder: words-l1-h64}}
  - {label: InferSent, set: {method: infersent, train.encoder: VECTORS}}
"""
VECTORS = Path(__file__).parents[2] / "cse_train" / "programs" / "word_vectors.txt"


def test_word_vectors_have_no_rows_without_training(tmp_path: Path) -> None:
    (tmp_path / "W.yaml").write_text(WORDS_SPACE.replace("VECTORS", str(VECTORS)))
    ledger = Ledger.open(tmp_path / "ledger.db")
    untrained.ensure(resolve(load_space(str(tmp_path / "W.yaml"))), ledger, DataPaths())
    assert {entry.encoder for entry in ledger.baselines()} == {"words-l1-h64"}


TWO_CORPORA = """version: 1
id: T
method: simcse
set: {train.encoder: words-l1-h64, train.dev: "generated_dev:20"}
space:
  train.corpus: {grid: [generated, file]}
"""


def test_a_second_corpus_changes_the_idf_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def counted(*given):  # type: ignore[no-untyped-def]
        encoded.append(1)
        return score_untrained(*given)

    monkeypatch.setattr("cse_train.evaluate.baselines.score_untrained", counted)
    (tmp_path / "t.yaml").write_text(TWO_CORPORA, encoding="utf8")
    texts = sentences(50, 7)
    (tmp_path / "text.txt").write_text("\n".join(texts) + "\n", encoding="utf8")
    paths, ledger = DataPaths(train_file=tmp_path / "text.txt"), Ledger.open(tmp_path / "ledger.db")
    resolved = resolve(parse_file(tmp_path / "t.yaml"))
    untrained.ensure(resolved, ledger, paths)
    rows = {entry.corpus: dict(entry.rows) for entry in ledger.baselines()}
    assert len(encoded) == 1 and list(rows["generated"]) == list(rows["file"])
    assert "untrained, whitened" not in rows["file"]  # 40 texts in 64 dimensions: whitened, all are equally far apart
    differing = [name for name, value in rows["file"].items() if value != rows["generated"][name]]
    assert differing == ["idf bag of words"]
    assert rows["file"]["idf bag of words"] == idf_bag_of_words(load_pairs("generated_dev:20", paths), texts)
    untrained.ensure(resolved, ledger, DataPaths(train_file=tmp_path / "text.txt"))
    assert len(encoded) == 1

    (tmp_path / "text.txt").write_text("\n".join(texts[:20]) + "\n", encoding="utf8")
    untrained.ensure(resolved, ledger, paths)
    assert len(encoded) == 1
    again = {entry.corpus: dict(entry.rows) for entry in ledger.baselines()}
    assert again["file"]["word counts"] == rows["file"]["word counts"]
    assert again["file"]["idf bag of words"] == idf_bag_of_words(load_pairs("generated_dev:20", paths), texts[:20])
