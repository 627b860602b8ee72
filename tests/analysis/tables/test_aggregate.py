"""From ledger rows to lines of a table: means over seeds, deltas, protocols, labels, and models scored as they are."""

import csv
import dataclasses
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.ledger import Ledger, UntrainedScore
from analysis.render.formats import render
from analysis.render.markup import shorten
from analysis.tables.aggregate import Baseline, Table, aggregate, collect_scores, comparable
from analysis.tables.labels import choose_axes, distinguish_runs, label
from analysis.tables.results import PART, require_one_precision, results_of
from analysis.tables.spec import MetricScale, PaperRow, RunValue, Sense, TableError, TableSpec, identify
from cse_train.results import Protocol
from tests.run_values import book_run, score_of, value_of

E7 = TableSpec(
    id="E7",
    axes=["method.dup_rate"],
    columns=["sts_dev"],
    rows=[{"method.dup_rate": 0.08}, {"method.dup_rate": 0.32}, {"method.dup_rate": None}],
    published=[
        PaperRow(key={"method.dup_rate": 0.08}, cells={"sts_dev": 83.5}),
        PaperRow(key={"method.dup_rate": 0.32}, cells={"sts_dev": 84.85}),
    ],
)


def lines_of(*lines: tuple[Any, int, float], column: str = "sts_dev", **more: Any) -> list[RunValue]:
    return [value_of({"method.dup_rate": rate}, value, column=column, seed=seed, **more) for rate, seed, value in lines]


def test_cells_in_the_order_of_the_spec() -> None:
    table = aggregate(E7, lines_of((0.32, 1, 61.0), (0.08, 2, 52.0), (0.08, 1, 50.0), (None, 1, 40.0)))
    low, high, off = (row.entries["sts_dev"] for row in table.rows)
    assert [row.key["method.dup_rate"] for row in table.rows] == [0.08, 0.32, None]
    assert (low.n, low.mean, low.values) == (2, 51.0, (50.0, 52.0))
    assert low.sd == pytest.approx(2**0.5) and low.delta == pytest.approx(51.0 - 83.5)
    assert (high.n, high.mean, high.sd, high.published) == (1, 61.0, None, 84.85)
    assert (off.mean, off.published, off.delta) == (40.0, None, None)


def test_a_column_s_published_values_are_read_once_however_many_rows_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[float]] = []
    monkeypatch.setattr("analysis.tables.aggregate.guess_scale", lambda values: asked.append(values) or MetricScale())
    table = aggregate(E7, lines_of((0.32, 1, 61.0), (0.08, 2, 52.0)))
    assert [table.scale("sts_dev") for _ in table.rows] == [MetricScale()] * 3
    assert asked == [[83.5, 84.85]]


def test_missing_runs_leave_empty_cells_and_a_remark() -> None:
    lines = lines_of((0.08, 1, 50.0), (0.32, 1, float("nan")))
    states = [dataclasses.replace(line, state=state) for line, state in zip(lines, ("done", "failed"), strict=True)]
    table = aggregate(E7, states)
    empty = table.rows[1].entries["sts_dev"]
    assert (empty.n, empty.mean, empty.sd, empty.published, empty.delta) == (0, None, None, 84.85, None)
    assert table.notes == ["1 of 2 runs are not done (1 failed)"]
    assert all(row.entries["sts_dev"].n == 0 for row in aggregate(E7, []).rows)


def test_done_runs_without_a_score_are_counted() -> None:
    lines = lines_of((0.08, 1, 50.0), (0.08, 2, float("nan")), state="done")
    assert aggregate(E7, lines).notes == ["done runs without a sts_dev score: 1"]


def test_the_same_run_twice_counts_once_but_two_values_of_a_seed_are_refused() -> None:
    assert aggregate(E7, lines_of((0.08, 1, 50.0), (0.08, 1, 50.0))).rows[0].entries["sts_dev"].n == 1
    with pytest.raises(
        TableError, match=r"two values: seed=1 of \{'method.dup_rate': 0.08\} in sts_dev has 50.0 and 51.0"
    ):
        aggregate(E7, lines_of((0.08, 1, 50.0), (0.08, 1, 51.0)))


