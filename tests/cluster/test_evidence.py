"""The scale of a table, rows that a profile leaves out, and what a search's table shows."""

import pytest

from analysis.aggregate import Cell, Row, Table, aggregate
from analysis.table_spec import TableSpec
from analysis.verdict import judge
from cluster.commands.evidence import best_cells, with_left_out
from cluster.commands.table import spec_of
from cluster.scale import unlike_paper
from cluster.space import load_space


@pytest.mark.parametrize("name", ["E7", "D7", "S3"])
def test_only_the_papers_own_settings_are_its_scale(name: str) -> None:
    space = load_space(name)
    assert unlike_paper(space.resolve("paper")) == []
    assert unlike_paper(space.resolve("paper", {"train.examples": 1280})) == ["train.examples"]
    assert {"train.encoder", "train.corpus", "train.examples"} <= set(unlike_paper(space.resolve("small")))
    twin = space.resolve("paper").cells()[0].run(0).flat()["train.batch_size"]
    assert unlike_paper(space.resolve("paper", {"train.batch_size": twin})) == [], "said, and the same"


def test_generators_without_a_counterpart_say_not_run() -> None:
    resolved = load_space("D6").resolve("small")
    made = with_left_out(aggregate(spec_of(resolved), []), resolved)
    assert [row.key["method.generator"] for row in made.rows][:2] == ["bert-large-uncased", "bert-base-uncased"]
    assert len(made.rows) == 7
    assert judge(made, same_scale=False)[0, "sts_dev"].word == "not run"
    full = load_space("D6").resolve("paper")
    whole = aggregate(spec_of(full), [])
    assert with_left_out(whole, full) is whole


def test_a_searchs_table_shows_its_best_and_the_papers_own_cell() -> None:
    cells = {x: Cell(1, float(x), None, None, (float(x),), (0,)) for x in range(20)}
    rows = [Row({"x": x}, {"dev": cell}) for x, cell in cells.items()] + [
        Row({"x": 99}, {"dev": Cell(0, None, None, 8.0)})
    ]
    found = best_cells(Table(TableSpec(id="T", axes=["x"], columns=["dev"]), rows, [], {}, []), [{"x": 3}, {"x": 99}])
    assert [row.key["x"] for row in found.rows] == [*range(19, 9, -1), 3, 99]
    assert found.notes == [
        "best 10 of 20 cells that the search has finished",
        "the paper's setting, x=3, is number 17",
        "the paper's setting, x=99, was not visited",
    ]
