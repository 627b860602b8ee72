"""`cse export --push-to-hub` against a hub on this machine: what the real client sends is what was exported."""

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from cse_train.checkpoint import save_best
from cse_train.config import parse_run
from cse_train.encoder.backbone import load_backbone
from cse_train.methods import simcse

CSE = [sys.executable, "-m", "cse"]
FLAT = {"method": "simcse", "train.encoder": "words-l1-h64", "train.dev": "generated_dev:20", "method.pooler": "mean"}
TOKEN = "hf_of_this_test"


class Hub(ThreadingHTTPServer):
    """The part of the hub's API that a push uses: who am I, a new repository, which upload, one commit."""

    def __init__(self, refuses: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.refuses = refuses
        self.private: bool | None = None
        self.message = ""
        self.files: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        if self.path == "/api/whoami-v2":
            self._answer({"name": "me", "type": "user", "orgs": []})
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            self.server.private = asked.get("private") or asked.get("visibility") == "private"
            self._answer({"url": f"{self.server.url}/me/model", "id": "0", "name": "me/model"})
        elif self.path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            files = [{"path": name, "uploadMode": "regular", "shouldIgnore": False, "oid": None} for name in names]
            self._answer({"files": files})
        else:
            assert "/commit/" in self.path, self.path
            self._commit([json.loads(line) for line in body.splitlines()])

    def _commit(self, lines: list[dict]) -> None:
        for line in lines:
            if line["key"] == "header":
                self.server.message = line["value"]["summary"]
            else:
                self.server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        self._answer({"commitUrl": f"{self.server.url}/me/model/commit/1", "commitOid": "1", "success": True})

    def _answer(self, content: dict) -> None:
        allowed = self.headers["Authorization"] == f"Bearer {TOKEN}" and self.path != self.server.refuses
        body = json.dumps(content if allowed else {"error": "You may not"}).encode()
        self.send_response(200 if allowed else 403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with a real checkpoint."""
    parsed = parse_run(FLAT)
    with torch.random.fork_rng():
        model = simcse.SimCSE.build(parsed.options, load_backbone(parsed.train.encoder))
    save_best(tmp_path / "run", parsed, model, {"best": 60.0, "best_examples": 32})
    return tmp_path / "run"


def export(
    run: Path, hub: Hub, *words: str, token: str = TOKEN, **environment: str
) -> subprocess.CompletedProcess[str]:
    places = {"HF_ENDPOINT": hub.url, "HF_TOKEN": token, "HF_HOME": str(run / "hf"), "HF_HUB_OFFLINE": "0"}
    given = [*CSE, "export", str(run / "best"), "--to", str(run / "out"), "--format", "hf", *words]
    return subprocess.run(given, env=os.environ | places | environment, capture_output=True, text=True, timeout=200)


def test_the_hub_gets_the_folder_in_one_commit(hub: Hub, run: Path) -> None:
    done = export(run, hub, "--push-to-hub", "me/model", "--private")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"pushed {hub.url}/me/model/commit/1"
    exported = {
        str(file.relative_to(run / "out")): file.read_bytes() for file in (run / "out").rglob("*") if file.is_file()
    }
    assert hub.files == exported and {"README.md", "model.safetensors", "tokenizer.json"} <= exported.keys()
    assert hub.private is True and hub.message == f"cse export of {run / 'best'}"


@pytest.mark.parametrize(
    ("repo", "token", "environment", "line"),
    [
        ("model", TOKEN, {}, "wrong name: push_to_hub=model; give OWNER/NAME"),
        ("me/model", "", {}, "no token: push_to_hub=me/model; run `hf auth login`, or set HF_TOKEN"),
        ("me/model", "hf_another", {}, "the hub refused: push_to_hub=me/model ("),
        ("me/model", TOKEN, {"HF_HUB_OFFLINE": "1"}, "offline: push_to_hub=me/model with HF_HUB_OFFLINE set; unset it"),
        ("me/model", TOKEN, {"HF_ENDPOINT": "http://127.0.0.1:9"}, "the hub refused: push_to_hub=me/model ("),
    ],
)
def test_what_cannot_be_pushed_is_said_before_anything_is_written(
    hub: Hub, run: Path, repo: str, token: str, environment: dict[str, str], line: str
) -> None:
    done = export(run, hub, "--push-to-hub", repo, token=token, **environment)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith(f"cse: {line}") and not (run / "out").exists()


@pytest.mark.slow
def test_a_hub_that_refuses_the_repository_leaves_the_folder(hub: Hub, run: Path) -> None:
    hub.refuses = "/api/repos/create"
    done = export(run, hub, "--push-to-hub", "me/model")
    assert done.returncode == 2 and done.stderr.startswith("cse: not pushed: push_to_hub=me/model (")
    assert (run / "out" / "model.safetensors").is_file()