def test_other_columns_and_rows_stay_out() -> None:
    table = aggregate(E7, lines_of((0.08, 1, 50.0), (0.99, 1, 1.0)) + lines_of((0.08, 1, 9.0), column="x"))
    assert [row.entries["sts_dev"].n for row in table.rows] == [1, 0, 0]


def test_rows_come_from_the_results_where_the_spec_lists_none() -> None:
    table = aggregate(dataclasses.replace(E7, rows=[]), lines_of((0.32, 1, 61.0), (0.5, 1, 60.0)))
    assert [row.key for row in table.rows] == [{"method.dup_rate": 0.32}, {"method.dup_rate": 0.5}]


def test_pooled_seed_sd() -> None:
    table = aggregate(E7, lines_of((0.08, 1, 50.0), (0.08, 2, 52.0), (0.32, 1, 60.0), (0.32, 2, 60.0), (None, 1, 9.0)))
    assert table.seed_spread("sts_dev").sd == pytest.approx(1.0)
    assert aggregate(E7, lines_of((0.08, 1, 50.0))).seed_spread("sts_dev") is None


def no_signal(table: Table) -> bool:
    return any("no signal at this scale" in note for note in table.notes)


@pytest.mark.parametrize(("untrained", "flat"), [(50.5, True), (47.0, False)])
def test_no_signal_at_this_scale(untrained: float, flat: bool) -> None:
    lines = lines_of((0.08, 1, 50.0), (0.08, 2, 52.0), (0.32, 1, 49.5), (0.32, 2, 51.5))
    table = aggregate(E7, lines, untrained={"sts_dev": untrained})
    assert no_signal(table) is flat


def test_a_cell_with_a_collapsed_seed_does_not_hide_the_others_signal() -> None:
    lines = lines_of(
        (0.08, 1, 20.0), (0.08, 2, 55.0), (0.32, 1, 61.0), (0.32, 2, 61.4), (None, 1, 60.9), (None, 2, 61.4)
    )
    table = aggregate(E7, lines, untrained={"sts_dev": 51.5})
    spread = table.seed_spread("sts_dev").sd
    assert spread is not None and spread > 61.2 - 51.5 and not no_signal(table)


def test_seeds_must_exist_to_say_that_there_is_no_signal() -> None:
    assert not no_signal(aggregate(E7, lines_of((0.08, 1, 50.0)), untrained={"sts_dev": 50.0}))


@pytest.mark.parametrize(("idle", "without"), [(1, False), (2, True), (4, True)])
def test_a_table_of_which_half_the_runs_are_idle_is_without_signal(idle: int, without: bool) -> None:
    lines = lines_of((0.08, 1, 50.0), (0.08, 2, 52.0), (0.32, 1, 60.0), (0.32, 2, 62.0))
    signed = [dataclasses.replace(line, signature=f"run {place}") for place, line in enumerate(lines)]
    asleep = {f"run {place}" for place in range(idle)} | {"a run of another table"}
    table = aggregate(E7, signed, no_signal_runs=asleep)
    assert no_signal(table) is without is bool(table.no_signal)
    if without:
        assert table.no_signal == f"{idle} of 4 runs never beat their first evaluation or no training"
    assert [row.entries["sts_dev"].idle for row in table.rows[:2]] == [(1, 2)[:idle], (1, 2)[: max(0, idle - 2)]]
    assert not no_signal(aggregate(E7, signed, no_signal_runs=asleep, barely=asleep)), "a little is no nothing"
    searched = aggregate(dataclasses.replace(E7, searched=True), signed, no_signal_runs=asleep)
    assert not no_signal(searched), "most cells of a search may be bad"
    assert not no_signal(aggregate(dataclasses.replace(E7, published=[]), signed, no_signal_runs=asleep))


def protocol(**changes: Any) -> dict[str, Any]:
    return {"suite": "sts_dev", "pooler": "cls", "max_length": 512} | changes


