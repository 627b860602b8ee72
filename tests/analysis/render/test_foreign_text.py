"""Texts of others in every format: nothing that a terminal, LaTeX or a spreadsheet would obey."""

import csv
import io

import pytest

from analysis.render import formats
from analysis.render.formats import render
from analysis.render.formats.csv import cell
from analysis.render.formats.tex import LATEX
from analysis.tables.aggregate import Table, aggregate
from analysis.tables.spec import TableSpec
from tests.run_values import value_of

TITLE = "a\r\rtitle \x1b]0;owned\x07 \u202etfel\ud800"


def table(value: str = "=HYPERLINK(1)") -> Table:
    spec = TableSpec(id="E", title=TITLE, axes=["method.pooler"], columns=["sts_dev"], rows=[{"method.pooler": value}])
    return aggregate(spec, [value_of({"method.pooler": value}, 60.0, column="sts_dev")])


@pytest.mark.parametrize("form", sorted({*formats.names()} - {"json"}))
def test_no_format_passes_control_characters_on(form: str) -> None:
    text = render(table("b\x1b[31m\rc"), form)
    assert all(letter == "\n" or letter.isprintable() for letter in text), repr(text)


def test_latex_cells_are_no_arguments_of_the_line_before() -> None:
    assert LATEX.escape("[2pt]") == "{}[2pt]" and LATEX.escape("*x") == "{}*x" and LATEX.escape(" [x") == "{} [x"
    assert LATEX.escape("a[*]") == "a[*]"
    caption = next(line for line in render(table("[x"), "tex").splitlines() if line.startswith(r"\caption"))
    assert "a title" in caption and caption.endswith("}")
    assert "\n{}[x & " in render(table("[x"), "tex")


def test_a_spreadsheet_computes_nothing() -> None:
    rows = list(csv.reader(io.StringIO(render(table(), "csv"))))
    assert rows[1][1] == "'=HYPERLINK(1)"
    assert [cell(text) for text in ("@x", "+x", "-x", " =x", "\t=x")] == ["'@x", "'+x", "'-x", "' =x", "' =x"]
    assert [cell(text) for text in ("-0.5", "+1e-4", "x=1", "simcse")] == ["-0.5", "+1e-4", "x=1", "simcse"]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "[x](javascript:alert(1))"])
def test_a_reader_of_markdown_finds_no_html_and_no_link(text: str) -> None:
    spec = TableSpec(id="E", title=text, axes=["method.pooler"], columns=["sts_dev"], rows=[{"method.pooler": text}])
    markdown = render(aggregate(spec, [value_of({"method.pooler": text}, 60.0, column="sts_dev")]), "md")
    assert "alert" in markdown and "<script" not in markdown and "](" not in markdown
