"""Tables in every format: compared as a whole, with verdicts, published rows and texts that nothing may obey."""

import csv
import dataclasses
import io
import itertools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from analysis.answers.judge import judge
from analysis.render import formats
from analysis.render.formats import render
from analysis.render.formats.csv import cell
from analysis.render.formats.tex import LATEX
from analysis.render.verdicts import order_said
from analysis.tables.aggregate import Baseline, Row, Table, aggregate
from analysis.tables.columns import entry_of
from analysis.tables.labels import axis_text, label
from analysis.tables.ordering import Ordering, PairDifference, orderings
from analysis.tables.pair_cosines import ColumnCosines
from analysis.tables.spec import PaperRow, TableSpec
from cse.cli.app import main
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


ROW = PaperRow(key={"m": "a"}, cells={"x": 80.0, "avg": 81.0}, recomputed={"avg": 80.5})
REFERENCE = PaperRow(label="GloVe & co", cells={"x": 55.14})
PUBLISHED_SPEC = TableSpec(
    id="T", axes=["m"], columns=["x", "avg"], rows=[{"m": "a"}], published=[ROW], references=[REFERENCE]
)


def published_table(spec: TableSpec = PUBLISHED_SPEC) -> Table:
    return aggregate(spec, [value_of({"m": "a"}, 79.0, column="x")])


def test_markdown_marks_both() -> None:
    assert render(published_table(), "md") == (
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
    tex, page = render(published_table(), "tex"), render(published_table(), "html")
    assert r"paper: GloVe \& co &  & -- & 55.14 & -- & -- & -- & -- \\" in tex
    assert '<th scope="row">paper: GloVe &amp; co</th>' in page and "<td>81 sic</td>" in page


def test_json_and_csv_hold_them() -> None:
    found = json.loads(render(published_table(), "json"))
    assert found["references"] == [{"label": REFERENCE.label, "cells": REFERENCE.cells}]
    assert [cell.get("recomputed") for cell in found["rows"][0]["cells"].values()] == [None, 80.5]
    lines = list(csv.DictReader(io.StringIO(render(published_table(), "csv"))))
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


@pytest.fixture
def judged_table() -> Table:
    values = {0.1: [60.0, 60.2, 59.8], 0.2: [61.0, 61.1, 60.9], 0.3: [62.0, 62.2, 61.9]}
    rows = [
        Row({"method.rate": rate}, {"dev": entry_of(dict(enumerate(own)), 84 - rate)}) for rate, own in values.items()
    ]
    return Table(TableSpec(id="T", axes=["method.rate"], columns=["dev"]), rows, [], {}, [])


@pytest.fixture
def cosines() -> dict[str, ColumnCosines]:
    rng = np.random.default_rng(0)
    gold = rng.uniform(0, 5, 300)
    rows = {row: [gold + rng.normal(0, noise, 300)] for row, noise in enumerate((4.0, 0.5))}
    return {"dev": ColumnCosines(gold, rows, ("rows without kept cosines of dev: 1 of 3",))}


def test_verdicts_in_markdown(judged_table: Table, cosines: dict[str, ColumnCosines]) -> None:
    text = render(judged_table, "md", judge(judged_table, same_scale=False), orderings(judged_table, cosines))
    lines = text.splitlines()
    (line,) = [line for line in lines if "| ✗ opposite direction | paper -0.1 " in line]
    assert line.startswith("| 0.2 ") and "ours +1.00, 97.5% interval +0.74 to +1.26 (3 seeds)" in line
    (order,) = [line for line in lines if line.startswith("- dev: undecided; tau -1.00")]
    assert order.endswith("interval -1.00 to -1.00 over seeds, 3 rows; a random order gets as far 33% of the time")
    assert "- dev: 3 seeds rank 3 rows alike with W 1.00 (1: every seed the same order; rows" in text
    assert "; over seeds, two rows correlate by rho 0.89" in text
    assert "- dev: 1 of 1 pairs of rows differ on resampled sentence pairs" in text
    assert "rate=0.1 below rate=0.2 by" in text
    assert lines[-1] == "- dev: not compared by sentence pairs: rows without kept cosines of dev: 1 of 3"


def test_the_fewer_pairs_are_named() -> None:
    """Of 10 rows, 44 of 45 pairs differ: the one that does not is named; of 1 of 45, that one; of many, the first."""
    couples = list(itertools.combinations(range(10), 2))

    def line(differ: Callable[[int], bool]) -> str:
        pairs = tuple(
            PairDifference(a, b, -1.5, (-2.0, -1.0), 0.01, 0.01 if differ(place) else 0.5)
            for place, (a, b) in enumerate(couples)
        )
        order = Ordering("dev", 10, 0.5, (0.1, 0.9), "ordering supported", "tau", pairs)
        return order_said(order, list("ABCDEFGHIJ"))[-1].partition("0.05)")[2]

    assert line(lambda place: place > 0) == ": not told apart: A and B"
    assert line(lambda place: place == 1) == ": A below C by 1.50 (p 0.01)"
    assert line(lambda place: True) == line(lambda place: False) == ""
    assert line(lambda place: place < 12).endswith("; A below I by 1.50 (p 0.01) and 4 more")


def test_json_holds_all_of_it(judged_table: Table, cosines: dict[str, ColumnCosines]) -> None:
    found = json.loads(
        render(judged_table, "json", judge(judged_table, same_scale=False), orderings(judged_table, cosines))
    )
    assert [one["word"] for one in found["verdicts"]] == ["reference", "opposite direction", "opposite direction"]
    assert found["verdicts"][1]["key"] == {"method.rate": 0.2}
    (order,) = found["ordering"]
    assert (order["word"], order["tau"], order["p"]) == ("undecided", -1.0, 2 / 6)
    assert order["agreement"] == {
        "w": 1.0,
        "p": pytest.approx(1 / 36, abs=0.01),
        "seeds": 3,
        "rows": 3,
        "rho": pytest.approx(0.886, abs=1e-3),
    }
    assert order["pairs"][0]["rows"] == [{"method.rate": 0.1}, {"method.rate": 0.2}]
    assert order["pairs"][0]["differs"] is True
    assert set(json.loads(render(judged_table, "json"))) == set(found) - {"verdicts", "ordering"}


@pytest.mark.parametrize("form", ["tex", "html"])
def test_other_formats_count_the_words(judged_table: Table, form: str) -> None:
    text = render(judged_table, form, judge(judged_table, same_scale=False), orderings(judged_table, {}))  # type: ignore[arg-type]
    assert "dev: 1 reference, 2 opposite direction" in text and "dev: undecided; tau" in text


TITLE = "a\r\rtitle \x1b]0;owned\x07 \u202etfel\ud800"


def foreign_table(value: str = "=HYPERLINK(1)") -> Table:
    spec = TableSpec(id="E", title=TITLE, axes=["method.pooler"], columns=["sts_dev"], rows=[{"method.pooler": value}])
    return aggregate(spec, [value_of({"method.pooler": value}, 60.0, column="sts_dev")])


@pytest.mark.parametrize("form", sorted({*formats.names()} - {"json"}))
def test_no_format_passes_control_characters_on(form: str) -> None:
    text = render(foreign_table("b\x1b[31m\rc"), form)
    assert all(letter == "\n" or letter.isprintable() for letter in text), repr(text)


def test_latex_cells_are_no_arguments_of_the_line_before() -> None:
    assert LATEX.escape("[2pt]") == "{}[2pt]" and LATEX.escape("*x") == "{}*x" and LATEX.escape(" [x") == "{} [x"
    assert LATEX.escape("a[*]") == "a[*]"
    caption = next(line for line in render(foreign_table("[x"), "tex").splitlines() if line.startswith(r"\caption"))
    assert "a title" in caption and caption.endswith("}")
    assert "\n{}[x & " in render(foreign_table("[x"), "tex")


def test_a_spreadsheet_computes_nothing() -> None:
    rows = list(csv.reader(io.StringIO(render(foreign_table(), "csv"))))
    assert rows[1][1] == "'=HYPERLINK(1)"
    assert [cell(text) for text in ("@x", "+x", "-x", " =x", "\t=x")] == ["'@x", "'+x", "'-x", "' =x", "' =x"]
    assert [cell(text) for text in ("-0.5", "+1e-4", "x=1", "simcse")] == ["-0.5", "+1e-4", "x=1", "simcse"]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "[x](javascript:alert(1))"])
