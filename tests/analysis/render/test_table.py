"""Tables as text, compared as a whole."""

import csv
import dataclasses
import io
import json
import re
from collections.abc import Sequence
from typing import Literal

from analysis.render.formats import render
from analysis.tables.aggregate import Baseline, Table, aggregate
from analysis.tables.labels import axis_text, label
from analysis.tables.spec import PaperRow, TableSpec
from tests.run_values import value_of

SPEC = TableSpec(
    id="E7",
    title="dup_rate & co",
    axes=["method.dup_rate"],
    columns=["sts_dev"],
    rows=[{"method.dup_rate": 0.08}, {"method.dup_rate": 0.32}, {"method.dup_rate": None}],
    published=[
        PaperRow(key={"method.dup_rate": 0.08}, cells={"sts_dev": 83.5}),
        PaperRow(key={"method.dup_rate": 0.32}, cells={"sts_dev": 84.85}),
    ],
    citation="Wu et al. 2022, Table 9",
    metric="Spearman x 100",
    protocol={"pooler": "cls", "max_length": 512, "data_hash": "0123456789abcdef" * 4},
    notes=["small scale"],
)


def table(spec: TableSpec = SPEC) -> Table:
    lines = [(0.08, 1, 50.0), (0.08, 2, 52.0), (0.32, 1, 61.234), (None, 1, 40.0)]
    lines = [value_of({"method.dup_rate": rate}, value, column="sts_dev", seed=seed) for rate, seed, value in lines]
    return aggregate(spec, lines, baselines=[Baseline("word counts", {"sts_dev": 56.5}), Baseline("none", {})])


def test_markdown() -> None:
    assert render(table(), "md") == (
        "**E7 · dup_rate & co**\n"
        "\n"
        "| method.dup_rate |   n |      sts_dev | sts_dev paper |      Δ |\n"
        "| --------------- | --: | -----------: | ------------: | -----: |\n"
        "| 0.08            |   2 | 51.00 ± 1.41 |         83.50 | -32.50 |\n"
        "| 0.32            |   1 |        61.23 |         84.85 | -23.62 |\n"
        "| off             |   1 |        40.00 |               |        |\n"
        "\n"
        "| without training | sts_dev |\n"
        "| ---------------- | ------: |\n"
        "| word counts      |   56.50 |\n"
        "| none             |         |\n"
        "\n"
        "- Wu et al. 2022, Table 9. Spearman x 100\n"
        "- Protocol: pooler cls, max_length 512, data_hash 0123456789ab\n"
        "- small scale\n"
    )


def test_latex() -> None:
    text = render(table(), "tex")
    assert text.startswith(
        "\\begin{table}[t]\n\\centering\n\\caption{E7 $\\cdot$ dup\\_rate \\& co. Wu et al. 2022, Table 9."
    )
    assert "Protocol: pooler cls, max\\_length 512, data\\_hash 0123456789ab. small scale.}\n\\label{tab:E7}\n" in text
    assert (
        "\\begin{tabular}{lrrrr}\n\\toprule\nmethod.dup\\_rate & n & sts\\_dev & sts\\_dev paper & $\\Delta$ \\\\\n"
        in text
    )
    assert "0.08 & 2 & 51.00{\\scriptsize$\\pm$1.41} & 83.50 & $-$32.50 \\\\\n" in text
    assert "0.32 & 1 & 61.23 & 84.85 & $-$23.62 \\\\\n" in text
    assert "off & 1 & 40.00 & -- & -- \\\\\n\\bottomrule\n\\end{tabular}}\n" in text
    assert text.endswith("\\end{table}\n") and text.count("{") == text.count("}")


def test_html_is_a_fragment_with_headings_for_rows_and_columns() -> None:
    text = render(table(), "html")
    assert text.startswith("<table>\n<caption>E7 · dup_rate &amp; co</caption>\n<thead><tr>")
    assert '<th scope="col">sts_dev paper</th><th scope="col">Δ</th></tr></thead>' in text
    assert (
        '<tr><th scope="row">0.08</th><td>2</td><td>51.00<small> ± 1.41</small></td><td>83.50</td>'
        "<td>\N{MINUS SIGN}32.50</td></tr>"
    ) in text
    assert '<tr><th scope="row">0.32</th><td>1</td><td>61.23</td>' in text
    assert '<tr><th scope="row">word counts</th><td>56.50</td></tr>' in text
    assert "<li>small scale</li>" in text


def test_html_lets_no_text_become_markup() -> None:
    spec = TableSpec(
        id="X", title="<script>alert(1)</script>", axes=["a"], columns=["c"], rows=[{"a": "<b>"}], notes=["<i>&"]
    )
    text = render(aggregate(spec, [], baselines=[Baseline("<img src=x>", {"c": 1.0})]), "html")
    assert not [tag for tag in ("<script", "<b>", "<i>", "<img") if tag in text]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "&lt;img src=x&gt;" in text


