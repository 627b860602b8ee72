"""YAML as the project reads it: scalars stay what was written, domains, and nothing that crashes a reader."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.faults.fuzz_spaces import fuzz, outcome
from cse.cli.app import main
from cse_train.fields import ConfigError
from search_spaces.domains import Domain, assignments, contains, parents_first, parse_domain, sample, size
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


def grid(*values, **when):
    return Domain("grid", values, {k: tuple(v) for k, v in when.items()})


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        ({"grid": []}, "empty grid"), ({"grid": [1, 1]}, "duplicate value"), ({"grid": 1}, "wrong type"),
        ({"grid": [[1]]}, "wrong type"), ({"uniform": [2, 1]}, "wrong ends"), ({"uniform": [1]}, "wrong ends"),
        ({"loguniform": [0, 1]}, "wrong ends"), ({"randint": [1, 2.5]}, "wrong ends"), ([1, 2], "wrong domain"),
        ({}, "wrong domain"), ({"grid": [1], "choice": [1]}, "wrong domain"),
        ({"gird": [1], "grid": [1]}, "unknown key"),
        ({"grid": [1], "when": 3}, "wrong type"),
    ],
)  # fmt: skip
def test_each_mistake_names_its_rule(raw, rule):
    domain, problems = parse_domain("train.x", raw)
    assert domain is None
    assert problems[0].startswith(f"{rule}: train.x") and ";" in problems[0]


def test_true_and_one_are_different_values():
    assert parse_domain("x", {"grid": [True, 1, 0, False]})[1] == []


def test_randint_includes_both_ends():
    assert list(parse_domain("x", {"randint": [2, 4]})[0].values()) == [2, 3, 4]


def test_first_axis_is_slowest_and_a_false_condition_drops_the_axis():
    axes = {"method": grid("a", "b"), "m.x": grid(1, 2, method=["b"]), "t.y": grid(0)}
    keys = assignments(axes, {})
    assert keys == [{"method": "a", "t.y": 0}, {"method": "b", "m.x": 1, "t.y": 0}, {"method": "b", "m.x": 2, "t.y": 0}]
    assert size(axes, {}) == 3
    assert all(contains(axes, {}, key) for key in keys)
    assert not contains(axes, {}, {"method": "a", "m.x": 1, "t.y": 0})
    assert not contains(axes, {}, {"method": "b", "m.x": 3, "t.y": 0})


def test_conditions_may_name_later_axes_but_not_run_in_a_circle():
    ordered, problems = parents_first({"x": grid(1, y=[1]), "y": grid(1, 2)})
    assert list(ordered) == ["y", "x"] and not problems
    assert "circular when" in parents_first({"x": grid(1, y=[1]), "y": grid(1, x=[1])})[1][0]


def test_samples_stay_inside_and_cover_a_log_range_evenly():
    axes = {"r": Domain("loguniform", (1e-5, 1e-1)), "u": Domain("uniform", (0, 2)), "k": Domain("randint", (1, 3))}
    rng = np.random.default_rng(0)
    drawn = [sample(axes, {}, rng) for _ in range(600)]
    assert all(contains(axes, {}, key) for key in drawn)
    assert 0.4 < np.mean([key["r"] < 1e-3 for key in drawn]) < 0.6
    assert {key["k"] for key in drawn} == {1, 2, 3}
    assert size(axes, {}) is None


HEAD = "version: 1\nid: T\nmethod: simcse\n"
GRID = "space: {train.learning_rate: {grid: [1.0e-4]}}\n"


def test_sixty_mutated_spaces() -> None:
    ends, broken = fuzz(60, seed=1)
    assert not broken, broken[0].why
    assert min(ends["refused"], ends["planned"]) > 0, "both ends are reached"


@pytest.mark.slow
def test_two_thousand_mutated_spaces() -> None:
    _, broken = fuzz(2000, seed=0)
    assert not broken, broken[0].why


def test_what_breaks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.faults.fuzz_spaces.parse_file", lambda path: {}["absent"])
    assert outcome(HEAD, tmp_path / "s.yaml").startswith("KeyError")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HEAD + "title: a\0b\n" + GRID, "control characters are not allowed"),
        ("version: 1\nid: T\nspace: 1.5\n", "wrong type: space=1.5; give a mapping"),
        (HEAD + f"seeds: {'9' * 17}\n" + GRID, "wrong type: seeds=99999999999999999; give a count of at most"),
        (HEAD + f"seeds: {'9' * 5000}\n" + GRID, "a number of 5000 digits"),
        (HEAD + f"set: {'[' * 5000}\n", "depth=unbounded"),
        (HEAD + "set: &own {train.examples: *own}\n" + GRID, "an alias; write the value out"),
        (HEAD + "set: !!python/object/apply:os.mkdir [ran]\n" + GRID, "could not determine a constructor"),
    ],
)
def test_hostile_yaml_is_told_in_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(text, encoding="utf8")
    assert main(["plan", "mine.yaml"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert any(problem in line for line in lines) and all(line.startswith("cse: mine.yaml: ") for line in lines)
    assert not Path("ran").exists()
