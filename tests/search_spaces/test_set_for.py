"""A column that stands on runs of its own: which cells a row has, what scores them, and what a file may say."""

from pathlib import Path

import pytest

from analysis.answers.build import list_apart, spec_of
from analysis.tables import results
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cell_names import cell_argument, choose
from search_spaces.cells import PART, full_key, resolve
from search_spaces.parse import parse_file

TABLES = {"D3": (9, 8), "D4": (4, 4), "D5": (4, 3), "D6": (7, 7), "D11": (10, 9)}
"""Table -> its rows, and those that are DiffCSE's: 31 of the 34 printed transfer values; three are SimCSE's."""
TRANSFER = {"train.learning_rate": 2e-6, "method.masking_ratio": 0.15, "train.examples": 2_000_000}
"""DiffCSE, Table 13, BERT-base."""
FILE = """
version: 1
id: T
method: diffcse
evaluate: [sts_dev, transfer_dev]
set_for: {set_for}
space:
  method.masking_ratio: {{grid: [0.15, 0.3]}}
"""


@pytest.mark.parametrize("name", TABLES)
def test_the_transfer_columns_of_diffcse_train_at_table_13(name: str) -> None:
    resolved = resolve(load_space(name), "paper")
    parts = [cell for cell in resolved.cells() if cell.part]
    assert (len(resolved.rows()), len(parts)) == TABLES[name]
    for cell in parts:
        assert {key: cell.flat[key] for key in TRANSFER} == TRANSFER
        assert cell.flat["method.lambda_weight"] == cell.key.get("method.lambda_weight", 0.05)
        assert resolved.suites_of(cell.key) == ("transfer_dev",)
    for row in resolved.rows():
        both = row.flat["method"] == "simcse"
        assert resolved.suites_of(row.key) == (("sts_dev", "transfer_dev") if both else ("sts_dev",))


def test_what_the_paper_prints_once_is_one_run() -> None:
    """85.95 stands in four tables; the STS values beside it are 84.56 and, at masking ratio 0.15, 84.48."""
    settings = []
    for name in ("D3", "D4", "D5", "D6", "D11"):
        resolved = resolve(load_space(name), "paper")
        assert resolved.space.paper is not None
        rows = [row.key for row in resolved.space.paper.rows if row.cells["transfer_dev"] == 85.95]
        named = [full_key(resolved, {**key, PART: "transfer_dev"}) for key in rows]
        settings += [cell.flat for cell in resolved.cells() if full_key(resolved, cell.key) in named]
    assert len(settings) == 5 and all(flat == settings[0] for flat in settings)


def test_a_row_of_the_table_stays_one_row() -> None:
    resolved = resolve(load_space("D4"), "paper")
    assert len(spec_of(resolved).rows) == 4
    assert list_apart(resolved) == [
        "transfer_dev stands on runs of its own, with method.masking_ratio=0.15, method.lambda_weight=0.05."
    ]
    for cell in resolved.cells():
        assert choose(resolved, [cell_argument(cell)], resolved.cells()) is cell


def test_a_setting_that_changes_nothing_trains_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(FILE.format(set_for="{transfer_dev: {method.lambda_weight: 0.05}}"))
    space = parse_file(tmp_path / "t.yaml")
    assert len(resolve(space, "small").cells()) == 4
    same = resolve(space, "small", {"method.lambda_weight": 0.05})
    assert [cell.part for cell in same.cells()] == [None, None]
    assert same.suites_of(same.cells()[0].key) == ("sts_dev", "transfer_dev")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("{transfer: {method.lambda_weight: 0.1}}", "no such column: set_for.transfer="),
        ("{transfer_dev: {method.lamda_weight: 0.1}}", "unknown key: method.lamda_weight=0.1; did you mean"),
        ("{transfer_dev: {method.lambda_weight: much}}", "wrong type: method.lambda_weight='much'"),
        ("{transfer_dev: 3}", "give {suite: {key: value}} such as"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, given: str, line: str) -> None:
    (tmp_path / "t.yaml").write_text(FILE.format(set_for=given))
    with pytest.raises(ConfigError) as error:
        parse_file(tmp_path / "t.yaml")
    assert [line in problem for problem in error.value.problems] == [True], error.value.problems


def test_a_search_has_no_columns_of_its_own(tmp_path: Path) -> None:
    text = FILE.format(set_for="{transfer_dev: {method.lambda_weight: 0.05}}") + "search: {num_samples: 1}\n"
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(ConfigError, match="nothing to set for"):
        parse_file(tmp_path / "t.yaml")


def test_the_table_and_the_space_call_it_alike() -> None:
    assert results.PART == PART