def test_the_shared_protocol_is_kept() -> None:
    table = aggregate(
        dataclasses.replace(E7, protocol={"selection": "best"}), lines_of((0.08, 1, 50.0), protocol=protocol())
    )
    assert table.protocol == {"selection": "best", "suite": "sts_dev", "pooler": "cls", "max_length": 512}


def test_scores_with_different_protocols_never_share_a_table() -> None:
    lines = lines_of((0.08, 1, 50.0), protocol=protocol())
    lines += lines_of((0.32, 1, 50.0), protocol=protocol(pooler="mean"))
    with pytest.raises(
        TableError, match=r'^one protocol: pooler="cls" and "mean" in the table of E7; score the runs again'
    ):
        aggregate(E7, lines)


def test_an_axis_may_vary_the_protocol_and_a_suite_its_own_fields() -> None:
    spec = TableSpec(id="C4", axes=["method.pooler"], columns=["sts_dev", "sts12"])
    lines = [
        value_of({"method.pooler": pooler}, 1.0, column=suite, protocol=protocol(suite=suite, pooler=pooler))
        for pooler in ("cls", "mean")
        for suite in spec.columns
    ]
    assert aggregate(spec, lines).protocol == {"max_length": 512}


def scored(*columns: tuple[str, dict[str, Any]]) -> list[RunValue]:
    """One score per (column, protocol)."""
    return [
        value_of({"method.dup_rate": 0.08}, 50.0, column=column, seed=seed, protocol=one)
        for seed, (column, one) in enumerate(columns)
    ]


TWO = TableSpec(id="two", axes=["method.dup_rate"], columns=["sts12", "MR"])


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Protocol)])
def test_every_field_of_a_protocol_agrees_within_a_column(name: str) -> None:
    with pytest.raises(TableError, match=rf'^one protocol: {name}="here" and "there" in (the table|MR) of two'):
        aggregate(TWO, scored(("MR", protocol(**{name: "here"})), ("MR", protocol(**{name: "there"}))))


@pytest.mark.parametrize("name", ["case", "pooler", "max_length", "precision", "code_version"])
def test_columns_agree_on_everything_but_their_suite(name: str) -> None:
    with pytest.raises(TableError, match=rf"^one protocol: {name}=1 and 2 in the table of two"):
        aggregate(TWO, scored(("sts12", protocol(**{name: 1})), ("MR", protocol(**{name: 2}))))


def test_suites_of_other_kinds_have_rules_of_their_own() -> None:
    sts = protocol(suite="sts12", aggregation="all", rule="")
    transfer = protocol(suite="MR", aggregation="none", rule="senteval, 10 folds, adam")
    assert "rule" not in aggregate(TWO, scored(("sts12", sts), ("MR", transfer))).protocol


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("aggregation", "all", "mean"),
        ("aggregation", "mean", "wmean"),
        ("rule", "fast, 10 folds", "senteval, 10 folds, adam"),
        ("rule", "senteval, 10 folds, adam", "senteval, 5 folds, rmsprop"),
    ],
)
def test_the_scorers_choices_are_the_same_in_all_columns(name: str, one: str, other: str) -> None:
    """sts12 as `all` beside sts13 as `mean` is the comparison that readers complain of."""
    with pytest.raises(TableError, match=f'^one protocol: {name}="{one}" and "{other}" in the table of two'):
        aggregate(TWO, scored(("sts12", protocol(**{name: one})), ("MR", protocol(**{name: other}))))


def test_scores_from_before_a_field_existed_had_its_default() -> None:
    new = protocol(case="as is", rule="")
    assert aggregate(E7, scored(("sts_dev", protocol()), ("sts_dev", new))).protocol["case"] == "as is"
    with pytest.raises(TableError, match='^one protocol: case="as is" and "lower" in the table of E7'):
        aggregate(E7, scored(("sts_dev", protocol()), ("sts_dev", protocol(case="lower"))))


def test_baselines_are_kept() -> None:
    table = aggregate(E7, lines_of((0.08, 1, 50.0)), baselines=[Baseline("word counts", {"sts_dev": 56.5})])
    assert table.baselines[0].values == {"sts_dev": 56.5}


