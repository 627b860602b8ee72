"""What was forgotten: a set's scores after training, less those of the same encoder before it, as a table's column."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.answers.build import build
from analysis.ledger import Ledger
from analysis.render.formats import render
from cse.experiments import untrained
from cse_train.data_paths import DataPaths
from cse_train.evaluate.models import open_model
from cse_train.evaluate.run_suites import evaluate, options
from cse_train.fields import ConfigError
from search_spaces.cells import resolve
from search_spaces.identity.signature import identity, signature
from search_spaces.parse import parse_file
from tests.run_values import book_run

SPACE = """version: 1
id: kept
method: simcse
seeds: 2
set: {train.encoder: words-l1-h64, train.corpus: generated, train.dev: "generated_dev:30"}
evaluate: ["generated_dev:20"]
forgotten: ["generated_dev:20"]
space:
  method.pooler: {grid: [cls, mean]}
"""
COLUMN = "generated_dev:20"
BEFORE = {"cls": "cls_no_mlp", "mean": "mean"}


@pytest.fixture
def space(tmp_path: Path) -> Path:
    (tmp_path / "kept.yaml").write_text(SPACE, encoding="utf8")
    return tmp_path / "kept.yaml"


@pytest.fixture
def ledger(tmp_path: Path, space: Path) -> Ledger:
    """Each run scored 1 above its encoder for its first seed, and 4 below it for the second."""
    made, paths = Ledger.open(tmp_path / "ledger.db"), DataPaths()
    for cell in resolve(parse_file(space)).cells():
        for seed, change in enumerate((1.0, -4.0)):
            run = cell.run(seed)
            hashes = identity(run, paths)
            name = signature(run, hashes)
            book_run(made, name, run.flat(), seed=seed, identity=hashes, examples=64, best=50.0)
            model = open_model(Path("words-l1-h64"), pooler=BEFORE[run.flat()["method.pooler"]])
            (score,) = evaluate(model, paths, [COLUMN], options("senteval", "test", "all"))
            made.add_score(name, replace(score, value=score.value + change))
    return made


def test_each_run_stands_beside_its_own_encoder_and_pooler(space: Path, ledger: Ledger) -> None:
    resolved = resolve(parse_file(space))
    before = build(resolved, ledger)
    name = f"{COLUMN} - untrained"
    assert [row.entries[name].mean for row in before.rows] == [None, None]
    assert any(note.startswith(f"Not stored: what {COLUMN} was before training") for note in before.notes)
    untrained.ensure(resolved, ledger, DataPaths())
    table = build(resolved, ledger)
    assert table.spec.columns == [COLUMN, name]
    for row in table.rows:
        assert row.entries[name].values == pytest.approx((1.0, -4.0), abs=1e-9)
        assert row.entries[name].mean == pytest.approx(-1.5, abs=1e-9)
    print(render(table, "md"))
    assert not any("Not stored" in note for note in table.notes)
    assert json.loads(render(table, "json"))["rows"][0]["cells"][name]["mean"] == pytest.approx(-1.5, abs=1e-9)


def test_it_changes_no_runs_signature(space: Path) -> None:
    with_it = [cell.run(0) for cell in resolve(parse_file(space)).cells()]
    space.write_text(SPACE.replace('forgotten: ["generated_dev:20"]\n', ""), encoding="utf8")
    assert with_it == [cell.run(0) for cell in resolve(parse_file(space)).cells()]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("sts_test", "no such column: forgotten=sts_test; valid: generated_dev:20"),
        ("generated_dev:2", "no such column: forgotten=generated_dev:2; did you mean generated_dev:20"),
    ],
)
def test_a_column_that_the_space_does_not_score_is_refused(name: str, line: str, space: Path) -> None:
    space.write_text(SPACE.replace('forgotten: ["generated_dev:20"]', f'forgotten: ["{name}"]'), encoding="utf8")
    with pytest.raises(ConfigError) as caught:
        parse_file(space)
    assert line in str(caught.value) and "\n" not in str(caught.value)
