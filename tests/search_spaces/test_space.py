"""Space files: what a good one becomes, and that a bad one says everything at once."""

from pathlib import Path

import pytest

from cse_train.fields import ConfigError
from search_spaces import keys
from search_spaces.catalog import load_space, load_spaces
from search_spaces.cells import resolve
from search_spaces.profiles import Profile

GOOD = """\
version: 1
id: T
method: esimcse
set: {train.batch_size: 8}
space:
  method.queue_multiple: {grid: [1, 2.5]}
  train.learning_rate: {grid: [1e-4, 3e-4]}
"""
SMALL = Profile("p", {"train.batch_size": 4, "train.examples": 64}, {"esimcse": {"train.examples": 128}})


def write(folder: Path, text: str, name: str = "space.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def problems(folder: Path, text: str) -> list[str]:
    path = write(folder, text)
    with pytest.raises(ConfigError) as caught:
        load_space(path)
    assert all(line.startswith(f"{path}: ") and "\n" not in line for line in caught.value.problems)
    return [line.removeprefix(f"{path}: ") for line in caught.value.problems]


@pytest.mark.parametrize("name", ["sts_test", "sickr_test", "sts14", "mteb/stsbenchmark-sts:test"])
def test_a_test_set_picks_no_checkpoint(name: str) -> None:
    (line,) = keys.problems({"train.dev": name}, ["simcse"])
    assert line == (
        f"test set as dev: train.dev={name}; a checkpoint is picked on sts_dev, sickr_dev, generated_dev, "
        f"mteb/stsbenchmark-sts, evaluate: takes {name}"
    )


@pytest.mark.parametrize("name", ["sts_dev", "generated_dev:20", "mteb/stsbenchmark-sts", "sts_train", "mine.tsv"])
def test_dev_and_training_sets_and_names_that_nobody_knows_are_no_test_sets(name: str) -> None:
    assert keys.problems({"train.dev": name}, ["simcse"]) == []


def test_cells_follow_the_file_and_hold_every_setting(tmp_path):
    resolved = resolve(load_space(write(tmp_path, GOOD)), SMALL)
    cells = resolved.cells()
    assert [dict(c.key) for c in cells][:2] == [
        {"method.queue_multiple": 1.0, "train.learning_rate": 1e-4},
        {"method.queue_multiple": 1.0, "train.learning_rate": 3e-4},
    ]
    assert resolved.size() == len(cells) == len({c.id for c in cells}) == 4
    run = cells[0].run(seed=7)
    assert (run.train.seed, run.train.batch_size, run.train.examples) == (7, 8, 128)
    assert isinstance(run.options.queue_multiple, float)


def test_precedence_profile_method_file_axis_command_line(tmp_path):
    space = load_space(write(tmp_path, GOOD))
    overrides = {"train.examples": 32, "train.batch_size": 16, "train.learning_rate": 1e-3}
    cells = resolve(space, SMALL, overrides).cells()
    assert len(cells) == 2, "an overridden axis holds one value"
    assert {c.key["train.learning_rate"] for c in cells} == {1e-3}
    assert {(c.run(0).train.examples, c.run(0).train.batch_size) for c in cells} == {(32, 16)}


def test_conditional_axis_of_a_two_method_space(tmp_path):
    text = """\
version: 1
id: T
space:
  method: {grid: [simcse, esimcse]}
  method.dup_rate: {grid: [0.1, 0.3], when: {method: esimcse}}
"""
    resolved = resolve(load_space(write(tmp_path, text)), SMALL, {"method.dup_rate": 0.2})
    assert [{axis: cell.key.get(axis) for axis in resolved.space.axis_names} for cell in resolved.cells()] == [
        {"method": "simcse", "method.dup_rate": None},
        {"method": "esimcse", "method.dup_rate": 0.2},
    ]
    assert [c.run(0).method for c in resolved.cells()] == ["simcse", "esimcse"]
    assert resolved.key_of(resolved.cells()[0].run(0).flat()) == {"method": "simcse"}


def test_listed_cells_fill_their_key_from_set(tmp_path):
    text = """\
version: 1
id: T
method: simcse
set: {method.fixed_dropout: false}
cells:
  - {label: plain, set: {train.dropout: 0.1}}
  - {label: fixed, set: {train.dropout: 0.1, method.fixed_dropout: true}}
"""
    resolved = resolve(load_space(write(tmp_path, text)), SMALL)
    assert [c.label for c in resolved.cells()] == ["plain", "fixed"]
    assert [{axis: cell.key.get(axis) for axis in resolved.space.axis_names} for cell in resolved.cells()] == [
        {"train.dropout": 0.1, "method.fixed_dropout": False},
        {"train.dropout": 0.1, "method.fixed_dropout": True},
    ]
    assert [c.run(0).options.fixed_dropout for c in resolved.cells()] == [False, True]
    assert len(resolve(resolved.space, SMALL, {"method.fixed_dropout": True}).cells()) == 1


def test_every_problem_of_a_file_at_once(tmp_path):
    lines = problems(
        tmp_path,
        """\
version: 2
id: T
methd: esimcse
method: esimcse
seeds: 0
set: {train.batch_sise: 8, train.warmup_ratio: big, train.seed: 1}
space:
  method.dup_rate: {grid: [0.1, 7]}
  method.queue_multiple: {grid: []}
  train.learning_rate: {loguniform: [1e-5, 1e-4]}
""",
    )
    rules = [line.split(":")[0] for line in lines]
    assert sorted(rules) == sorted(
        ["unknown key", "wrong version", "empty grid", "unknown key", "wrong type", "wrong key", "out of range",
         "no search", "wrong type"]
    )  # fmt: skip
    assert any("methd=esimcse; did you mean method?" in line for line in lines)
    assert any("train.batch_sise=8; did you mean train.batch_size?" in line for line in lines)
    assert any(line.startswith("empty grid: method.queue_multiple.grid=[]") for line in lines)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("method: esimcse", "method: simcse", "key of another method: method.queue_multiple=1 belongs to esimcse"),
        ("method: esimcse", "method: simces", "unknown method: method=simces; did you mean simcse?"),
        ("id: T", "", "wrong type: id=None"),
        ("set: {train.batch_size: 8}", "set: {train.learning_rate: 1e-4}", "key set twice: train.learning_rate"),
        ("set: {train.batch_size: 8}", "cells: [{label: a, set: {}}]", "no single list of cells: space,cells=both"),
        ("grid: [1, 2.5]", "grid: [1, on]", "wrong type: method.queue_multiple='on' is a str; give float"),
        ("{grid: [1e-4, 3e-4]}", "{grid: [1e-4], when: {method.x: 1}}", "unknown key: train.learning_rate.when"),
        ("{grid: [1e-4, 3e-4]}", "{grid: [1e-4], when: {method: simcse}}", "condition never true"),
        ("{grid: [1e-4, 3e-4]}", "{loguniform: [1e-4, 1]}\nsearch: {}", "endless search: search.sampler=tpe"),
        ("version: 1", "version: 1\nsearch: {smapler: tpe}", "unknown key: search.smapler=tpe; did you mean"),
        ("version: 1", "version: 1\nevaluate: sts_dev", "wrong type: evaluate='sts_dev'"),
        ("version: 1", "version: 1\nevaluate: [sts_dve]", "unknown suite: evaluate=sts_dve; did you mean sts_dev?"),
        ("version: 1", "version: 1\nmethod: [simcse]", "duplicate key: method"),
        ("version: 1", "version: 1\nseeds: [0, true]", "wrong type: seeds=[0, True]; give a count of at most 10000"),
        ("version: 1", "version: 1\ntitle: null", "wrong type: title=None; give text"),
        ("version: 1", "version: 1\npaper: {}", "missing key: paper.citation=null; give it"),
        ("version: 1", "version: 1\nsearch: 3", "wrong type: search=3; give a mapping of dotted keys"),
    ],
)  # fmt: skip
def test_one_mistake_one_line(tmp_path, old, new, rule):
    assert old in GOOD
    lines = problems(tmp_path, GOOD.replace(old, new, 1))
    assert lines[0].startswith(rule), lines


