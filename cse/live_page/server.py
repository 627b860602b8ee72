"""The page's server: loopback only, read only, GET only, for whoever has its token, under this machine's own names."""

import contextlib
import errno
import hashlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
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
from analysis.progress.pages import FilterError
from cse.live_page import api, secret
from cse_train.fields import ConfigError

ADDRESS = "127.0.0.1"
READ_S = 5.0
"""Seconds within which a connection must have sent its request."""
UNREAD = 1000
"""Connections at once that have not sent it."""
FILE_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
"""The page's own files: those of this folder that end so; `index.html` is the page."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
NO_HEADERS: Mapping[str, str] = {}
JSON = "application/json; charset=utf-8"
FRESH_S = 1.0
"""Seconds for which an answer is as good as a new one: however many pages are open, the ledger is read once."""
MOST_KEPT = 100
"""Answers that are kept at once: every filter that somebody tries is one."""
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


API_PATHS = ("/api/state", "/api/runs", "/api/cells", "/api/run", "/api/verdicts")
Decide = Callable[[str], Mapping[str, object]]
"""Sweep -> its verdicts, as far as they are known."""


class Answers:
    """What pages ask of the ledger, for all of them together."""

    def __init__(self, engine: Engine, storage: Path, decide: Decide | None = None) -> None:
        self._engine, self._follower, self._storage = engine, Follower(engine), storage
        self._decide, self._lock = decide, threading.Lock()
        self._making = {path: threading.Lock() for path in API_PATHS}
        """Verdicts take seconds; the page goes on meanwhile."""
        self._answers: dict[tuple[str, ...], Answer] = {}

    def get(self, path: str, query: Mapping[str, str]) -> Answer | None:
        """JSON at most FRESH_S old, or of a ledger that has not changed since; None for no such address.

        LedgerError; FilterError for a filter that names no column.
        """
        if path not in self._making:
            return None
        key = (path, *(f"{name}={value}" for name, value in sorted(query.items())))
        with self._making[path]:
            now = time.monotonic()
            before = self._answers.get(key)
            if before is not None and now - before.at < FRESH_S:
                return before
            mark = self._follower.mark()
            if before is not None and mark is not None and mark == before.mark:
                return self._keep(key, replace(before, at=now))
            data = self._data(path, query)
            if data is None:
                return None
            body = json.dumps(data).encode()
            etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            return self._keep(key, Answer(body, etag, time.monotonic(), mark))

    def _keep(self, key: tuple[str, ...], answer: Answer) -> Answer:
        with self._lock:
            others = {
                name: kept for name, kept in self._answers.items() if name != key and answer.at - kept.at < KEPT_S
            }
            self._answers = dict(list(others.items())[-MOST_KEPT:]) | {key: answer}
        return answer

    def _data(self, path: str, query: Mapping[str, str]) -> Mapping[str, object] | None:
        sweep = query.get("sweep")
        if path == "/api/state":
            return api.state(self._follower, sweep, self._storage)
        if path == "/api/run" and "run" in query:
            return api.one_run(self._engine, query["run"])
        if sweep is None:
            return None
        if path == "/api/runs":
            return api.runs(self._follower, sweep, query)
        if path == "/api/cells":
            return api.cells(self._follower, sweep)
        if path == "/api/verdicts":
            return self._decide(sweep) if self._decide else {}
        return None


class DashboardServer(ThreadingHTTPServer):
    """Serves one ledger and the logs under one storage root."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
    """Connections that wait to be accepted: with the library's 5, many at once are sent away and try again."""

    def __init__(self, engine: Engine, storage: Path, port: int, token: str, decide: Decide | None = None) -> None:
        """`port` 0 takes any free one. ConfigError where the port is taken or not ours to use."""
        self.engine, self.storage, self.token = engine, storage, token
        self.answers = Answers(engine, storage, decide)
        self.reading: dict[socket.socket, float] = {}
        """Connections whose request is not there yet, the oldest first, and when they must have sent it."""
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            what = f"port in use: port={port}" if in_use else f"no such port: port={port} ({error})"
            raise ConfigError([f"{what}; give another --port, or 0 for any free one"]) from error

    @property
    def url(self) -> str:
        """With the token, which a browser then keeps as a cookie."""
        return f"http://{ADDRESS}:{self.server_port}/?{secret.PARAMETER}={self.token}"

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
            self._answer(HTTPStatus.FORBIDDEN, {"error": f"open {ADDRESS}:{self.server.server_port}"})
            return
        try:
            where = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(where.query).items()}
        except ValueError:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": "no such address"})
            return
        authorization, cookies = (str(self.headers.get(name, "")) for name in ("Authorization", "Cookie"))
        if not secret.shows_token(
            self.server.token, query.get(secret.PARAMETER, ""), authorization, cookies, self.server.server_port
        ):
            self._answer(HTTPStatus.FORBIDDEN, {"error": "open the address that cse dashboard printed, with its token"})
            return
        try:
            if where.path == "/" and secret.PARAMETER in query:
                self._send(HTTPStatus.SEE_OTHER, b"", JSON, self._welcome())
            elif not self._file(where.path):
                self._ask(where.path, query)
        except LedgerError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})
        except FilterError as error:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _welcome(self) -> dict[str, str]:
        """The page without the token in its address, where it would stay in the browser's history."""
        name = secret.cookie(self.server.server_port)
        return {"Location": "/", "Set-Cookie": f"{name}={self.server.token}; Path=/; HttpOnly; SameSite=Strict"}

    def _file(self, path: str) -> bool:
        name = "index.html" if path == "/" else path[1:]
        file = resources.files("cse.live_page").joinpath(name)
        kind = FILE_KINDS.get(Path(name).suffix)
        if "/" in name or kind is None or not file.is_file():
            return False
        self._send(HTTPStatus.OK, file.read_bytes(), f"{kind}; charset=utf-8")
        return True

    def _ask(self, path: str, query: dict[str, str]) -> None:
        if path == "/api/log" and "run" in query:
            self._answer(HTTPStatus.OK, api.log(self.server.engine, query["run"], self.server.storage))
        elif answer := self.server.answers.get(path, query):
            same = self.headers.get("If-None-Match") == answer.etag
            self._send(HTTPStatus.NOT_MODIFIED if same else HTTPStatus.OK, answer.body, JSON, {"ETag": answer.etag})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "nothing here"})

    def _answer(self, status: HTTPStatus, data: Any) -> None:
        self._send(status, json.dumps(data).encode(), JSON)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, more: Mapping[str, str] = NO_HEADERS) -> None:
        """A body with its headers, and without one where the page has it already."""
        empty = status == HTTPStatus.NOT_MODIFIED
        about = {} if empty else {"Content-Type": kind, "Content-Length": str(len(body))}
        self.send_response(status)
        for name, value in {**HEADERS, **about, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"" if empty else body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a person reads the terminal, not a line every two seconds."""
