"""Server of the live page: read-only, GET only, on the loopback address, for requests with the token.

The token keeps the page private on a login node that many users share.
"""

import contextlib
import errno
import hashlib
import hmac
import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sqlalchemy import Engine

from analysis.ledger import LedgerError
from analysis.progress.sweeps import Follower
from cse.live_page import api
from cse.live_page.listing import FilterError
from cse_train.fields import ConfigError
from cse_train.files import replace_file

ADDRESS = "127.0.0.1"
REQUEST_SECONDS = 5.0
"""Seconds of silence after which a connection is closed that has not sent its whole request."""
FILE_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
"""Suffix of the page's own files in this folder -> media type; `index.html` is the page."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
NO_HEADERS: Mapping[str, str] = {}
JSON = "application/json; charset=utf-8"
TOKEN_FILE, PARAMETER, BEARER = "dashboard-token", "token", "Bearer "
TOKEN = re.compile(r"[\w-]{22}", re.ASCII)
FRESH_SECONDS = 1.0
"""Seconds for which an answer is served again without asking the ledger, however many pages are open."""
MOST_ANSWERS = 100
"""Maximum number of answers that are kept; each filter that a user tries makes one."""


@dataclass(frozen=True)
class Answer:
    """A JSON answer, and its ETag, by which a browser tells that it has the answer already."""

    body: bytes
    etag: str
    at: float
    mark: tuple[object, ...] | None
    """State of the ledger from which the answer was made; None while a driver works."""


API_PATHS = ("/api/state", "/api/runs", "/api/run", "/api/verdicts")
Decide = Callable[[str], Mapping[str, object]]
"""Function that returns a sweep's verdicts, as far as they are known."""


class Answers:
    """Cache of answers from the ledger, shared by all open pages."""

    def __init__(self, engine: Engine, storage: Path, decide: Decide | None = None) -> None:
        self._engine, self._follower, self._storage = engine, Follower(engine), storage
        self._decide, self._lock = decide, threading.Lock()
        self._making = {path: threading.Lock() for path in API_PATHS}
        """API path -> lock under which its answers are made: verdicts take seconds, and must not delay other paths."""
        self._answers: dict[tuple[str, ...], Answer] = {}

    def get(self, path: str, query: Mapping[str, str]) -> Answer | None:
        """Returns JSON that is at most FRESH_SECONDS old, or of an unchanged ledger; None for an unknown path.

        Raises LedgerError if the ledger cannot be read, and FilterError for a filter that names no column.
        """
        if path not in self._making:
            return None
        key = (path, *(f"{name}={value}" for name, value in sorted(query.items())))
        with self._making[path]:
            now = time.monotonic()
            stored = self._answers.get(key)
            if stored is not None and now - stored.at < FRESH_SECONDS:
                return stored
            mark = self._follower.mark()
            if stored is not None and mark is not None and mark == stored.mark:
                return self._keep(key, replace(stored, at=now))
            data = self._data(path, query)
            if data is None:
                return None
            body = json.dumps(data).encode()
            etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            return self._keep(key, Answer(body, etag, time.monotonic(), mark))

    def _keep(self, key: tuple[str, ...], answer: Answer) -> Answer:
        with self._lock:
            # The newest answer goes last: the one that was asked for longest ago is dropped first.
            self._answers.pop(key, None)
            self._answers[key] = answer
            if len(self._answers) > MOST_ANSWERS:
                del self._answers[next(iter(self._answers))]
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
        if path == "/api/verdicts":
            return self._decide(sweep) if self._decide else {}
        return None


