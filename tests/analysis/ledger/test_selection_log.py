"""The log of looks at test sets: kept in order, also in a ledger that was made before there was one."""

import sqlalchemy

from analysis.ledger import Ledger
from analysis.ledger.selection_log import Look
from tests.analysis.ledger.older import make_version_1


def booked(ledger: Ledger, *signatures: str) -> None:
    for name in signatures:
        about = {"method": "simcse", "seed": 0, "owner": "me", "identity": {}, "provenance": {}}
        assert ledger.claim(name, {"method": "simcse"}, **about) is not None


def test_looks_are_kept_by_sweep_and_run(ledger: Ledger) -> None:
    booked(ledger, "a", "b")
    first = Look("E7", "mean", 8, "a", ("sts_test", "mr"), {"sts_test": 60.5, "mr": 70.0})
    for look in (
        first,
        Look("E7", "mean", 9, "b", ("sts_test",), {"sts_test": 61.0}),
        Look("E8", "mean", 5, "a", (), {}),
    ):
        ledger.add_look(look)
    found = ledger.looks("E7")
    assert [look.signature for look in found] == ["a", "b"] and found[0].at <= found[1].at
    assert found[0].values == first.values and found[0].suites == first.suites


def test_a_ledger_that_is_older_than_the_log(ledger: Ledger) -> None:
    booked(ledger, "a")
    engine = ledger._engine
    ledger.release("me")
    make_version_1(engine)
    older = Ledger.open(engine.url.render_as_string(hide_password=False), create=False)
    assert older.looks("E7") == []
    assert not sqlalchemy.inspect(engine).has_table("cse_selections"), "reading makes nothing"
    older.add_look(Look("E7", "mean", 8, "a", ("sts_test",), {"sts_test": 60.5}))
    assert len(older.looks("E7")) == 1