def test_every_wrong_item_of_a_list_by_itself_and_the_sound_ones_are_read(tmp_path):
    cells = "[{label: a, set: {}}, {label: b}, 3, {label: c, set: {train.batch_sise: 8}}]"
    lines = problems(tmp_path, f"version: 1\nid: T\nmethod: simcse\ncells: {cells}\n")
    assert lines == [
        "wrong cell: cells={'label': 'b'} (item 2); give a list of {label: ..., set: {key: value}}",
        "wrong cell: cells=3 (item 3); give a list of {label: ..., set: {key: value}}",
        "unknown key: train.batch_sise=8; did you mean train.batch_size?",
    ]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("[{key: {method.queue_multiple: [1]}, cells: {}}]", "wrong type: paper.rows={'key': {'method.queue_multiple'"),
        ("[{key: {}, cells: {dev: true}}]", "wrong type: paper.rows={'key': {}, 'cells': {'dev': True}} (item 1)"),
        ("[{key: {}, cells: {}, as_printed: 1}]", "wrong type: paper.rows={'key': {}, 'cells': {}, 'as_printe"),
    ],
)
def test_a_row_holds_plain_values(tmp_path, rows, line):
    paper = f"paper: {{citation: c, table: t, source: s, metric: m, columns: [dev], rows: {rows}}}\n"
    (problem,) = problems(tmp_path, GOOD + paper)
    assert problem.startswith(line)


