"""From ledger rows to a lines of a table."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.tables.aggregate import aggregate
from analysis.tables.results import PART, require_one_precision, results_of
from analysis.tables.spec import TableError, TableSpec
from cse_train.results import Protocol
from tests.run_values import book_run, score_of, value_of


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
