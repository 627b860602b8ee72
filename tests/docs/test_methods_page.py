"""docs/methods.md is what the tables and docs/proofs.yaml say, its settings are runs, and its tests exist."""

import ast
import re
from pathlib import Path

from cse_train import fields, methods
from cse_train.config import parse_run
from docs.methods_page import folder, proofs_of, read_proofs, text, trained_tables
from search_spaces.cell_names import setting
from search_spaces.cells import resolve
from search_spaces.identity.method_code import read_released
from search_spaces.strict_yaml import parse_yaml

TESTS = Path(__file__).resolve().parents[1] / "cse_train"
PUBLISHED = (folder() / "methods.md").read_text(encoding="utf8")
ROWS = [line for line in PUBLISHED.splitlines() if "| `method=" in line]


def functions_of(path: Path) -> set[str]:
    """Names of the test functions of a file, read from its syntax tree."""
    found = ast.walk(ast.parse(path.read_text(encoding="utf8")))
    return {node.name for node in found if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_the_published_file_is_current() -> None:
    assert text() == PUBLISHED, "run `python -m docs.methods_page` and commit docs/methods.md"


def test_every_cell_of_every_table_has_a_row() -> None:
    assert len(ROWS) == sum(resolve(space, "paper").size() or 0 for space in trained_tables())
    named = set(re.findall(r"^## (\w\d+) ", PUBLISHED, re.MULTILINE))
    wanted = "S1 S2 S3 S5 S6 S7 D3 D4 D5 D6 D7 D8 D11 E3 E4 E5 E7 E8 C4 L2 L3".split()
    assert named == set(wanted)


def test_every_row_s_settings_are_a_run() -> None:
    for row in ROWS:
        pairs = re.findall(r"`([\w.]+)=([^`]*)`", row.split("|")[2])
        settings = {key: parse_yaml(f"value: {value}", key)["value"] for key, value in pairs}
        run = parse_run(settings)
        assert {key: run.flat()[key] for key in settings} == settings, row


def test_every_named_test_exists() -> None:
    named = {test for own in read_proofs().values() for tests in own.values() for test in tests}
    missing = [test for test in sorted(named) if test.split("::")[1] not in functions_of(TESTS / test.split("::")[0])]
    assert not missing
    assert set(re.findall(r"`([\w/]+\.py::\w+)`", PUBLISHED)) <= named


def test_every_row_and_every_option_has_a_test() -> None:
    assert not [line for line in PUBLISHED.splitlines() if line.startswith("|") and line.endswith("|  |")]
    for method in read_released():
        proved = {setting.partition("=")[0] for setting in read_proofs()[method]}
        options = {f"method.{name}" for name in fields.hints(methods.config_class(method))}
        assert options == proved - {"*"}, method


def test_a_value_s_own_tests_go_before_the_setting_s() -> None:
    proofs = {"train": {}, "m": {"method.a": ["x"], "method.a=1": ["y"], "*": ["z"]}}
    assert proofs_of({"method": "m", "method.a": 1}, proofs) == ["y"]
    assert proofs_of({"method": "m", "method.a": 2}, proofs) == ["x"]
    assert proofs_of({"method": "m"}, proofs) == ["z"]
    assert [setting("k", value) for value in ("a", "3", True, None)] == ["k=a", 'k="3"', "k=true", "k=null"]
