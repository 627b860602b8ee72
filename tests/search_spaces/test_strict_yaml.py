"""The strict loader: what YAML 1.1 would twist stays what was written."""

import pytest

from cse_train.fields import ConfigError
from search_spaces.strict_yaml import parse_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5), ("1E5", 1e5), ("3.", 3.0), (".5", 0.5), ("-2", -2), ("010", 10), ("1_000", "1_000"),
        ("on", "on"), ("off", "off"), ("yes", "yes"), ("no", "no"), ("y", "y"), ("true", True), ("False", False),
        ("null", None), ("~", None), ("", None), ("2024-01-01", "2024-01-01"), ("12:30:00", "12:30:00"),
    ],
)  # fmt: skip
def test_scalars_are_yaml_1_2(text, value):
    read = parse_yaml(f"key: {text}", "f")["key"]
    assert read == value and type(read) is type(value)


def test_duplicate_keys_are_all_named_with_their_lines():
    with pytest.raises(ConfigError) as caught:
        parse_yaml("a: 1\nb: {c: 1, c: 2}\na: 3\n", "my.yaml")
    assert caught.value.problems == [
        "my.yaml: duplicate key: c on line 2, first on line 2; keep one",
        "my.yaml: duplicate key: a on line 3, first on line 1; keep one",
    ]


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2", "", "1: 2", "a: !!python/object:os.system {}", "a: b: c"])
def test_anything_else_is_one_line(text):
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "my.yaml")
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith("my.yaml: ") and "\n" not in caught.value.problems[0]


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"unreadable file: file=.*none\.yaml; No such file"):
        read_yaml(tmp_path / "none.yaml")
