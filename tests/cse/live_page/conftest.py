"""The live page's server over a ledger, and requests to it."""

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analysis.ledger.database import connect
from cse.live_page.server import DashboardServer

TOKEN = "a" * 22
Answer = tuple[int, http.client.HTTPMessage, str]


@pytest.fixture
def serve() -> Iterator[Callable[[Path, Path], DashboardServer]]:
    """Starts a server of a ledger's file and a storage folder; it ends with the test."""
    with contextlib.ExitStack() as ended:

        def start(ledger: Path, storage: Path) -> DashboardServer:
            opened = DashboardServer(connect(ledger, create=False), storage, 0, TOKEN)
            thread = threading.Thread(target=opened.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            for end in (opened.engine.dispose, thread.join, opened.server_close, opened.shutdown):  # the last one first
                ended.callback(end)
            return opened

        yield start


def asked(server: DashboardServer, path: str, **headers: str) -> Answer:
    """Status, headers and body; with the token as a header, unless `headers` says otherwise."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    named = {"Authorization": f"Bearer {TOKEN}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers=named)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode()
