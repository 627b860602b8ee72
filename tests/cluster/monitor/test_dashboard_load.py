"""Many callers at once, silent callers, and addresses that are none: the others are answered, no traceback."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.ledger.database import connect
from cluster.monitor.dashboard import api, server
from cluster.monitor.dashboard.server import ADDRESS, DashboardServer

SLOW, AT_ONCE = 400, 200


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardServer]:
    Ledger.open(tmp_path / "l.db").close()
    opened = DashboardServer(connect(tmp_path / "l.db", create=False), tmp_path, 0)
    thread = threading.Thread(target=opened.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield opened
    opened.shutdown()
    opened.server_close()
    thread.join()
    opened.engine.dispose()


def calling(serving: DashboardServer, path: str, host: bool = True) -> socket.socket:
    called = socket.create_connection((ADDRESS, serving.server_port), timeout=30)
    told = f"Host: {ADDRESS}:{serving.server_port}\r\n\r\n" if host else ""
    called.sendall(f"GET {path} HTTP/1.0\r\n{told}".encode())
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