def test_csv_holds_full_numbers_and_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(render(table(), "csv"))))
    assert rows[1] == {
        "row": "trained", "method.dup_rate": "0.32", "sts_dev n": "1", "sts_dev mean": "61.234", "sts_dev sd": "",
        "sts_dev published": "84.85", "sts_dev delta": str(61.234 - 84.85),
    }  # fmt: skip
    assert [(row["row"], row["sts_dev mean"]) for row in rows[2:]] == [
        ("trained", "40.0"), ("word counts", "56.5"), ("none", ""),
    ]  # fmt: skip


def test_csv_quotes_what_would_break_a_line() -> None:
    spec = TableSpec(id="X", axes=["a"], columns=["c"], rows=[{"a": 'one, "two"\nthree'}])
    (row,) = csv.DictReader(io.StringIO(render(aggregate(spec, []), "csv")))
    assert row["a"] == 'one, "two"\nthree'


def marked(rows: Sequence[Sequence[float]], best: Literal["max", "min", "none"] = "max") -> list[str]:
    """What LaTeX marks of a table with these seeds in each row."""
    lines = [
        value_of({"a": row}, value, column="c", seed=seed)
        for row, values in enumerate(rows)
        for seed, value in enumerate(values)
    ]
    text = render(aggregate(TableSpec(id="X", axes=["a"], columns=["c"], best=best), lines), "tex")
    return re.findall(r"\\(?:textbf|underline)\{[^}]*\}", text)


def test_the_best_is_bold_and_the_second_underlined_where_seeds_tell_them_from_the_next() -> None:
    """Two means of 3 seeds with sd 0.2 differ where they are 0.2 sqrt(2/3) 2.776 = 0.45 apart (Student, 4 degrees)."""
    high, middle, low = (60.0, 60.2, 60.4), (50.0, 50.2, 50.4), (40.0, 40.2, 40.4)
    assert marked([low, high, middle]) == [r"\textbf{60.20}", r"\underline{50.20}"]
    assert marked([low, high, middle], "min") == [r"\textbf{40.20}", r"\underline{50.20}"]
    assert marked([low, high, middle], "none") == []
    assert marked([high, low, tuple(value - 0.1 for value in low)]) == [r"\textbf{60.20}"]
    assert marked([high, tuple(value - 0.46 for value in high)]) == [r"\textbf{60.20}"]
    assert marked([high, tuple(value - 0.44 for value in high)]) == []


def test_a_single_seed_and_a_tie_in_print_mark_nothing() -> None:
    assert marked([(60.0,), (50.0,)]) == [] and marked([(60.0, 60.1), (50.0,)]) == []
    assert marked([(5.001, 5.001), (5.004, 5.004)]) == []
    assert marked([(5.0, 5.0), (4.0, 4.0)]) == [r"\textbf{5.00}"], "seeds that do not differ tell means apart"


def test_latex_escapes_every_special_letter() -> None:
    text = render(table(dataclasses.replace(SPEC, title=r"50% $x$ #1 {a}_b^c~d\e ±")), "tex")
    assert r"50\% \$x\$ \#1 \{a\}\_b\textasciicircum{}c\textasciitilde{}d\textbackslash{}e $\pm$" in text


def test_markdown_cannot_be_broken_by_a_value() -> None:
    spec = TableSpec(id="X", axes=["corpus"], columns=["sts_dev"], rows=[{"corpus": "a|b"}])
    assert "| a\\|b" in render(aggregate(spec, []), "md")


def test_json_has_the_shape_of_a_paper_block_and_full_numbers() -> None:
    found = json.loads(render(table(), "json"))
    assert list(found) == ["version", "id", "axes", "columns", "rows", "no_signal", "references", "protocol"]
    cell = {"n": 1, "mean": 61.234, "sd": None, "published": 84.85, "delta": 61.234 - 84.85}
    assert found["rows"][1] == {
        "key": {"method.dup_rate": 0.32},
        "cells": {"sts_dev": cell | {"seeds": [1], "values": [61.234], "idle": []}},
    }
    assert found["rows"][2]["key"] == {"method.dup_rate": None}
    assert found["protocol"] == SPEC.protocol


def test_published_numbers_keep_the_paper_s_decimals() -> None:
    spec = dataclasses.replace(SPEC, published=[PaperRow(key={"method.dup_rate": 0.08}, cells={"sts_dev": 72.6})])
    row = next(line for line in render(table(spec), "md").splitlines() if line.startswith("| 0.08"))
    assert [entry.strip() for entry in row.split("|")[4:6]] == ["72.6", "-21.60"]


def test_a_table_without_published_values_has_no_such_columns() -> None:
    text = render(table(dataclasses.replace(SPEC, published=[])), "md")
    assert "paper" not in text and "Δ" not in text


def test_axis_values_as_words() -> None:
    assert [axis_text(value) for value in (None, True, False, 1e-5, 0.1 + 0.2, 3, "cls")] == [
        "off", "yes", "no", "1e-05", "0.3", "3", "cls",
    ]  # fmt: skip


def test_a_row_and_a_run_are_named_alike() -> None:
    key = {"method.dup_rate": 0.32, "method.momentum": None}
    assert label(key) == "dup_rate=0.32 momentum=off"
    assert label(key, ["method.dup_rate"], seed=1) == "dup_rate=0.32 seed 1"
    assert (label({}), label({}, seed=0)) == ("all", "seed 0")
