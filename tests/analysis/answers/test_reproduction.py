"""The scale of a table, rows that a profile leaves out, and what a search's table shows."""

from pathlib import Path

import pytest

from analysis.answers.build import scale, spec_of
from analysis.answers.judge import judge
from analysis.answers.paper_scale import name_scale, tell_unlike, unlike_paper
from analysis.answers.study import add_left_out, best_cells
from analysis.tables.aggregate import Row, Table, aggregate
from analysis.tables.columns import entry_of
from analysis.tables.spec import TableSpec
from search_spaces.catalog import load_space
from search_spaces.cells import resolve


@pytest.mark.parametrize("name", ["E7", "D7", "S3"])
def test_only_the_papers_own_settings_are_its_scale(name: str) -> None:
    space = load_space(name)
    assert unlike_paper(resolve(space, "paper")) == {}
    assert unlike_paper(resolve(space, "paper", {"train.examples": 1280})).keys() == {"train.examples"}
    assert {"train.encoder", "train.corpus", "train.examples"} <= set(unlike_paper(resolve(space, "small")))
    twin = resolve(space, "paper").cells()[0].run(0).flat()["train.batch_size"]
    assert unlike_paper(resolve(space, "paper", {"train.batch_size": twin})) == {}, "said, and the same"


def test_generators_without_a_counterpart_say_not_run() -> None:
    resolved = resolve(load_space("D6"), "small")
    made = add_left_out(aggregate(spec_of(resolved), []), resolved)
    assert [row.key["method.generator"] for row in made.rows][:2] == ["bert-large-uncased", "bert-base-uncased"]
    assert len(made.rows) == 7
    assert judge(made, same_scale=False)[0, "sts_dev"].word == "not run"
    full = resolve(load_space("D6"), "paper")
    whole = aggregate(spec_of(full), [])
    assert add_left_out(whole, full) is whole


def test_a_searchs_table_shows_its_best_and_the_papers_own_cell() -> None:
    cells = {x: entry_of({0: float(x)}) for x in range(20)}
    rows = [Row({"x": x}, {"dev": cell}) for x, cell in cells.items()] + [Row({"x": 99}, {"dev": entry_of({}, 8.0)})]
    found = best_cells(Table(TableSpec(id="T", axes=["x"], columns=["dev"]), rows, [], {}, []), [{"x": 3}, {"x": 99}])
    assert [row.key["x"] for row in found.rows] == [*range(19, 9, -1), 3, 99]
    assert found.notes == [
        "best 10 of 20 cells that the search has finished",
        "the paper's setting, x=3, is number 17",
        "the paper's setting, x=99, was not visited",
    ]


SCALES = [
    ("S3", "tiny", {}, "tiny, 2 layers, 12,800 sentences"),
    ("S3", "small", {"train.encoder": "words-l2-h128", "train.examples": 6400, "train.evaluations": 20},
     "small, 2 layers, 6,400 sentences, 20 evaluations"),
    ("S3", "small", {"train.encoder": "other-l4-h128", "train.batch_size": 32},
     "small, other-l4-h128, 25,600 sentences, train.batch_size=32"),
    ("S3", "mid", {}, "mid, 4 layers, 100,000 sentences"),
    ("S3", "paper", {}, "paper, bert-base-uncased, 1,000,000 sentences"),
    ("D10", "small", {}, "small, 4 layers, 25,600 sentences"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "profile", "given", "said"), SCALES)
def test_a_scale_is_named_as_people_say_it(name: str, profile: str, given: dict[str, object], said: str) -> None:
    assert name_scale(resolve(load_space(name), profile, given)) == said


def test_what_is_unlike_the_paper_is_said_with_its_values() -> None:
    said = tell_unlike(unlike_paper(resolve(load_space("S3"), "tiny")))
    assert said.startswith("2-layer encoder instead of bert-base-uncased, 12,800 examples instead of 1,000,000; other ")
    assert tell_unlike({"train.adamw": (["torch"], ["released"])}) == "other adamw" and tell_unlike({}) == ""


HEAD = "version: 1\nid: T\nmethod: esimcse\nset: {train.examples: 640}\nspace:\n"


def test_an_axis_without_a_list_of_values_is_no_shared_scale(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(HEAD + "  train.learning_rate: {loguniform: [1e-4, 1e-2]}\nsearch: {num_samples: 3}\n")
    assert "learning_rate" not in scale(resolve(load_space(path)))
    assert scale(resolve(load_space(path), overrides={"train.learning_rate": 1e-3}))["learning_rate"] == 1e-3
    assert scale(resolve(load_space(path)))["examples"] == 640