@pytest.mark.parametrize("column", ["dev_loss", "perplexity"])
def test_a_printed_column_of_which_less_is_better_needs_its_direction(tmp_path: Path, column: str) -> None:
    paper = f"paper: {{citation: c, table: t, source: s, metric: m, columns: [dev, {column}]"
    line = f"no direction: paper.columns={column}; give best: min, or best: max"
    assert problems(tmp_path, GOOD + paper + "}\n") == [line]
    assert load_space(write(tmp_path, GOOD + paper + ", best: min}\n")).paper.best == "min"


def test_published_rows_are_cells(tmp_path):
    paper = (
        "paper: {citation: c, table: t, source: s, metric: m, columns: [dev], rows: "
        "[{key: {method.queue_multiple: 9, train.learning_rate: 1e-4}, cells: {dve: 1}}]}\n"
    )
    lines = problems(tmp_path, GOOD + paper)
    assert lines[0].startswith("row without a cell: paper.rows.key={'method.queue_multiple': 9")
    assert lines[1] == "unknown column: paper.rows.cells=dve; did you mean dev?"


@pytest.mark.parametrize(
    ("overrides", "rule"),
    [
        ({"train.batch": 1}, "--set: unknown key: train.batch=1; did you mean train.batch_size?"),
        ({"train.batch_size": "x"}, "--set: wrong type"),
        ({"method": "simcse"}, "--set: key of another method: method.queue_multiple=1.0"),
        ({"train.seed": 3}, "--set: wrong key: train.seed=3; seeds come from"),
    ],
)
def test_bad_overrides(tmp_path, overrides, rule):
    space = load_space(write(tmp_path, GOOD))
    with pytest.raises(ConfigError) as caught:
        resolve(space, SMALL, overrides)
    assert caught.value.problems[0].startswith(rule)


def test_ids_paths_and_folders(tmp_path):
    assert load_space("e7").id == "E7"
    with pytest.raises(ConfigError, match=r"unknown space: space=E77; did you mean E7\?"):
        load_space("E77")
    with pytest.raises(ConfigError, match=r"no such file: space=x/none\.yaml"):
        load_space("x/none.yaml")
    write(tmp_path, GOOD, "a.yaml")
    write(tmp_path, GOOD.replace("version: 1", "version: 3"), "b.yaml")
    write(tmp_path, GOOD.replace("id: T", ""), "c.yaml")
    with pytest.raises(ConfigError) as caught:
        load_spaces(tmp_path)
    assert len(caught.value.problems) == 2


def test_bad_profile_is_one_line_each(tmp_path):
    space = load_space(write(tmp_path, GOOD))
    with pytest.raises(ConfigError, match=r"unknown profile: profile=smal; did you mean small\?"):
        resolve(space, "smal")
    bad = write(
        tmp_path, "version: 1\ntrain: {batch: 3}\nmethods: {nope: {}, simcse: {method.dup_rate: 1}}\n", "p.yaml"
    )
    with pytest.raises(ConfigError) as caught:
        resolve(space, str(bad))
    assert len(caught.value.problems) == 3
