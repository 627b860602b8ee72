"""The page's server: loopback only, read only, GET only, and rejects names that are not this machine's."""

import contextlib
import errno
import hashlib
import json
import socket
import sys
import threading
import time
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sqlalchemy import Engine

from analysis.ledger import LedgerError
from analysis.progress.follower import Follower
from cluster.monitor.dashboard import api
from cse_train.fields import ConfigError

ADDRESS = "127.0.0.1"
READ_S = 5.0
"""Seconds within which a connection must have sent its request."""
UNREAD = 1000
"""Connections at once that have not sent it."""
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/curves.js": ("curves.js", "text/javascript; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


JSON = "application/json; charset=utf-8"
FRESH_S = 1.0
"""Seconds for which an answer is as good as a new one: however many pages are open, the ledger is read once."""
KEPT_S = 60.0
"""Seconds for which an answer that nobody asks for is kept: it is given again where the ledger has not changed."""


@dataclass(frozen=True)
class Answer:
    """JSON and the tag by which a page says that it has it already."""

    body: bytes
    etag: str
    at: float
    mark: tuple[object, ...] | None
    """The ledger's state that it was made from; None while a driver works."""


class Answers:
    """The state of the ledger as pages get it, for all of them together."""

    def __init__(self, engine: Engine, storage: Path) -> None:
        self._follower, self._storage, self._lock = Follower(engine), storage, threading.Lock()
        self._answers: dict[str | None, Answer] = {}

    def state(self, sweep: str | None) -> Answer:
        """`api.state` as JSON: at most FRESH_S old, or of a ledger that has not changed since. LedgerError."""
        with self._lock:
            now = time.monotonic()
            self._answers = {name: answer for name, answer in self._answers.items() if now - answer.at < KEPT_S}
            before = self._answers.get(sweep)
            if before is None or now - before.at >= FRESH_S:
                self._answers[sweep] = self._made(sweep, before)
            return self._answers[sweep]

    def _made(self, sweep: str | None, before: Answer | None) -> Answer:
        mark = self._follower.mark()
        if before is not None and mark is not None and mark == before.mark:
            return replace(before, at=time.monotonic())
        body = json.dumps(api.state(self._follower, sweep, self._storage)).encode()
        return Answer(body, f'"{hashlib.sha256(body).hexdigest()[:16]}"', time.monotonic(), mark)


class DashboardServer(ThreadingHTTPServer):
    """Serves one ledger and the logs under one storage root."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
    """Connections that wait to be accepted: with the library's 5, many at once are sent away and try again."""

    def __init__(self, engine: Engine, storage: Path, port: int) -> None:
        """`port` 0 takes any free one. ConfigError where the port is taken or not ours to use."""
        self.engine, self.storage = engine, storage
        self.answers = Answers(engine, storage)
        self.reading: dict[socket.socket, float] = {}
        """Connections whose request is not there yet, the oldest first, and when they must have sent it."""
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError([_no_port(port, error)]) from error

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Of too many that have sent no request the oldest is let go: each keeps a thread."""
        while len(self.reading) >= UNREAD:
            self._let_go(next(iter(list(self.reading)), None))
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Between requests: who sends byte by byte is let go like one who sends nothing."""
        now = time.monotonic()
        for connection, until in list(self.reading.items()):
            if until < now:
                self._let_go(connection)

    def _let_go(self, connection: socket.socket | None) -> None:
        if connection is not None and self.reading.pop(connection, 0.0):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that left before its answer is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def hosts(self) -> set[str]:
        """Names under which a browser on this machine may call; any other is a page elsewhere that rebinds its name."""
        return {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}


def _no_port(port: int, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"port in use: port={port}; give another --port, or 0 for any free one"
    return f"no such port: port={port} ({error}); give another --port, or 0 for any free one"


class _Handler(BaseHTTPRequestHandler):
    server: DashboardServer
    server_version, sys_version = "cse", ""
    timeout = READ_S

    def setup(self) -> None:
        super().setup()
        self.server.reading[self.connection] = time.monotonic() + READ_S

    def finish(self) -> None:
        self.server.reading.pop(self.connection, None)
        super().finish()

    def do_GET(self) -> None:
        self.server.reading.pop(self.connection, None)
        if self.headers.get("Host", "") not in self.server.hosts():
            self._answer(HTTPStatus.FORBIDDEN, {"error": f"open {self.server.url}"})
            return
        try:
            where = urlsplit(self.path)
        except ValueError:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": "no such address"})
            return
        if where.path in FILES:
            name, kind = FILES[where.path]
            self._send(HTTPStatus.OK, resources.files("cluster.monitor.dashboard").joinpath(name).read_bytes(), kind)
            return
        try:
            self._ask(where.path, {name: values[-1] for name, values in parse_qs(where.query).items()})
        except LedgerError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})

    def _ask(self, path: str, query: dict[str, str]) -> None:
        engine = self.server.engine
        if path == "/api/state":
            state = self.server.answers.state(query.get("sweep"))
            same = self.headers.get("If-None-Match") == state.etag
            self._send(HTTPStatus.NOT_MODIFIED if same else HTTPStatus.OK, state.body, JSON, etag=state.etag)
        elif path == "/api/log" and "run" in query:
            self._answer(HTTPStatus.OK, api.log(engine, query["run"], self.server.storage))
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "nothing here"})

    def _answer(self, status: HTTPStatus, data: Any) -> None:
        self._send(status, json.dumps(data).encode(), JSON)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, *, etag: str | None = None) -> None:
        """A body with its headers, and without one where the page has it already."""
        empty = status == HTTPStatus.NOT_MODIFIED
        about = {} if empty else {"Content-Type": kind, "Content-Length": str(len(body))}
        self.send_response(status)
        for name, value in {**HEADERS, **about, **({"ETag": etag} if etag else {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"" if empty else body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a person reads the terminal, not a line every two seconds."""
