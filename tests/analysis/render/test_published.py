"""Rows of the paper alone and misprints, in every format."""

import csv
import dataclasses
import io
import json

import pytest

from analysis.render.formats import render
from analysis.tables.aggregate import Table, aggregate
from analysis.tables.spec import TableError, TableSpec

ROW = {"key": {"m": "a"}, "cells": {"x": 80.0, "avg": 81.0}, "as_printed": True, "recomputed": {"avg": 80.5}}
REFERENCE = {"label": "GloVe & co", "cells": {"x": 55.14}}
SPEC = TableSpec(id="T", axes=["m"], columns=["x", "avg"], rows=[{"m": "a"}], published=[ROW], references=[REFERENCE])


def table(spec: TableSpec = SPEC) -> Table:
    return aggregate(spec, [{"m": "a", "seed": 0, "column": "x", "value": 79.0}])


def test_markdown_marks_both() -> None:
    assert render(table(), "md") == (
        "**T**\n"
        "\n"
        "| m                 |   n |     x | x paper |     Δ | avg | avg paper |   Δ |\n"
        "| ----------------- | --: | ----: | ------: | ----: | --: | --------: | --: |\n"
        "| a                 | 1/0 | 79.00 |   80.00 | -1.00 |     |    81 sic |     |\n"
        "| paper: GloVe & co |     |       |   55.14 |       |     |           |     |\n"
        "\n"
        '- Rows that begin with "paper:" are models that are not trained here\n'
        "- As printed: avg 81 of m=a; the row's other numbers give 80.5\n"
    )


def test_latex_and_html_hold_them() -> None:
    tex, page = render(table(), "tex"), render(table(), "html")
    assert r"paper: GloVe \& co &  & -- & 55.14 & -- & -- & -- & -- \\" in tex
    assert '<th scope="row">paper: GloVe &amp; co</th>' in page and "<td>81 sic</td>" in page


def test_json_and_csv_hold_them() -> None:
    found = json.loads(render(table(), "json"))
    assert found["references"] == [REFERENCE]
    assert [cell.get("recomputed") for cell in found["rows"][0]["cells"].values()] == [None, 80.5]
    lines = list(csv.DictReader(io.StringIO(render(table(), "csv"))))
    assert [(line["row"], line["x published"]) for line in lines] == [
        ("trained", "80.0"),
        ("paper: GloVe & co", "55.14"),
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"references": [{"label": "L", "cells": {"y": 1.0}}]}, "reference column: name=y of table T"),
        ({"scores": {"y": "sts"}}, "scored column: name=y of table T"),
        ({"default": {"m": "b"}}, "default row: key={'m': 'b'} of table T is no row"),
        ({"published": [ROW | {"as_printed": False}]}, "half a misprint: recomputed={'avg': 80.5}"),
        ({"published": [ROW | {"recomputed": {"z": 1.0}}]}, "half a misprint: recomputed={'z': 1.0}"),
    ],
)
def test_what_fits_no_column_or_row_is_refused(change: dict[str, object], told: str) -> None:
    with pytest.raises(TableError) as caught:
        dataclasses.replace(SPEC, **change)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_column_has_the_decimals_that_the_paper_prints() -> None:
    spec = TableSpec(
        id="G", axes=["m"], columns=["x"], rows=[{"m": "a"}], published=[{"key": {"m": "a"}, "cells": {"x": 0.0842}}]
    )
    lines = [{"m": "a", "seed": 0, "column": "x", "value": 0.12345}]
    assert "0.1235 |  0.0842 | +0.0393 |" in render(aggregate(spec, lines), "md")
