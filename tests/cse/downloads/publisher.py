"""A publisher on this machine: a hub and plain files, with the faults that networks have."""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0" * 40
PIECE = 1 << 12


class Publisher(ThreadingHTTPServer):
    """Serves `files` by their name, in the hub's place for a data set's files and in the root."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.fault = ""
        """cut, slow, gone, html, or whole (ranges are refused)."""
        self.cuts = 2
        """How many answers a fault `cut` ends in their midst."""
        self.asked: list[tuple[str, str, str | None]] = []
        """Method, path and range of each request."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address) -> None:
        """Connections that a client gave up are no error of the test."""


class Handler(BaseHTTPRequestHandler):
    server: Publisher

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *words: object) -> None:
        """Quiet."""

    def _answer(self, *, with_body: bool) -> None:
        server, given = self.server, self.headers["Range"]
        server.asked.append((self.command, self.path, given))
        body = server.files.get(self.path.rpartition("/")[2])
        if body is None or server.fault == "gone":
            self.send_error(404)
            return
        if server.fault == "html":
            body = b"<!DOCTYPE html><html><body>Please log in.</body></html>"
        start = int(given.removeprefix("bytes=").partition("-")[0]) if given and server.fault != "whole" else 0
        if start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Accept-Ranges", "bytes")
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        if with_body:
            self._send(body[start:])

    def _send(self, body: bytes) -> None:
        server = self.server
        if server.fault == "cut" and server.cuts:
            server.cuts -= 1
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        for begin in range(0, len(body), PIECE):
            self.wfile.write(body[begin : begin + PIECE])
            if server.fault == "slow":
                time.sleep(0.02)


@contextmanager
def publish(files: dict[str, bytes]) -> Iterator[Publisher]:
    server = Publisher(files)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