def test_an_axis_that_says_the_same_as_an_earlier_one_is_not_named() -> None:
    keys = [{"method": "simcse", "pooler": "cls", "size": 1}, {"method": "declutr", "pooler": "mean", "size": 1}]
    assert choose_axes(keys, ["method", "pooler", "size"]) == ["method"]
    assert choose_axes([*keys, {"method": "simcse", "pooler": "mean", "size": 1}], ["method", "pooler", "size"]) == [
        "method", "pooler",
    ]  # fmt: skip
    assert choose_axes(keys[:1], ["method"]) == []


def test_a_search_names_every_axis_that_varies() -> None:
    """One drawn number tells all cells apart by chance, which is no reason to leave the others out."""
    keys = [{"rate": 0.1, "size": 1, "depth": 3}, {"rate": 0.2, "size": 2, "depth": 3}]
    assert choose_axes(keys, ["rate", "size", "depth"], searched=True) == ["rate", "size"]


def test_labels_are_short_words() -> None:
    key = {"method.dup_rate": 0.32, "method.momentum": None, "train.batch_size": 64}
    assert label(key) == "dup_rate=0.32 momentum=off batch_size=64"
    assert label(key, ["train.batch_size"]) == "batch_size=64" and label(key, []) == "all"


def test_a_long_name_keeps_both_ends() -> None:
    assert shorten("short") == "short"
    assert shorten("a" * 50 + "b" * 50, 20) == "a" * 10 + "…" + "b" * 9


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


def test_keys_compare_by_value_across_types() -> None:
    assert identify({"a": 2, "b": "x"}) == identify({"b": "x", "a": np.float64(2.0)})
    assert identify({"a": True}) != identify({"a": 1})
    assert identify({"a": None}) == identify({"a": float("nan")})
    assert identify({"a": [1, 2.0]}) == identify({"a": (1.0, 2)})


@pytest.fixture
def filled(tmp_path: Path) -> Ledger:
    ledger = Ledger.open(tmp_path / "ledger.db")
    for signature, state, best in (("aa", "done", 60.0), ("bb", "done", 61.0), ("cc", "stopped", 70.0)):
        end = {"state": state, "examples": 64, "best": best, "folder": "f"}
        book_run(ledger, signature, {"train.dev": "sts_dev"}, method="simcse", seed=1, **end)
    return ledger


PLANNED = [({"lr": 1e-5}, "aa", 1), ({"lr": 1e-5}, "bb", 2), ({"lr": 3e-5}, "cc", 1), ({"lr": None}, "dd", 1)]


def test_only_done_runs_have_values(filled: Ledger) -> None:
    lines = results_of(filled, PLANNED, ["sts_dev", "best", "sts12"])
    values = {(line.signature, line.column): line.value for line in lines}
    assert (values["aa", "sts_dev"], values["bb", "sts_dev"], values["bb", "best"]) == (60.0, 61.0, 61.0)
    assert (
        math.isnan(values["cc", "sts_dev"]) and math.isnan(values["dd", "best"]) and math.isnan(values["aa", "sts12"])
    )
    assert {line.signature: line.state for line in lines} == {
        "aa": "done", "bb": "done", "cc": "stopped", "dd": "unclaimed",
    }  # fmt: skip
    assert lines[-1].key["lr"] is None


def test_scores_replace_the_curve_s_best_for_all_runs_or_none(filled: Ledger) -> None:
    filled.add_score("aa", score_of("sts_dev", 59.0, {"pooler": "cls"}))
    lines = results_of(filled, PLANNED[:2], ["sts_dev"])
    assert lines[0].value == 59.0 and math.isnan(lines[1].value)
    assert lines[0].protocol == Protocol.read({"pooler": "cls"})


def test_the_newest_score_of_a_suite_counts(filled: Ledger) -> None:
    filled.add_score("aa", score_of("sts12", 50.0, {"code_version": 1}))
    filled.add_score("aa", score_of("sts12", 51.0, {"code_version": 2}))
    assert [line.value for line in results_of(filled, PLANNED[:1], ["sts12"])] == [51.0]


def test_no_runs_give_no_lines(filled: Ledger) -> None:
    assert results_of(filled, [], ["sts_dev"]) == []


