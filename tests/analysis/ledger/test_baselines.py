"""Rows without training: kept in the ledger; a ledger that is older than their table has them from a file beside it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy

from analysis.ledger import Baselines, Ledger, LedgerError, UntrainedScore, schema
from analysis.ledger.baselines import OLD_FILE
from analysis.ledger.exchange.unsound import find_unsound, take_out
from analysis.sweep_spec import SweepSpec
from cse_train.results import Protocol
from tests.analysis.ledger.older import make_version_1

ROWS = {"untrained [CLS]": 51.50283, "word counts": 56.5, "idf bag of words": 75.17}
ENTRY = Baselines("sts_dev", "words-l4-h128", "wiki", 512, {"suite": "b889"}, ROWS)
OLD = {
    "sts_dev train.corpus=wiki train.dev_max_length=512 train.encoder=words-l4-h128": {
        "inputs": {"suite": "b889"},
        "rows": ROWS,
    }
}


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A ledger from before the table, with the file of that time beside it."""
    made = Ledger.open(tmp_path / "ledger.db")
    make_version_1(made._engine)
    made.close()
    (tmp_path / OLD_FILE).write_text(json.dumps(OLD), encoding="utf8")
    return tmp_path / "ledger.db"


def has_table(ledger: Ledger) -> bool:
    return sqlalchemy.inspect(ledger._engine).has_table("cse_baselines")


def test_rows_are_kept_in_their_order_and_replaced_by_key(ledger: Ledger) -> None:
    other = Baselines("sts_dev", "words-l4-h128", "documents", 512, {}, {"word counts": 1.0})
    ledger.store_baselines([ENTRY, other])
    ledger.store_baselines([Baselines(*ENTRY.key, {"suite": "new"}, ROWS | {"word counts": 57.0})])
    entries = {entry.key: entry for entry in ledger.baselines()}
    assert entries.keys() == {ENTRY.key, other.key}
    assert entries[ENTRY.key].inputs == {"suite": "new"}
    assert list(entries[ENTRY.key].rows.items()) == [*(ROWS | {"word counts": 57.0}).items()]


def test_an_older_ledger_is_read_with_its_file_and_not_changed(older: Path) -> None:
    ledger = Ledger.open(older, create=False)
    assert ledger.baselines() == [ENTRY] and list(ledger.baselines()[0].rows) == list(ROWS)
    assert not has_table(ledger)


def test_an_older_ledger_that_is_opened_for_writing_takes_the_file_in_once(older: Path) -> None:
    assert has_table(Ledger.open(older))
    older.with_name(OLD_FILE).unlink()
    ledger = Ledger.open(older, create=False)
    assert ledger.baselines() == [ENTRY]
    ledger.store_baselines([Baselines(*ENTRY.key, {}, {"word counts": 1.0})])
    older.with_name(OLD_FILE).write_text(json.dumps(OLD), encoding="utf8")
    assert Ledger.open(older).baselines()[0].rows == {"word counts": 1.0}


def test_storing_makes_the_tables_of_an_older_ledger(older: Path) -> None:
    ledger = Ledger.open(older, create=False)
    assert ledger.untrained_scores() == []
    ledger.store_baselines([Baselines("mr", "e", "wiki", 512, {}, {})])
    assert {entry.suite for entry in ledger.baselines()} == {"mr", "sts_dev"}
    ledger.store_untrained([SCORE])
    assert Ledger.open(older, create=False).untrained_scores() == [SCORE]


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"sts_dev": {"rows": {"a": 1}}}', json.dumps({key: {"rows": [1]} for key in OLD})]
)
def test_a_file_that_cannot_be_read_has_no_rows(older: Path, text: str) -> None:
    older.with_name(OLD_FILE).write_text(text, encoding="utf8")
    assert Ledger.open(older, create=False).baselines() == [] == Ledger.open(older).baselines()


@pytest.mark.parametrize("rows", [[["a", "b"]], [1], 7])
def test_rows_edited_by_hand_are_one_line(ledger: Ledger, rows: object) -> None:
    ledger.store_baselines([ENTRY])
    with ledger._engine.begin() as connection:
        connection.execute(sqlalchemy.update(schema.baselines).values(rows=rows))
    assert ledger.baselines() == []
    (row,) = find_unsound(ledger)
    assert re.match("ledger row: cse_baselines suite=sts_dev .* rows is not a list of", row.line)
    take_out(ledger, row)
    assert find_unsound(ledger) == []


def test_broken_json_in_a_ledger_without_the_table_is_named(older: Path) -> None:
    ledger = Ledger.open(older, create=False)
    ledger.record_sweep("E7", SweepSpec({}))
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE cse_sweeps SET spec = '{'")
    assert ledger.sweeps() == []
    with pytest.raises(LedgerError, match=r"^ledger row: cse_sweeps id=E7 has broken JSON in spec"):
        ledger.sweep_spec("E7")


SCORE = UntrainedScore(
    "bert-base-uncased", "w0", "mean", "sts12", "d0", 39.7, Protocol.read({"suite": "sts12", "code_version": "1"})
)


def test_scores_of_untrained_models_are_replaced_under_one_protocol_alone(ledger: Ledger) -> None:
    assert ledger.untrained_scores() == []
    other = replace(SCORE, protocol=Protocol.read({"suite": "sts12", "code_version": "2"}), value=None)
    ledger.store_untrained([SCORE, other])
    ledger.store_untrained([replace(SCORE, value=40.0, data_hash="d1")])
    assert ledger.untrained_scores() == [other, replace(SCORE, value=40.0, data_hash="d1")]


def test_an_untrained_score_edited_by_hand_is_told(ledger: Ledger) -> None:
    if ledger._engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL takes no word where a number stands")
    ledger.store_untrained([SCORE])
    with ledger._engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE cse_untrained_scores SET value = 'high'"))
    assert ledger.untrained_scores() == []
    (row,) = find_unsound(ledger)
    assert re.search("cse_untrained_scores model=bert-base-uncased .* value='high' is not a number", row.line)
