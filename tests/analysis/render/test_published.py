"""Rows of the paper alone and misprints, in every format."""

import csv
import io
import json

from analysis.render.formats import render
from analysis.tables.aggregate import Table, aggregate
from analysis.tables.spec import PaperRow, TableSpec
from tests.run_values import value_of

ROW = PaperRow(key={"m": "a"}, cells={"x": 80.0, "avg": 81.0}, recomputed={"avg": 80.5})
REFERENCE = PaperRow(label="GloVe & co", cells={"x": 55.14})
SPEC = TableSpec(id="T", axes=["m"], columns=["x", "avg"], rows=[{"m": "a"}], published=[ROW], references=[REFERENCE])


def table(spec: TableSpec = SPEC) -> Table:
    return aggregate(spec, [value_of({"m": "a"}, 79.0, column="x")])


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
    assert found["references"] == [{"label": REFERENCE.label, "cells": REFERENCE.cells}]
    assert [cell.get("recomputed") for cell in found["rows"][0]["cells"].values()] == [None, 80.5]
    lines = list(csv.DictReader(io.StringIO(render(table(), "csv"))))
    assert [(line["row"], line["x published"]) for line in lines] == [
        ("trained", "80.0"),
        ("paper: GloVe & co", "55.14"),
    ]


def test_a_column_has_the_decimals_that_the_paper_prints() -> None:
    spec = TableSpec(
        id="G", axes=["m"], columns=["x"], rows=[{"m": "a"}], published=[PaperRow(key={"m": "a"}, cells={"x": 0.0842})]
    )
    lines = [value_of({"m": "a"}, 0.12345, column="x")]
    assert "0.1235 |  0.0842 | +0.0393 |" in render(aggregate(spec, lines), "md")
