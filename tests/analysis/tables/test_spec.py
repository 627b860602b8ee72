"""A table's spec refuses published values that fit no row."""

import dataclasses

import numpy as np
import pytest

from analysis.tables.spec import TableError, TableSpec, identify


def spec(**changes: object) -> TableSpec:
    given = {
        "id": "T1",
        "axes": ["method.queue"],
        "columns": ["sts_dev"],
        "rows": [{"method.queue": 1}, {"method.queue": None}],
        "published": [{"key": {"method.queue": 1.0}, "cells": {"sts_dev": 80.0}}],
    }
    return TableSpec(**(given | changes))  # type: ignore[arg-type]


def test_a_published_row_may_write_its_number_in_another_way() -> None:
    assert spec().published[0]["cells"] == {"sts_dev": 80.0}


@pytest.mark.parametrize(
    ("published", "told"),
    [
        ({"key": {"method.queue": 7}, "cells": {}}, "published row: key={'method.queue': 7} of table T1 is no row"),
        ({"key": {"method.queue": 1}, "cells": {"sts_test": 1.0}}, "published column: name=sts_test of table T1"),
        ({"key": {"queue": 1}, "cells": {}}, "must name exactly the axes ['method.queue']"),
    ],
)
def test_published_values_without_a_place(published: dict[str, object], told: str) -> None:
    with pytest.raises(TableError) as failure:
        spec(published=[published])
    assert told in str(failure.value) and "\n" not in str(failure.value)


def test_keys_compare_by_value_across_types() -> None:
    assert identify({"a": 2, "b": "x"}) == identify({"b": "x", "a": np.float64(2.0)})
    assert identify({"a": True}) != identify({"a": 1})
    assert identify({"a": None}) == identify({"a": float("nan")})
    assert identify({"a": [1, 2.0]}) == identify({"a": (1.0, 2)})


def test_replace_checks_again() -> None:
    assert dataclasses.replace(spec(), title="new").title == "new"
    with pytest.raises(TableError):
        dataclasses.replace(spec(), columns=["other"])
