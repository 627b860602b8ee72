"""Means over seeds, deltas, protocols and the no-signal mark."""

import dataclasses
from typing import Any

import pytest

from analysis.tables.aggregate import NO_SIGNAL_TEXT, Baseline, Table, aggregate
from analysis.tables.spec import MetricScale, PaperRow, RunValue, TableError, TableSpec
from cse_train.results import Protocol
from tests.run_values import value_of

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
        assert table.no_signal == f"{idle} of 4 runs {NO_SIGNAL_TEXT}"
    assert [row.entries["sts_dev"].idle for row in table.rows[:2]] == [(1, 2)[:idle], (1, 2)[: max(0, idle - 2)]]
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
