"""Rows of the paper whose models are scored as they are: which scores count, under what protocol, in every format."""

import csv
import io
import json
import re
from typing import Any

from analysis.ledger import UntrainedScore
from analysis.render.formats import render
from analysis.tables.aggregate import Table, aggregate, collect_scores, comparable
from analysis.tables.spec import PaperRow, TableSpec
from cse_train.results import Protocol
from tests.run_values import value_of

PROTOCOL = {"suite": "sts12", "pooler": "mean", "max_length": 512, "rule": "", "data_hash": "d0"}
COLUMNS = {"STS12": "sts12", "avg": "sts"}


def score(suite: str, value: float | None, pooler: str = "mean", **protocol: Any) -> UntrainedScore:
    return UntrainedScore(
        "bert", "w0", pooler, suite, "i0", value, Protocol.read(PROTOCOL | {"suite": suite} | protocol)
    )


SCORES = [score("sts12", 30.0), score("sts12", 31.25), score("sts12", 99.0, "cls_no_mlp"), score("sts", None)]


def test_the_newest_score_of_the_pooler_counts_and_one_that_is_not_finite_is_none() -> None:
    model = collect_scores("BERT", ("bert", "mean"), COLUMNS, SCORES)
    assert model.values == {"STS12": 31.25} and model.protocols["STS12"].suite == "sts12"
    assert collect_scores("BERT", ("other", "mean"), COLUMNS, SCORES).values == {}


def test_a_protocol_line_has_what_all_columns_share() -> None:
    both = [score("sts12", 1.0), score("sts", 2.0, data_hash="d1")]
    assert collect_scores("BERT", ("bert", "mean"), COLUMNS, both).protocol() == {
        "pooler": "mean",
        "max_length": 512,
        "rule": "",
    }


def test_a_score_under_another_protocol_than_the_trained_rows_is_not_compared() -> None:
    """The pooler is the model's own; fields that older scores lack say nothing."""
    model = collect_scores("BERT", ("bert", "mean"), COLUMNS, [score("sts12", 1.0), score("sts", 2.0)])
    trained = {"STS12": {"pooler": "cls", "data_hash": "d0"}, "avg": {"data_hash": "d9", "max_length": 32}}
    (kept,), lines = comparable([model], {column: [Protocol.read(said)] for column, said in trained.items()})
    assert kept.values == {"STS12": 1.0} and list(kept.protocols) == ["STS12"]
    assert lines == [
        "Not compared: BERT in avg, whose max_length, data_hash is not that of the trained rows; "
        "score them again under one protocol"
    ]


def made() -> Table:
    """One trained cell; BERT is scored as it is in one of two columns, USE is the paper's alone."""
    references = [
        PaperRow(label="BERT", cells={"STS12": 39.7, "avg": 56.7}),
        PaperRow(label="USE", cells={"STS12": 60.0}),
    ]
    spec = TableSpec(
        id="T", axes=["m"], columns=["STS12", "avg"], rows=[{"m": "a"}], references=references, scores=COLUMNS
    )
    ours = value_of({"m": "a"}, 35.0, column="STS12", protocol=PROTOCOL | {"pooler": "cls"})
    return aggregate(spec, [ours], models=[collect_scores("BERT", ("bert", "mean"), COLUMNS, SCORES)])


def test_markdown_prints_ours_the_paper_s_and_the_difference() -> None:
    lines = render(made(), "md").splitlines()
    cells = [[entry.strip() for entry in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    assert cells[2] == ["a", "1/0", "35.00", "", "", "", "", ""]
    assert cells[3] == ["without training: BERT", "-", "31.25", "39.7", "-8.45", "", "56.7", ""]
    assert cells[4] == ["paper: USE", "", "", "60.0", "", "", "", ""]
    assert "- BERT: bert, suite sts12, pooler mean, max_length 512, data_hash d0" in lines
    assert any(line.startswith('- Rows that begin with "without training:" are scored as they are') for line in lines)
    assert '- Rows that begin with "paper:" are models that are not trained here' in lines


def test_html_and_latex_print_them() -> None:
    table = made()
    assert r"without training: BERT & - & 31.25 & 39.7 & $-$8.45 & -- & 56.7 & -- \\" in render(table, "tex")
    row = re.search(r"<tr><th scope=\"row\">without training: BERT</th>(.*)</tr>", render(table, "html"))
    assert row is not None
    assert re.findall("<td>(.*?)</td>", row[1]) == ["-", "31.25", "39.7", "−8.45", "", "56.7", ""]


def test_csv_has_full_numbers_and_no_seeds() -> None:
    lines = {line["row"]: line for line in csv.DictReader(io.StringIO(render(made(), "csv")))}
    ours = lines["without training: BERT"]
    assert (ours["STS12 n"], ours["STS12 mean"], ours["STS12 sd"], ours["avg mean"]) == ("", "31.25", "", "")
    assert float(ours["STS12 delta"]) == 31.25 - 39.7 and ours["avg published"] == "56.7"
    assert lines["paper: USE"]["STS12 mean"] == ""


def test_json_has_the_protocol_too() -> None:
    bert, use = json.loads(render(made(), "json"))["references"]
    assert bert["ours"] == {"STS12": 31.25} and bert["delta"] == {"STS12": 31.25 - 39.7}
    assert bert["model"] == "bert" and bert["protocol"]["pooler"] == "mean"
    assert bert["cells"] == {"STS12": 39.7, "avg": 56.7} and set(use) == {"label", "cells"}
