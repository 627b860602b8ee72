"""Values of a table that have no place at a profile's scale: another one runs, or the row is left out."""

import pytest

from analysis.answers import build
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.profiles import Profile, load_profile

SPACE = """version: 1
id: T
method: esimcse
space:
  train.encoder: {grid: [large, base, tiny]}
  method.dup_rate: {grid: [0.1, 0.2]}
paper:
  {citation: c, table: t, source: s, metric: m, columns: [sts_dev, transfer_dev], rows: [
    {key: {train.encoder: large, method.dup_rate: 0.1}, cells: {sts_dev: 80, transfer_dev: 85}},
    {key: {train.encoder: base, method.dup_rate: 0.1}, cells: {sts_dev: 81, transfer_dev: 86}}]}
"""
LISTED = """version: 1
id: T
method: simcse
cells:
  - {label: one, set: {train.encoder: large}}
  - {label: two, set: {train.encoder: base}}
"""
PROFILE = Profile("p", {"train.corpus": "generated"}, {}, {"train.encoder": {"large": None, "base": "words-l4-h128"}})


def resolved(folder, text, **overrides):
    (folder / "T.yaml").write_text(text)
    return resolve(load_space(folder / "T.yaml"), PROFILE, overrides)


def test_the_row_keeps_the_table_s_name_and_the_run_takes_the_other(tmp_path):
    space = resolved(tmp_path, SPACE)
    cell = space.cells()[0]
    assert cell.key == {"train.encoder": "base", "method.dup_rate": 0.1}
    assert cell.run(0).train.encoder == "words-l4-h128"
    assert space.cells()[-1].run(0).train.encoder == "tiny"


def test_a_value_without_counterpart_is_no_cell(tmp_path):
    space = resolved(tmp_path, SPACE)
    assert space.size() == len(space.cells()) == 4
    assert not space.contains({"train.encoder": "large", "method.dup_rate": 0.1})
    assert resolved(tmp_path, LISTED).size() == len(resolved(tmp_path, LISTED).cells()) == 1


def test_a_run_is_recognised_as_its_row(tmp_path):
    space = resolved(tmp_path, SPACE)
    assert [space.key_of(cell.run(0).flat()) for cell in space.cells()] == [cell.key for cell in space.cells()]


def test_the_command_line_is_taken_as_it_stands(tmp_path):
    space = resolved(tmp_path, SPACE, **{"train.encoder": "large"})
    assert {cell.run(0).train.encoder for cell in space.cells()} == {"large"}
    assert space.substitutions() == {}
    (cell,) = resolved(tmp_path, LISTED, **{"train.encoder": "base"}).cells()
    assert cell.run(0).train.encoder == "base"


def test_the_table_says_so_and_keeps_the_other_published_numbers(tmp_path):
    spec = build.spec_of(resolved(tmp_path, SPACE))
    assert spec.notes == ["At profile p: train.encoder=large left out, train.encoder=base is words-l4-h128."]
    assert [row.key["train.encoder"] for row in spec.published] == ["base"]
    assert spec.columns == ["sts_dev", "transfer_dev"]


def test_an_axis_with_nothing_left_is_refused(tmp_path):
    only = SPACE.replace("[large, base, tiny]", "[large]").partition("paper:")[0]
    with pytest.raises(ConfigError, match=r"nothing left: space.train.encoder has no value with a count"):
        resolved(tmp_path, only)


def test_published_rows_may_leave_out_what_does_not_count(tmp_path):
    text = LISTED.replace("{train.encoder: base}", "{train.dropout: 0.2}") + (
        "paper: {citation: c, table: t, source: s, metric: m, columns: [sts_dev], rows: ["
        "{key: {train.dropout: 0.2}, cells: {sts_dev: 80}}]}\n"
    )
    spec = build.spec_of(resolved(tmp_path, text))
    assert [row.key for row in spec.published] == [{"train.encoder": None, "train.dropout": 0.2}]


def test_a_figure_without_numbers_has_a_reference_alone(tmp_path):
    paper = "paper: {citation: c, table: Figure 2, source: s, metric: m, notes: found}\n"
    space = resolved(tmp_path, LISTED + paper).space
    assert space.paper is not None and (space.paper.columns, space.paper.rows) == ((), ())


@pytest.mark.parametrize("table", ["[a]", "{train.encoder: [a]}", "{train.encodr: {a: b}}", "{train.seed: {a: 1}}"])
def test_a_bad_substitution_is_one_line(tmp_path, table):
    (tmp_path / "p.yaml").write_text(f"version: 1\nsubstitutions: {table}\n")
    with pytest.raises(ConfigError) as caught:
        load_profile(str(tmp_path / "p.yaml"))
    assert len(caught.value.problems) == 1
