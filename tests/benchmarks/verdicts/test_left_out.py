"""Verdicts without every third seed."""

import numpy as np

from analysis.tables.directions import Terms
from benchmarks.verdicts.left_out import Judged, judged, whole


def page_of(scores_RS: np.ndarray) -> dict:
    """A page with one column, whose first row is the reference."""
    rows = [
        {
            "key": {"method.dup_rate": index},
            "cells": {
                "c": {
                    "n": len(values),
                    "values": list(values),
                    "seeds": list(range(len(values))),
                    "published": 80 + index,
                }
            },
        }
        for index, values in enumerate(scores_RS.tolist())
    ]
    verdicts = [
        {"key": row["key"], "column": "c", "word": "undecided" if index else "reference"}
        for index, row in enumerate(rows)
    ]
    return {"id": "T", "axes": ["method.dup_rate"], "rows": rows, "verdicts": verdicts}


def test_a_direction_and_a_tie_by_hand() -> None:
    assert Judged("same direction", -0.1, 2.0).contradicted(0.5)
    assert not Judged("opposite direction", -0.1, -2.0).contradicted(0.5)
    assert Judged("tie", 0.6, 0.1).contradicted(0.5) and not Judged("tie", -0.4, 0.1).contradicted(0.5)


def test_a_row_that_is_far_away_is_told_without_each_third() -> None:
    noise = np.random.default_rng(0).normal(scale=0.1, size=(3, 6))
    found = list(judged(page_of(np.array([[50.0], [60.0], [50.0]]) + noise), Terms()))
    assert [one.word for one in found].count("same direction") == 3
    assert not any(one.contradicted(0.5) for one in found)


def test_seeds_that_were_left_out_may_contradict() -> None:
    """Seeds 0, 3 and 6 alone put the second row below; without them it is above."""
    scores = np.array([[50.0] * 9, [60.0] * 9]) + np.random.default_rng(1).normal(scale=0.1, size=(2, 9))
    scores[1, ::3] -= 20
    found = [one for one in judged(page_of(scores), Terms()) if one.difference < 0]
    assert found and all(one.contradicted(0.5) and one.said > 9 for one in found)


def test_a_page_without_values_is_not_whole() -> None:
    page = page_of(np.ones((2, 3)))
    assert whole(page)
    del page["rows"][1]["cells"]["c"]["values"]
    assert not whole(page)
