"""Many callers at once, silent callers, and addresses that are none: the others are answered, no traceback."""

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.ledger.database import connect
from analysis.sweep_spec import SweepSpec
from cse.live_page import api, server
from cse.live_page.server import ADDRESS, DashboardServer
from tests.cse.live_page.conftest import TOKEN, asked
from tests.synthetic_ledger import write

SLOW, AT_ONCE = 400, 200


@pytest.fixture
def serving(tmp_path: Path, serve: Callable[[Path, Path], DashboardServer]) -> DashboardServer:
    Ledger.open(tmp_path / "l.db").close()
    return serve(tmp_path / "l.db", tmp_path)


def calling(serving: DashboardServer, path: str, host: bool = True) -> socket.socket:
    called = socket.create_connection((ADDRESS, serving.server_port), timeout=30)
    named = f"Host: {ADDRESS}:{serving.server_port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n" if host else ""
    called.sendall(f"GET {path} HTTP/1.0\r\n{named}".encode())
    return called


def answer(called: socket.socket) -> bytes:
    with called, called.makefile("rb") as read:
        return read.read()


def test_silent_callers_do_not_hold_others_up_and_are_let_go(
    serving: DashboardServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server._Handler, "timeout", 20.0)
    silent = [calling(serving, "/", host=False) for _ in range(SLOW)]
    begun = time.monotonic()
    waiting = [calling(serving, "/page.css") for _ in range(AT_ONCE)]
    assert all(answer(called).startswith(b"HTTP/1.0 200 ") for called in waiting)
    assert time.monotonic() - begun < 20.0, "answered while the silent ones were still held"
    for called in silent:
        called.close()
    monkeypatch.setattr(server._Handler, "timeout", 0.2)
    assert answer(calling(serving, "/", host=False)) == b""
    assert "Traceback" not in capsys.readouterr().err


def test_an_address_that_is_none_and_a_circle_of_links(
    serving: DashboardServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(calling(serving, "http://[::1")).startswith(b"HTTP/1.0 400 ")
    (tmp_path / "run" / "logs").mkdir(parents=True)
    os.symlink("rank0.log", tmp_path / "run" / "logs" / "rank0.log")
    assert api.tails(str(tmp_path / "run"), tmp_path) == {}
    assert "Traceback" not in capsys.readouterr().err


def test_a_page_gets_no_body_until_something_changes(
    serving: DashboardServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FRESH_SECONDS", 0.0)
    ledger = Ledger.open(tmp_path / "l.db")
    _, headers, body = asked(serving, "/api/state")
    etag = headers["ETag"]
    code, headers, nothing = asked(serving, "/api/state", If_None_Match=etag)
    assert (code, headers["ETag"], nothing) == (304, etag, "")
    assert asked(serving, "/api/state", If_None_Match='"other"')[::2] == (200, body)
    changes = [
        lambda: ledger.record_sweep("E7", SweepSpec({"title": "one"})),
        lambda: ledger.link("E7", [("a" * 24, {"x": 1}, 0)]),
        lambda: ledger.record_sweep("E7", SweepSpec({"title": "two"})),
        lambda: ledger.claim("a" * 24, {}, method="simcse", seed=0, owner="me", identity={}, provenance={}),
        lambda: ledger.release("me"),
    ]
    for change in changes:
        before = etag
        change()
        status, headers, body = asked(serving, "/api/state", If_None_Match=before)
        etag = headers["ETag"]
        assert status == 200 and etag != before and json.loads(body)["now"]
    assert asked(serving, "/api/state", If_None_Match=etag)[0] == 304


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("runs", "first", "idle"), [(10_000, 2.0, 0.02), (100_000, 6.0, 0.05)])
def test_first_rows_and_idle_polls_of_a_large_ledger(runs: int, first: float, idle: float, tmp_path: Path) -> None:
    """Seconds of CPU, of a ledger that nobody writes to: of 100,000 runs 3 (9.9 before), idle 0.01."""
    write(tmp_path, runs, 2)
    answers = server.Answers(connect(tmp_path / "ledger.db", create=False), tmp_path)
    begun = time.process_time()
    made, rows = answers.get("/api/state", {}), answers.get("/api/runs", {"sweep": "rows"})
    assert made is not None and rows is not None and len(json.loads(rows.body)["page"]) == 100
    assert time.process_time() - begun < first
    costs = []
    for _ in range(3):
        time.sleep(server.FRESH_SECONDS)
        begun = time.process_time()
        for path, query, before in (("/api/state", {}, made), ("/api/runs", {"sweep": "rows"}, rows)):
            again = answers.get(path, query)
            assert again is not None and again.etag == before.etag
        costs.append(time.process_time() - begun)
    assert min(costs) < idle, costs
