"""Runs of one cell on several data sets are told apart, and those of a cell on one data set are not."""

from analysis.tables.labels import distinguish_runs

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
