"""Domains, conditions and the cells that they span."""

import numpy as np
import pytest

from search_spaces.domains import Domain, assignments, contains, parents_first, parse_domain, sample, size


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
