"""Claims, leases, curves, scores, sweeps and logged selections on a real database."""

import json
import multiprocessing
import time
from collections import Counter
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Insert, Select, Update, event, select, update

from analysis.ledger import Claim, CurvePoint, Ledger, LedgerError, LostClaim, schema
from analysis.ledger.database import transaction
from analysis.ledger.rows import Objects
from analysis.ledger.selection_log import Look
from analysis.sweep_spec import SweepSpec
from cse_train.results import Point
from tests.analysis.ledger.older import make_version_1
from tests.run_values import point_of, score_of

CONFIG = {"train.learning_rate": 3e-5, "train.dev": "sts_dev", "method.dup_rate": 0.32, "method.queue": None}


def claim(ledger: Ledger, signature: str = "aa", owner: str = "me") -> Claim | None:
    return ledger.claim(
        signature,
        CONFIG,
        method="esimcse",
        seed=1,
        owner=owner,
        identity={"encoder": "e1"},
        provenance={"commit": "c0ffee", "host": "h"},
    )


def held(ledger: Ledger, signature: str = "aa", owner: str = "me") -> Claim:
    taken = claim(ledger, signature, owner)
    assert taken is not None
    return taken


def finish(ledger: Ledger, taken: Claim, state: str = "done", **values: Any) -> None:
    given = {"examples": 640, "best": 61.5, "best_examples": 320, "seconds": 9.5, "folder": "kept/aa/1"}
    ledger.finish(taken, state, **(given | values))


