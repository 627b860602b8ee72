"""The page's server: loopback only, read only, GET only, and rejects names that are not this machine's."""

import errno
import json
import sys
import threading
import time
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
"""Seconds for which a connection that says nothing more keeps its thread."""
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


class Answers:
    """The state of the ledger as pages get it, for all of them together."""

    def __init__(self, engine: Engine, storage: Path) -> None:
        self._follower, self._storage, self._lock = Follower(engine), storage, threading.Lock()
        self._answers: dict[str | None, tuple[float, bytes]] = {}

    def state(self, sweep: str | None) -> bytes:
        """`api.state` as JSON, at most FRESH_S old. LedgerError."""
        with self._lock:
            now = time.monotonic()
            self._answers = {name: answer for name, answer in self._answers.items() if now - answer[0] < FRESH_S}
            if sweep not in self._answers:
                body = json.dumps(api.state(self._follower, sweep, self._storage)).encode()
                self._answers[sweep] = time.monotonic(), body
            return self._answers[sweep][1]


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
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError([_no_port(port, error)]) from error

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"

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

    def do_GET(self) -> None:
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
            self._send(HTTPStatus.OK, self.server.answers.state(query.get("sweep")), JSON)
        elif path == "/api/log" and "run" in query:
            self._answer(HTTPStatus.OK, api.log(engine, query["run"], self.server.storage))
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "nothing here"})

    def _answer(self, status: HTTPStatus, data: Any) -> None:
        self._send(status, json.dumps(data).encode(), JSON)

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a person reads the terminal, not a line every two seconds."""