def test_a_column_stands_on_the_runs_that_are_for_it(filled: Ledger) -> None:
    """The row lr=1 has a run of its own for sts12; lr=2 has one run for both columns."""
    for signature in ("aa", "bb"):
        filled.add_score(signature, score_of("sts_dev", 40.0 + len(signature), {}))
        filled.add_score(signature, score_of("sts12", 50.0 if signature == "aa" else 51.0, {}))
    planned = [({"lr": 1}, "aa", 1), ({"lr": 1, PART: "sts12"}, "bb", 1), ({"lr": 2}, "aa", 1)]
    lines = results_of(filled, planned, ["dev", "sts12"], {"dev": "sts_dev"})
    assert [(line.key["lr"], line.column, line.signature, line.value) for line in lines] == [
        (1, "dev", "aa", 42.0), (1, "sts12", "bb", 51.0), (2, "dev", "aa", 42.0), (2, "sts12", "aa", 50.0),
    ]  # fmt: skip
    assert all(PART not in line.key for line in lines)


def finish(ledger: Ledger, signature: str, asked: str | None, computed: str | None) -> None:
    config = {"train.dev": "sts_dev"} | ({"train.precision": asked} if asked else {})
    end = {"examples": 64, "best": 60.0, "folder": "f", "details": {"train.precision": computed} if computed else None}
    book_run(ledger, signature, config, method="simcse", seed=1, provenance={"host": "a"}, **end)


def test_what_a_device_computed_stands_with_a_run_that_left_it_to_it(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    runs = {
        "aa": ("auto", "bf16"),
        "bb": ("auto", "fp32"),
        "cc": ("bf16", None),
        "dd": ("fp32", None),
        "ee": (None, None),
    }
    for name, (asked, computed) in runs.items():
        finish(ledger, name, asked, computed)
    lines = results_of(ledger, [({"run": name}, name, 1) for name in runs], ["best"])
    assert [line.computed for line in lines] == [("auto", "bf16"), ("auto", "fp32"), None, None, None]
    assert ledger.provenance(["aa"])["aa"][0].details == {"host": "a", "train.precision": "bf16"}


def test_runs_of_one_setting_that_were_computed_in_several_ways_are_refused_by_name() -> None:
    """As `auto` is on a card and on a CPU; a table may still compare settings."""
    told = [("auto", "bf16"), ("auto", "bf16"), ("bf16", "bf16"), ("tf32", "tf32"), None]
    lines = [value_of({}, 1.0, column="best", signature=str(at), computed=each) for at, each in enumerate(told)]
    require_one_precision(lines, "E7")
    other = value_of({}, 1.0, column="best", signature="x", computed=("auto", "fp32"))
    require_one_precision([*lines, replace(other, value=math.nan)], "E7")
    with pytest.raises(TableError) as refused:
        require_one_precision([*lines, other], "E7")
    assert str(refused.value) == (
        "one precision: train.precision=auto was bf16 (2) and fp32 (1) in the runs of E7; "
        "train them on one kind of device, or give train.precision a value of its own"
    )
    with pytest.raises(TableError, match="^one precision: "):
        aggregate(TableSpec(id="E7", axes=[], columns=["best"]), [*lines[:2], other])


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


@pytest.mark.parametrize(("better", "seeds"), [("higher", 3), ("lower", 1)])
def test_seeds_for_a_published_value_are_counted_in_the_direction_of_the_metric(better: Sense, seeds: int) -> None:
    key, published = {"m": "a"}, [PaperRow(key={"m": "a"}, cells={"x": 8.0})]
    scales = {"x": MetricScale(better)}
    spec = TableSpec(id="T", axes=["m"], columns=["x"], rows=[key], published=published, scales=scales)
    scores = zip((7.0, 5.0, 9.0), (1.0, 2.0, 3.0), strict=True)
    lines = [value_of(key, value, column="x", seed=seed, dev=dev) for seed, (value, dev) in enumerate(scores)]
    picks = aggregate(spec, lines).rows[0].entries["x"].best_of
    assert picks is not None and (picks.seeds, picks.for_published) == ([1, 3], seeds)
