"""Short names that tell rows apart, keys as values that compare, and runs of one cell on several data sets."""

import numpy as np

from analysis.render.markup import shorten
from analysis.tables.labels import choose_axes, distinguish_runs, label
from analysis.tables.spec import identify


def test_an_axis_that_says_the_same_as_an_earlier_one_is_not_named() -> None:
    keys = [{"method": "simcse", "pooler": "cls", "size": 1}, {"method": "declutr", "pooler": "mean", "size": 1}]
    assert choose_axes(keys, ["method", "pooler", "size"]) == ["method"]
    assert choose_axes([*keys, {"method": "simcse", "pooler": "mean", "size": 1}], ["method", "pooler", "size"]) == [
        "method", "pooler",
    ]  # fmt: skip
    assert choose_axes(keys[:1], ["method"]) == []


def test_a_search_names_every_axis_that_varies() -> None:
    """One drawn number tells all cells apart by chance, which is no reason to leave the others out."""
    keys = [{"rate": 0.1, "size": 1, "depth": 3}, {"rate": 0.2, "size": 2, "depth": 3}]
    assert choose_axes(keys, ["rate", "size", "depth"], searched=True) == ["rate", "size"]


def test_labels_are_short_words() -> None:
    key = {"method.dup_rate": 0.32, "method.momentum": None, "train.batch_size": 64}
    assert label(key) == "dup_rate=0.32 momentum=off batch_size=64"
    assert label(key, ["train.batch_size"]) == "batch_size=64" and label(key, []) == "all"


def test_a_long_name_keeps_both_ends() -> None:
    assert shorten("short") == "short"
    assert shorten("a" * 50 + "b" * 50, 20) == "a" * 10 + "…" + "b" * 9


A, B = {"corpus": "aaaaaaaaaaaa", "dev": "d", "examples": 3}, {"corpus": "bbbbbbbbbbbb", "dev": "d", "examples": 4}


def test_inputs_that_differ_within_a_cell_are_named_for_all() -> None:
    runs = [("one", {"x": 1}, 0, A), ("two", {"x": 1}, 1, B), ("three", {"x": 2}, 0, A)]
    assert distinguish_runs(runs) == {
        "one": {"corpus": "aaaaaaaa"},
        "two": {"corpus": "bbbbbbbb"},
        "three": {"corpus": "aaaaaaaa"},
    }


def test_inputs_that_only_cells_differ_in_are_not_named() -> None:
    assert distinguish_runs([("one", {"x": 1}, 0, A), ("two", {"x": 2}, 0, B)]) == {}


def test_an_input_that_some_runs_lack_tells_them_apart() -> None:
    coded = A | {"code": "0123456789"}
    assert distinguish_runs([("one", {}, 0, A), ("two", {}, 1, coded)]) == {
        "one": {"code": ""},
        "two": {"code": "01234567"},
    }


def test_runs_alike_in_all_but_their_signature_are_of_other_code() -> None:
    assert distinguish_runs([("signature1", {}, 0, A), ("another", {}, 0, A)]) == {
        "signature1": {"run": "signatur"},
        "another": {"run": "another"},
    }


def test_keys_compare_by_value_across_types() -> None:
    assert identify({"a": 2, "b": "x"}) == identify({"b": "x", "a": np.float64(2.0)})
    assert identify({"a": True}) != identify({"a": 1})
    assert identify({"a": None}) == identify({"a": float("nan")})
    assert identify({"a": [1, 2.0]}) == identify({"a": (1.0, 2)})