def test_a_reader_of_markdown_finds_no_html_and_no_link(text: str) -> None:
    spec = TableSpec(id="E", title=text, axes=["method.pooler"], columns=["sts_dev"], rows=[{"method.pooler": text}])
    markdown = render(aggregate(spec, [value_of({"method.pooler": text}, 60.0, column="sts_dev")]), "md")
    assert "alert" in markdown and "<script" not in markdown and "](" not in markdown


MODULE = '''
"""Tab-separated means."""


def render(table, verdicts, ordering):
    return "".join(f"{row.key}\\t{entry.mean}\\n" for row in table.rows for entry in row.entries.values())
'''


def test_the_folder_is_the_registry(project_copy: Callable[..., Path], called: Callable[..., str]) -> None:
    copy = project_copy("analysis")
    (copy / "analysis" / "render" / "formats" / "tsv.py").write_text(MODULE, encoding="utf8")
    assert "--format csv|html|json|md|tex|tsv" in " ".join(called(copy, "table", "--help").split())
    lines = called(copy, "table", "E7", "--format", "tsv").splitlines()
    assert len(lines) == 8 and all(line.endswith("\tNone") for line in lines)


def test_every_format_says_what_it_is_and_renders() -> None:
    for name in formats.names():
        module = formats.load(name)
        assert module.__doc__ and callable(module.render)


def test_an_unknown_format_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "E7", "--format", "htm"]) == 2
    assert "unknown format: format=htm; did you mean html?" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(KeyError):
        formats.load("htm")
