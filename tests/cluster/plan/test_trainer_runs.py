"""What a program's run is: code, parameters, seed, declared data, score and number of ranks; nothing of a method."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.plan.planner import plan
from cse_train.data_paths import DataPaths
from cse_train.plugins import registry
from search_spaces.cells import resolve
from search_spaces.identity.signature import describe_signature, identity, signature
from search_spaces.parse import parse_file

SPACE = """
version: 1
id: mine
trainer:
  script: train.py
  score: {name: dev_score, scale: 100}
  data: [pairs.json, model]
seeds: 2
space:
  rate: {grid: [0.5]}
"""
SIGNATURE = "8aa8e4b7bbd23106723d17e3"


@pytest.fixture(autouse=True)
def no_plugins_after() -> Iterator[None]:
    yield
    registry.forget()


def folder(place: Path) -> Path:
    (place / "model").mkdir(parents=True)
    (place / "train.py").write_text("import helper\n\nprint(helper.value)\n")
    (place / "helper.py").write_text("value = 1\n")
    (place / "unused.py").write_text("value = 1\n")
    (place / "pairs.json").write_text("[1]")
    (place / "model" / "config.json").write_text("{}")
    (place / "mine.yaml").write_text(SPACE)
    return place


def of(place: Path, seed: int = 0, workers: int = 1) -> tuple[str, dict[str, Any]]:
    run = resolve(parse_file(place / "mine.yaml")).cells()[0].run(seed)
    hashes = identity(run, DataPaths(), workers)
    return signature(run, hashes), describe_signature(run, hashes)


def edit(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new))


def test_the_signature_hashes_what_a_run_is_and_nothing_of_a_method_that_did_not_run(tmp_path: Path) -> None:
    sign, said = of(folder(tmp_path))
    assert sorted(said["inputs"]) == ["code", "data.model", "data.pairs.json", "workers"]
    assert said["train"] == {"examples": 1000, "batch_size": 1, "seed": 0}
    assert (said["options"], said["rules"]) == ({"rate": 0.5}, {})
    assert sign == SIGNATURE


def test_a_comment_changes_nothing_and_neither_does_another_place_or_an_unused_file(tmp_path: Path) -> None:
    first = of(folder(tmp_path / "a"))[0]
    place = folder(tmp_path / "b" / "c")
    edit(place / "train.py", "import helper", "# a comment\nimport helper")
    edit(place / "unused.py", "1", "2")
    registry.forget()
    assert of(place)[0] == first


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("train.py", "helper.value", "helper.value + 1"),
        ("helper.py", "1", "2"),
        ("pairs.json", "1", "2"),
        ("model/config.json", "{}", "{1}"),
        ("mine.yaml", "scale: 100", "scale: 10"),
        ("mine.yaml", "scale: 100", "scale: 100, direction: min"),
        ("mine.yaml", "dev_score", "test_score"),
        ("mine.yaml", "trainer:", "trainer:\n  fits: mean"),
        ("mine.yaml", "0.5", "0.25"),
    ],
)
def test_a_statement_a_byte_a_score_and_a_parameter_change_the_run(
    tmp_path: Path, file: str, old: str, new: str
) -> None:
    first = of(folder(tmp_path / "a"))[0]
    registry.forget()
    place = folder(tmp_path / "b")
    edit(place / file, old, new)
    assert of(place)[0] != first


def test_seeds_and_numbers_of_ranks_are_runs_of_their_own(tmp_path: Path) -> None:
    place = folder(tmp_path)
    assert len({of(place)[0], of(place, seed=1)[0], of(place, workers=2)[0]}) == 3


def test_a_plan_says_what_is_absent_and_knows_no_cost_of_a_program(tmp_path: Path) -> None:
    place = folder(tmp_path)
    planned = plan([parse_file(place / "mine.yaml")], None, None, None, DataPaths())
    assert planned.counts()["to_run"] == 2
    assert (planned.cost().unknown, planned.cost().examples, planned.cost().disk_bytes) == (2, 0, 0)
    assert "wiki" not in planned.source() and "docs/" not in planned.source()
    (place / "pairs.json").unlink()
    (cell,) = plan([parse_file(place / "mine.yaml")], None, None, None, DataPaths()).spaces[0].incomplete
    assert cell.reason == f"no such input: trainer.data={place / 'pairs.json'}; correct the path"