class DashboardServer(ThreadingHTTPServer):
    """HTTP server for one ledger and the logs in one storage folder."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
    """Connections that may wait to be accepted; with the library's 5, bursts of connections are refused and retried."""

    def __init__(self, engine: Engine, storage: Path, port: int, token: str, decide: Decide | None = None) -> None:
        """`port` 0 takes any free one. Raises ConfigError if the port is taken or may not be used."""
        self.engine, self.storage, self.token = engine, storage, token
        self.answers = Answers(engine, storage, decide)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            problem = f"port in use: port={port}" if in_use else f"no such port: port={port} ({error})"
            raise ConfigError([f"{problem}; give another --port, or 0 for any free one"]) from error

    @property
    def url(self) -> str:
        """Returns the page's address with the token, which a browser then keeps as a cookie."""
        return f"http://{ADDRESS}:{self.server_port}/?{PARAMETER}={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of connections that the browser closed before the answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: DashboardServer
    server_version, sys_version = "cse", ""
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        server, port = self.server, self.server.server_port
        # Any other host belongs to a foreign page that has rebound its DNS name.
        if self.headers.get("Host", "") not in (f"{ADDRESS}:{port}", f"localhost:{port}"):
            self._answer(HTTPStatus.FORBIDDEN, {"error": f"open {ADDRESS}:{port}"})
            return
        try:
            address = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        except ValueError:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": "no such address"})
            return
        # Its name has the port, since browsers share cookies among all ports of a host.
        cookie = f"cse_dashboard_{port}"
        if not self._shows_token(query, cookie):
            self._answer(HTTPStatus.FORBIDDEN, {"error": "open the address that cse dashboard printed, with its token"})
            return
        try:
            if address.path == "/" and PARAMETER in query:
                # To the address without the token, which would stay in the browser's history.
                kept = f"{cookie}={server.token}; Path=/; HttpOnly; SameSite=Strict"
                self._send(HTTPStatus.SEE_OTHER, b"", JSON, {"Location": "/", "Set-Cookie": kept})
            elif not self._file(address.path):
                self._ask(address.path, query)
        except LedgerError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})
        except FilterError as error:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _shows_token(self, query: Mapping[str, str], cookie: str) -> bool:
        """Returns True if a request has the token: in its address, as `Bearer`, or in the page's cookie."""
        values = [query.get(PARAMETER, ""), str(self.headers.get("Authorization", "")).removeprefix(BEARER)]
        with contextlib.suppress(CookieError):
            morsel = SimpleCookie(str(self.headers.get("Cookie", ""))).get(cookie)
            values += [morsel.value] if morsel else []
        token = self.server.token.encode()
        return any(hmac.compare_digest(token, value.encode(errors="replace")) for value in values)

    def _file(self, path: str) -> bool:
        name = "index.html" if path == "/" else path[1:]
        file = resources.files("cse.live_page").joinpath(name)
        if path == "/base.css":  # what all pages of the project share
            file = resources.files("analysis.report").joinpath("page.css")
        kind = FILE_KINDS.get(Path(name).suffix)
        if "/" in name or kind is None or not file.is_file():
            return False
        self._send(HTTPStatus.OK, file.read_bytes(), f"{kind}; charset=utf-8")
        return True

    def _ask(self, path: str, query: dict[str, str]) -> None:
        if path == "/api/log" and "run" in query:
            self._answer(HTTPStatus.OK, api.log(self.server.engine, query["run"], self.server.storage))
        elif answer := self.server.answers.get(path, query):
            is_known = self.headers.get("If-None-Match") == answer.etag
            self._send(HTTPStatus.NOT_MODIFIED if is_known else HTTPStatus.OK, answer.body, JSON, {"ETag": answer.etag})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "nothing here"})

    def _answer(self, status: HTTPStatus, data: Any) -> None:
        self._send(status, json.dumps(data).encode(), JSON)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, extra_headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Sends the headers and body of a response; no body if the browser has it already (304)."""
        empty = status == HTTPStatus.NOT_MODIFIED
        entity_headers = {} if empty else {"Content-Type": kind, "Content-Length": str(len(body))}
        self.send_response(status)
        for name, value in {**HEADERS, **entity_headers, **extra_headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"" if empty else body)

    def log_message(self, format: str, *args: Any) -> None:
        """Writes no log line: the page asks every two seconds, and a user reads the terminal."""


def keep_token(folder: Path) -> str:
    """Returns the user's token from a folder of theirs, and creates one if none is there that only the user can read.

    All pages of the user share it, so that permalinks and open pages outlive the server. Where the folder cannot be
    written, the token lasts for this call.
    """
    file, new_token = folder / TOKEN_FILE, secrets.token_urlsafe(16)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if file.is_file() and file.stat().st_mode & 0o077 == 0 and file.stat().st_uid == os.getuid():
            stored = file.read_text(encoding="ascii")
            if TOKEN.fullmatch(stored):
                return stored

    def write(path: Path) -> None:
        path.touch(mode=0o600)  # private before the token is in the file
        path.write_text(new_token, encoding="ascii")

    with contextlib.suppress(OSError):
        replace_file(file, write)
    return new_token
