"""A cluster that we start: on loopback, behind a token that its owner alone reads."""

import json
import urllib.request
from pathlib import Path

import pytest

from cluster.runtime import ray_internals
from cluster.runtime.processes import listeners
from cluster.runtime.start import keep_token_private, require_token
from cse.cli.app import main
from cse_train.fields import ConfigError


def test_no_cluster_starts_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    require_token()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ConfigError, match="no token: RAY_AUTH_MODE=disabled.*; unset RAY_AUTH_MODE"):
        require_token()


def test_a_token_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    keep_token_private(tmp_path)
    token = tmp_path / ".ray" / "auth_token"
    made = token.read_text(encoding="utf8")
    assert len(made) == 64 and token.stat().st_mode & 0o777 == 0o600
    token.chmod(0o644)
    keep_token_private(tmp_path)
    assert token.read_text(encoding="utf8") == made and token.stat().st_mode & 0o777 == 0o600


def test_a_home_that_cannot_hold_the_token_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in place of HOME: root may write into every folder."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.write_text("", encoding="utf8")
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(ConfigError, match=f"no home: HOME={home} cannot hold Ray's token.*set HOME to a folder"):
        keep_token_private()


def test_a_sweep_without_a_token_is_refused_before_ray_starts(
    without_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    Path("text.txt").write_text("\n".join(f"a line of {i} words" for i in range(80)), encoding="utf8")
    space = "version: 1\nid: T\nmethod: simcse\nseeds: 1\nspace: {train.dropout: {grid: [0.1]}}\n"
    Path("mine.yaml").write_text(space, encoding="utf8")
    pairs = ("train.corpus=file", "train.dev=generated_dev:16", "train.encoder=wiki-l1-h64")
    settings = [part for pair in pairs for part in ("--set", pair)]
    assert main(["run", "mine.yaml", "--train-file", "text.txt", *settings]) == 2
    assert "cse: no token: RAY_AUTH_MODE=disabled" in capsys.readouterr().err


@pytest.mark.slow
def test_other_machines_reach_no_port_of_it(ray_cluster: None) -> None:
    session = ray_internals.session_folder()
    assert session is not None
    sockets = listeners(session)
    assert {"gcs_server", "raylet", "dashboard", "driver"} <= {listener.process for listener in sockets}
    assert not [str(listener) for listener in sockets if not listener.loopback]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/api/jobs/", "/api/version", "/api/cluster_status", "/nodes?view=summary"])
def test_a_call_without_the_token_or_with_a_wrong_one_is_refused(ray_cluster: None, path: str) -> None:
    url = f"http://{ray_internals.dashboard()}{path}"
    for headers in ({}, {"Authorization": f"Bearer {'0' * 64}"}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20)
        assert refused.value.code in (401, 403)


@pytest.mark.slow
def test_a_job_without_the_token_is_refused(ray_cluster: None) -> None:
    url = f"http://{ray_internals.dashboard()}/api/jobs/"
    body = json.dumps({"entrypoint": "touch ran"}).encode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=20)
    assert refused.value.code in (401, 403)
