"""The scale that stands under a table."""

from pathlib import Path

from analysis.answers.build import scale
from search_spaces.catalog import load_space
from search_spaces.cells import resolve

HEAD = "version: 1\nid: T\nmethod: esimcse\nset: {train.examples: 640}\nspace:\n"


def test_an_axis_without_a_list_of_values_is_no_shared_scale(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(HEAD + "  train.learning_rate: {loguniform: [1e-4, 1e-2]}\nsearch: {num_samples: 3}\n")
    assert "learning_rate" not in scale(resolve(load_space(path)))
    assert scale(resolve(load_space(path), overrides={"train.learning_rate": 1e-3}))["learning_rate"] == 1e-3
    assert scale(resolve(load_space(path)))["examples"] == 640
