"""Row keys as values that compare."""

import numpy as np

from analysis.tables.spec import identify


def test_keys_compare_by_value_across_types() -> None:
    assert identify({"a": 2, "b": "x"}) == identify({"b": "x", "a": np.float64(2.0)})
    assert identify({"a": True}) != identify({"a": 1})
    assert identify({"a": None}) == identify({"a": float("nan")})
    assert identify({"a": [1, 2.0]}) == identify({"a": (1.0, 2)})