def point(examples: int, best: float = 50.0, **metrics: float) -> Point:
    measured = {"sts_dev": best, "loss": 0.5, **metrics}
    return point_of(examples, best, step=examples // 64, seconds=examples / 100, metrics=measured)


def stored(*points: Point) -> list[CurvePoint]:
    return [CurvePoint(p.examples, p.step, p.seconds, p.metrics, p.best, p.best_examples) for p in points]


def states(ledger: Ledger, signature: str = "aa") -> list[tuple[int, str]]:
    return [(row.attempt, row.state) for row in ledger.history(signature)]


def test_a_run_from_claim_to_done(ledger: Ledger) -> None:
    taken = held(ledger)
    assert (taken.attempt, taken.previous_folders, taken.previous_state) == (1, (), None)
    ledger.running(taken, folder="kept/aa/1")
    ledger.add_points(taken, [point(64), point(128, best=61.5)])
    finish(ledger, taken)
    row = ledger.run("aa")
    assert row is not None
    assert (row.state, row.attempt, row.owner, row.seed, row.method) == ("done", 1, "me", 1, "esimcse")
    assert (row.examples, row.best, row.best_examples, row.seconds) == (640, 61.5, 320, 9.5)
    assert row.config == CONFIG and row.identity == {"encoder": "e1"} and row.folder == "kept/aa/1" and not row.live
    assert states(ledger) == [(1, "claimed"), (1, "running"), (1, "done")]
    (origin,) = ledger.provenance(["aa"])["aa"]
    assert (origin.details["commit"], origin.examples, origin.seconds) == ("c0ffee", 640, 9.5)


def test_a_done_run_is_never_claimed_again(ledger: Ledger) -> None:
    finish(ledger, held(ledger))
    assert claim(ledger) is None and claim(ledger, owner="you") is None


def test_a_live_claim_holds_against_all_and_its_own_owner(ledger: Ledger) -> None:
    held(ledger)
    assert claim(ledger, owner="you") is None and claim(ledger) is None
    assert ledger.states(["aa", "bb"]) == {"aa": "claimed"}
    (row,) = ledger.runs()
    assert row.live


@pytest.mark.parametrize("end", ["stopped", "failed", "lost"])
def test_an_ended_run_goes_on_as_the_next_attempt(ledger: Ledger, end: str) -> None:
    finish(ledger, held(ledger), end, reason="because")
    row = ledger.run("aa")
    assert row is not None and (row.state, row.reason) == (end, "because")
    again = held(ledger, owner="you")
    assert (again.attempt, again.previous_folders, again.previous_state) == (2, ("kept/aa/1",), end)
    row = ledger.run("aa")
    assert row is not None and (row.state, row.owner, row.reason, row.best) == ("claimed", "you", None, 61.5)


def test_leases_are_the_databases_alone_whatever_a_hosts_clock_says(ledger: Ledger) -> None:
    sent: list[Any] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        rows = parameters if isinstance(parameters, list) else [parameters]
        sent.extend(value for row in rows for value in (row.values() if isinstance(row, dict) else row))

    event.listen(ledger._engine, "before_cursor_execute", note)
    taken = held(ledger)
    ledger.running(taken, folder="kept/aa/1")
    ledger.add_points(taken, [point(64)])
    assert ledger.heartbeat("me") == 1
    assert claim(ledger, owner="you") is None
    finish(ledger, taken)
    ledger.release("me")
    day = 86_400
    assert [value for value in sent if isinstance(value, float)]
    assert not [value for value in sent if isinstance(value, float) and abs(value - time.time()) < day]
    assert not [value for value in sent if isinstance(value, datetime)]


def test_a_stale_claim_is_taken_over_and_its_orphan_reports_nothing(ledger_url: str) -> None:
    first = Ledger.open(ledger_url, lease=0.2)
    orphan = held(first)
    first.running(orphan, folder="kept/aa/1")
    second = Ledger.open(ledger_url)
    assert claim(second, owner="you") is None
    time.sleep(0.3)
    assert second.states(["aa"]) == {"aa": "lost"}
    taken = held(second, owner="you")
    assert (taken.attempt, taken.previous_folders, taken.previous_state) == (2, ("kept/aa/1",), "lost")
    assert first.heartbeat("me") == 0
    for late in (
        lambda: first.running(orphan),
        lambda: first.add_points(orphan, [point(64)]),
        lambda: finish(first, orphan),
        lambda: finish(first, orphan, "failed"),
    ):
        with pytest.raises(LostClaim, match=r"signature=aa attempt=1 of me gave way to attempt 2 of you \(claimed\)"):
            late()
    assert first.release(orphan) == 0
    row = second.run("aa")
    assert row is not None and (row.state, row.attempt, row.best) == ("claimed", 2, None)
    assert second.curve("aa") == []
    assert states(second) == [(1, "claimed"), (1, "running"), (1, "lost"), (2, "claimed")]
    first.close()
    second.close()


def test_the_heartbeat_keeps_a_claim(ledger: Ledger) -> None:
    taken = held(ledger)
    for _ in range(2):
        with transaction(ledger._engine, writes=True) as connection:
            connection.execute(update(schema.runs).values(lease_until=schema.now() - 1))
        assert ledger.states(["aa"]) == {"aa": "lost"}
        assert ledger.heartbeat("me") == 1
        assert claim(ledger, owner="you") is None
    finish(ledger, taken)
    assert ledger.heartbeat("me") == 0


def test_the_statements_of_a_run_are_made_once_for_all_runs(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one takes a driver as long as to carry it out, at each end of a trial."""
    held(ledger, "aa")
    made: list[str] = []
    for kind in (Insert, Update, Select):
        begin = kind.__init__

        def noted(self: Any, *given: Any, begin: Any = begin, **more: Any) -> None:
            made.append(type(self).__name__)
            begin(self, *given, **more)

        monkeypatch.setattr(kind, "__init__", noted)
    taken = held(ledger, "bb")
    ledger.running(taken, folder="kept/bb/1")
    assert ledger.stands(taken) == "running"
    finish(ledger, taken, points=[point(64)])
    assert made == []
    select(schema.runs)
    assert made == ["Select"], "the counter counts"


def test_the_same_end_may_be_said_twice_but_no_other(ledger: Ledger) -> None:
    taken = held(ledger)
    finish(ledger, taken)
    finish(ledger, taken)
    assert states(ledger) == [(1, "claimed"), (1, "done")]
    with pytest.raises(LostClaim, match="claim lost: signature=aa"):
        finish(ledger, taken, "failed")


def test_released_runs_are_free_at_once(ledger: Ledger) -> None:
    finish(ledger, held(ledger, "stopped"), "stopped")
    held(ledger, "stopped")
    ledger.running(held(ledger, "started"), folder="kept/started/1")
    held(ledger, "fresh")
    finish(ledger, held(ledger, "done"))
    held(ledger, "theirs", owner="you")
    assert ledger.release("me", reason="interrupted") == 3
    assert ledger.states(["stopped", "started", "fresh", "done", "theirs"]) == {
        "stopped": "stopped",
        "started": "lost",
        "fresh": "lost",
        "done": "done",
        "theirs": "claimed",
    }
    assert ledger.history("started")[-1].reason == "interrupted"
    assert held(ledger, "started").previous_folders[0] == "kept/started/1"
    assert held(ledger, "stopped").attempt == 3


def test_one_claim_can_be_released(ledger: Ledger) -> None:
    taken, other = held(ledger), held(ledger, "bb")
    assert ledger.release(taken) == 1 and ledger.release(taken) == 0
    assert ledger.heartbeat("me") == 1
    finish(ledger, other)


def test_all_earlier_folders_are_offered_newest_first(ledger: Ledger) -> None:
    for folder in ("one", "two"):
        taken = held(ledger)
        ledger.running(taken, folder=folder)
        finish(ledger, taken, "lost", folder=None)
    assert held(ledger).previous_folders == ("two", "one")


def test_points_reported_again_change_nothing(ledger: Ledger) -> None:
    taken = held(ledger)
    ledger.running(taken)
    ledger.add_points(taken, [point(64), point(128)])
    ledger.add_points(taken, [point(64), point(128), point(192, best=52.0)])
    ledger.add_points(taken, [])
    assert ledger.curve("aa") == stored(point(64), point(128), point(192, best=52.0))
    row = ledger.run("aa")
    assert row is not None and (row.examples, row.best, row.seconds) == (192, 52.0, 1.92)
    assert ledger.curve("unknown") == []


def test_values_that_json_lacks_become_null(ledger: Ledger) -> None:
    taken = held(ledger)
    ledger.add_points(taken, [point(64, best=3.0, loss=float("nan"))])
    assert ledger.curve("aa")[0].metrics == {"loss": None, "sts_dev": 3.0}


def test_a_failure_inside_a_transaction_leaves_no_trace(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = held(ledger)

    def broken(*args: Any, **options: Any) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr("analysis.ledger.ledger._note", broken)
    with pytest.raises(RuntimeError, match="power cut"):
        finish(ledger, taken)
    row = ledger.run("aa")
    assert row is not None and (row.state, row.best) == ("claimed", None)


def test_scores_by_suite_and_protocol(ledger: Ledger) -> None:
    finish(ledger, held(ledger))
    ledger.add_score("aa", score_of("sts12", 60.0, {"pooler": "cls"}, "c.npy", "h1"))
    ledger.add_score("aa", score_of("sts12", 61.0, {"pooler": "mean"}))
    ledger.add_score("aa", score_of("sts12", 62.0, {"pooler": "cls"}, "d.npy", "h2"))
    found = {row.protocol.pooler: (row.suite, row.value, row.cosines_hash) for row in ledger.scores(["aa", "zz"])}
    assert found == {"cls": ("sts12", 62.0, "h2"), "mean": ("sts12", 61.0, None)}


def test_a_sweep_knows_its_cells_and_their_states(ledger: Ledger) -> None:
    ledger.record_sweep("E7", SweepSpec({"title": "old"}))
    ledger.record_sweep("E7", SweepSpec({"title": "dup_rate"}))
    ledger.link("E7", [("aa", {"dup_rate": 0.08}, 1)])
    ledger.link("E7", [("aa", {"dup_rate": 0.08}, 1)])
    ledger.link("E7", [("bb", {"dup_rate": None}, 2), ("aa", {"label": "default"}, 1)])
    finish(ledger, held(ledger))
    held(ledger, "elsewhere")
    (sweep,) = ledger.sweeps()
    assert (sweep.id, sweep.spec, sweep.runs, sweep.states) == (
        "E7",
        SweepSpec({"title": "dup_rate"}),
        2,
        {"done": 1, "unclaimed": 1},
    )
    assert [row.signature for row in ledger.runs(sweep="E7")] == ["aa"]
    assert [row.signature for row in ledger.runs(states=["claimed"])] == ["elsewhere"]
    assert {(row.signature, str(row.cell), row.seed) for row in ledger.cells("E7")} == {
        ("aa", "{'dup_rate': 0.08}", 1),
        ("aa", "{'label': 'default'}", 1),
        ("bb", "{'dup_rate': None}", 2),
    }


def contend(url: str, owner: str, start: Any, won: Any) -> None:
    ledger = Ledger.open(url)
    start.wait(60)
    signatures = [f"run{number:02d}" for number in range(50)]
    won.put([signature for signature in signatures if claim(ledger, signature, owner) is not None])
    ledger.close()


def test_eight_processes_claim_each_run_exactly_once(ledger_url: str) -> None:
    """All eight also create the ledger at the same moment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    won, start = context.Queue(), context.Barrier(8)
    processes = [context.Process(target=contend, args=(ledger_url, f"p{number}", start, won)) for number in range(8)]
    for process in processes:
        process.start()
    claims = Counter(signature for _ in processes for signature in won.get(timeout=60))
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert len(claims) == 50 and set(claims.values()) == {1}
    ledger = Ledger.open(ledger_url)
    assert {row.attempt for row in ledger.runs()} == {1}
    ledger.close()


def test_a_full_disk_is_told_in_one_line_and_loses_nothing(tmp_path: Any) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    taken = held(ledger)
    with ledger._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
    with pytest.raises(LedgerError, match=r"^ledger disk: url=sqlite:.* has no space left; free some.*$") as failure:
        ledger.add_points(taken, [point(64 * step) for step in range(1, 2000)])
    assert "\n" not in str(failure.value)
    assert ledger.curve("aa") == []
    finish(ledger, taken)
    row = ledger.run("aa")
    assert row is not None and row.state == "done"
    ledger.close()


def test_a_lease_from_before_the_clock_was_set_back_does_not_hold(ledger: Ledger, ledger_url: str) -> None:
    held(Ledger.open(ledger_url, lease=7200.0))
    row = ledger.run("aa")
    assert row is not None and not row.live
    assert held(ledger, owner="other").attempt == 2


def test_a_finished_run_is_opened_again_once(ledger: Ledger) -> None:
    taken = held(ledger)
    assert not ledger.reopen(["aa"], "never finished")
    finish(ledger, taken)
    assert claim(ledger) is None
    assert ledger.reopen(["aa"], "its model is gone")
    assert not ledger.reopen(["aa"], "again") and not ledger.reopen(["bb"], "unknown")
    row = ledger.run("aa")
    assert row is not None and (row.state, row.reason, row.best) == ("lost", "its model is gone", 61.5)
    assert held(ledger).previous_folders == ("kept/aa/1",)


def test_seeds_of_one_cell_share_their_settings_and_keep_the_order_of_keys() -> None:
    objects = Objects()
    texts = [f'{{"a":1.0,"train.seed":{seed},"z":null}}' for seed in (0, 1, 10)]
    read = [objects.config(text) for text in texts]
    assert [config for config, _ in read] == [json.loads(text) for text in texts]
    assert [list(config) for config, _ in read] == [["a", "train.seed", "z"]] * 3
    assert len({settings for _, settings in read}) == 1


@pytest.mark.parametrize(
    "texts",
    [
        ['{"a":1,"train.seed":3}', '{"a":2,"train.seed":3}'],
        ['{"train.seed":3,"a":1}', '{"train.seed":3,"a":1.0}'],
        ['{"a":{"train.seed":3},"train.seed":4}', '{"a":{"train.seed":4},"train.seed":4}'],
        ['{"a":{"train.seed":3}}', '{"a":{"train.seed":4}}'],
        ['{"train.seed":3.5,"a":1}', '{"train.seed":4.5,"a":1}'],
        ['{"train.seed":-3,"a":1}', '{"train.seed":"3","a":1}'],
        ['[{"train.seed":3,"a":1}]', '[{"train.seed":4,"a":1}]'],
        ['{"a":"\\"train.seed\\":3,"}', '{"a":"\\"train.seed\\":4,"}'],
    ],
)
def test_what_is_no_seed_of_the_run_keeps_settings_apart(texts: list[str]) -> None:
    objects = Objects()
    read = [objects.config(text) for text in texts]
    assert [config for config, _ in read] == [json.loads(text) for text in texts]
    assert len({settings for _, settings in read}) == 2


def test_a_broken_text_is_an_error() -> None:
    objects = Objects()
    objects.config('{"a":1,"train.seed":3}')
    for text in ('{"a":1,"train.seed":03}', '{"a":1,"train.seed":3', '{"a":1,}'):
        with pytest.raises(json.JSONDecodeError):
            objects.config(text)


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
