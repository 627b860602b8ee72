"""Components of a method: what turns each off, when it is there at all, and every mistake in one line."""

from pathlib import Path

import pytest

from cse_train.config import parse_run
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.identity.method_code import read_released
from search_spaces.parse import parse_file
from search_spaces.space import Component

SPACE = """version: 1
id: mine
method: declutr
space:
  method.anchors: {grid: [1, 2]}
components:
  masked-LM loss: {method.objective: {both: contrastive}}
  second anchor: {method.anchors: 1, train.dropout: 0}
"""


def parsed(folder: Path, text: str) -> dict[str, Component]:
    (folder / "mine.yaml").write_text(text, encoding="utf8")
    return dict(parse_file(folder / "mine.yaml").components)


def test_a_component_is_there_only_under_the_values_that_it_replaces(tmp_path: Path) -> None:
    objective, anchor = parsed(tmp_path, SPACE).values()
    flat = {"method.objective": "both", "method.anchors": 2, "train.dropout": 0.0}
    assert objective.changes(flat) == {"method.objective": "contrastive"}
    assert objective.changes({**flat, "method.objective": "masked_lm"}) == {}
    assert anchor.changes(flat) == {"method.anchors": 1}, "dropout is 0 already"
    assert anchor.changes({**flat, "method.anchors": 1}) == {}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("method.anchors: 1,", "method.ancors: 1,"), "unknown key: components.second anchor.method.ancors=1; did you"),
        (("method.anchors: 1,", "method.dup_rate: 0.0,"), "key of another method: components.second anchor.method.dup"),
        (("method.anchors: 1,", "method.anchors: 0,"), "out of range: components.second anchor.method.anchors=0"),
        (("{both: contrastive}", "{bth: contrastive}"), "wrong type: components.masked-LM loss.method.objective='bth'"),
        (("{both: contrastive}", "{}"), "wrong component: components.masked-LM loss.method.objective={}; give"),
        (("{method.anchors: 1, train.dropout: 0}", "1"), "wrong component: components.second anchor=1; give"),
        (("method.anchors: 1,", "train.seed: 1,"), "wrong key: components.second anchor.train.seed=1; seeds come"),
        (("method.anchors: 1,", "method: simcse,"), "wrong component: components.second anchor.method=simcse; give"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        parsed(tmp_path, SPACE.replace(*change))
    (line,) = error.value.problems
    assert problem in line


@pytest.mark.parametrize("name", read_released())
def test_every_method_says_of_what_it_is_made(name: str) -> None:
    """Each shipped method has components that its default has, and every one of them leaves a valid run."""
    resolved = resolve(
        load_space(name),
    )
    flat = parse_run({"method": name, **resolved.profile.settings(name)}).flat()
    off = [component.changes(flat) for component in resolved.space.components.values()]
    assert sum(bool(changes) for changes in off) >= 2
    assert all(parse_run({**flat, **changes}).flat() == {**flat, **changes} for changes in off)
