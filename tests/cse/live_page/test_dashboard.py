"""The page's server and `cse status`: one set of figures, no log outside the storage root, no foreign host name."""

import http.client
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from analysis.ledger import Claim, Ledger
from analysis.ledger.database import connect
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from cse.live_page import secret
from cse.live_page.server import Answers, DashboardServer
from cse_train.results import Point
from tests.run_values import point_of

TOKEN = "a" * 22
CONFIG = {"train.examples": 1000, "train.batch_size": 64, "train.dev": "sts_dev"}


def claimed(ledger: Ledger, signature: str, folder: Path) -> Claim:
    claim = ledger.claim(signature, CONFIG, method="simcse", seed=0, owner="me", identity={}, provenance={})
    assert claim is not None
    ledger.running(claim, folder)
    return claim


def point(examples: int, score: float) -> Point:
    return point_of(examples, score, metrics={"sts_dev": score})


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A sweep E7 of four: one done, one half trained, one failed with a log, one that nobody has begun."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.record_sweep("E7", SweepSpec({"title": "repetition <b>rate</b>", "space": "E7"}))
    ledger.link("E7", [(f"run{i}", {"method.dup_rate": i / 10}, 0) for i in range(4)])
    ledger.record_sweep("E8", SweepSpec({"title": "empty", "space": "E8", "blocked": {"a cell": "no data"}}))
    folders = [tmp_path / "results" / "runs" / f"run{i}" for i in range(3)]
    done, half, failed = (claimed(ledger, f"run{i}", folder) for i, folder in enumerate(folders))
    ledger.add_points(done, [point(480, 40.0), point(960, 55.5)])
    ledger.finish(done, "done", examples=960, best=55.5, best_examples=960, seconds=3.0, folder=folders[0])
    ledger.add_points(half, [point(480, 44.0)])
    (folders[2] / "logs").mkdir(parents=True)
    (folders[2] / "logs" / "rank0.log").write_text("x" * 9000 + "\nthe last line\n", encoding="utf8")
    (tmp_path / "secret").write_text("not for the page", encoding="utf8")
    os.symlink(tmp_path / "secret", folders[2] / "logs" / "rank1.log")
    ledger.finish(
        failed, "failed", examples=0, best=None, best_examples=None, seconds=1.0, folder=folders[2], reason="nan loss"
    )
    ledger.join_cluster(["E7"], "127.0.0.1:8265", "1 x 2 workers")
    ledger.close()
    return tmp_path


@pytest.fixture
def server(made: Path) -> Iterator[DashboardServer]:
    opened = DashboardServer(connect(made / "ledger.db", create=False), made / "results", 0, TOKEN)
    thread = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield opened
    opened.shutdown()
    opened.server_close()
    thread.join()


def asked(server: DashboardServer, path: str, host: str | None = None, token: str = TOKEN) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    headers = {"Authorization": f"Bearer {token}"} | ({"Host": host} if host else {})
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_page_and_the_terminal_tell_the_same(
    server: DashboardServer, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = asked(server, "/api/state?sweep=E7")
    sweep = json.loads(text)["sweep"]
    assert code == 200
    assert sweep["counts"] == {"done": 1, "running": 1, "failed": 1, "unclaimed": 1}
    assert sweep["share"] == pytest.approx((1 + 0.5 + 0 + 0) / 4)
    assert (sweep["best"], sweep["best_run"]) == (55.5, "dup_rate=0 seed 0")
    assert sweep["seconds_left"] >= 0 and sweep["dashboard"] == "127.0.0.1:8265"
    assert [curve["points"] for curve in sweep["curves"]] == [[[480, 44.0]], [[480, 40.0], [960, 55.5]]]
    assert main(["status", "E7", "--ledger", str(made / "ledger.db")]) == 0
    said = capsys.readouterr().out
    assert "1/4 done, 1 running, 1 waiting, 1 failed" in said and "best run 55.50  dup_rate=0 seed 0" in said
    assert "nan loss" in said and "run2/logs" in said and "http://127.0.0.1:8265" in said


def test_a_log_shows_its_end_and_nothing_outside_the_storage_root(server: DashboardServer) -> None:
    files = json.loads(asked(server, "/api/log?run=run2")[1])["files"]
    assert files == {"rank0.log": "the last line\n"}
    server.storage = server.storage / "elsewhere"
    answer = json.loads(asked(server, "/api/log?run=run2")[1])
    assert answer["files"] == {} and "No log under" in answer["note"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", ""])
def test_a_name_that_is_not_this_machine_is_refused(server: DashboardServer, host: str) -> None:
    assert asked(server, "/api/state", host or "localhost:1")[0] == 403


def test_runs_cells_and_one_run_are_asked_for_by_themselves(server: DashboardServer) -> None:
    runs = json.loads(asked(server, "/api/runs?sweep=E7&sort=dup_rate&down=1&words=state!=failed")[1])
    assert [run["signature"] for run in runs["page"]] == ["run3", "run1", "run0"]
    assert [axis["name"] for axis in runs["axes"]] == ["dup_rate"] and (runs["runs"], runs["all"]) == (3, 4)
    folded = json.loads(asked(server, "/api/runs?sweep=E7&fold=1&from=notanumber")[1])
    assert [cell["best"] for cell in folded["page"]] == [55.5, 44.0, None, None]
    cells = json.loads(asked(server, "/api/cells?sweep=E7")[1])
    assert [cell["best"] for cell in cells["cells"]] == [55.5, 44.0] and cells["axes"][0]["values"] == [0, 0.1]
    assert cells["importance"] == [], "too few runs"
    run = json.loads(asked(server, "/api/run?run=run0")[1])
    assert run["settings"]["train.examples"] == 1000 and run["settings"]["method"] == "simcse"
    assert run["points"] == [
        {"examples": 480, "dev": 40.0, "loss": None},
        {"examples": 960, "dev": 55.5, "loss": None},
    ]
    assert [json.loads(asked(server, f"/api/{what}")[1]) for what in ("run?run=none", "runs?sweep=none")] == [{}, {}]
    assert asked(server, "/api/runs")[0] == 404
    code, said = asked(server, "/api/runs?sweep=E7&words=dup=1")
    assert code == 400 and json.loads(said)["error"].startswith("no such column: dup; there are dup_rate, seed")


def test_failures_are_grouped_by_reason(server: DashboardServer) -> None:
    sweep = json.loads(asked(server, "/api/state?sweep=E7")[1])["sweep"]
    assert sweep["failures"] == [
        {"reason": "nan loss", "count": 1, "runs": [{"signature": "run2", "label": "dup_rate=0.2 seed 0"}]}
    ]


def test_verdicts_come_from_whoever_started_the_server(server: DashboardServer) -> None:
    assert json.loads(asked(server, "/api/verdicts?sweep=E7")[1]) == {}
    server.answers = Answers(server.engine, server.storage, lambda sweep: {"headline": f"{sweep}: 1 tie"})
    assert json.loads(asked(server, "/api/verdicts?sweep=E7")[1]) == {"headline": "E7: 1 tie"}


def test_only_the_page_s_own_files_are_served(server: DashboardServer) -> None:
    assert [asked(server, path)[0] for path in ("/", "/page.js", "/page.css", "/base.css")] == [200] * 4
    assert [asked(server, path)[0] for path in ("/server.py", "/../cli.py", "/none.js", "/api/log", "/api")] == [
        404
    ] * 5


def test_a_browser_that_leaves_is_no_error_and_any_other_is_told(
    server: DashboardServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, told in ((BrokenPipeError(), False), (KeyError("wrong"), True)):
        try:
            raise error
        except Exception:
            server.handle_error(None, ("127.0.0.1", 1))
        assert ("Traceback" in capsys.readouterr().err) is told


SECRETS = ["/", "/page.js", "/api/state", "/api/log?run=run2", "/nothing"]


@pytest.mark.parametrize("path", SECRETS)
@pytest.mark.parametrize("token", ["", "b" * 22, TOKEN[:-1], "ü" * 22])
def test_nothing_is_shown_without_the_token(server: DashboardServer, path: str, token: str) -> None:
    raw = token.encode().decode("latin-1")
    assert asked(server, path, token=raw)[0] == 403
    words = "&" if "?" in path else "?"
    assert asked(server, f"{path}{words}token={quote(token)}", token="")[0] == 403
    assert "with its token" in asked(server, path, token=raw)[1] and TOKEN not in asked(server, path, token=raw)[1]


def test_the_address_with_the_token_gives_a_cookie_that_opens_the_page(server: DashboardServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request("GET", server.url.partition(str(server.server_port))[2])
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    given, *rules = answer.headers["Set-Cookie"].split("; ")
    assert given == f"cse_dashboard_{server.server_port}={TOKEN}" and {"HttpOnly", "SameSite=Strict"} <= {*rules}
    for cookie, code in ((f"other=1; {given}", 200), (f"{given[:-1]}b", 403), ("cse_dashboard_1=" + TOKEN, 403)):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        connection.request("GET", "/", headers={"Cookie": cookie})
        assert connection.getresponse().status == code


def test_the_token_is_the_users_own_and_stays(tmp_path: Path) -> None:
    token = secret.keep_token(tmp_path / "new")
    file = tmp_path / "new" / secret.TOKEN_FILE
    assert len(token) == 22 and file.stat().st_mode & 0o777 == 0o600 and secret.keep_token(tmp_path / "new") == token
    file.chmod(0o644)
    seen = secret.keep_token(tmp_path / "new")
    assert seen != token and file.stat().st_mode & 0o777 == 0o600, "one that others could read is given up"
    for damaged in ("", "short", "ü" * 22):
        file.write_text(damaged, encoding="utf8")
        assert len(secret.keep_token(tmp_path / "new")) == 22
    (tmp_path / "file").write_text("", encoding="utf8")
    assert len(secret.keep_token(tmp_path / "file")) == 22, "where no folder can be, one for this once"


def test_a_port_in_use_is_refused(server: DashboardServer, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = str(server.server_port)
    assert main(["dashboard", "--ledger", str(made / "ledger.db"), "--port", port]) == 2
    assert capsys.readouterr().err == f"cse: port in use: port={port}; give another --port, or 0 for any free one\n"


@pytest.mark.parametrize("command", ["status", "dashboard"])
def test_an_absent_ledger_is_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command]) == 2
    assert "no ledger yet" in capsys.readouterr().err
    assert main([command, "--ledger", "absent.db"]) == 2
    assert "absent.db does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("E8", "no runs: sweep=E8, 1 cell lacks an input"),
        ("E9", "no runs yet: sweep=E9; cse run E9 starts them"),
        ("E77", "unknown sweep: sweep=E77; did you mean E7?"),
    ],
)
def test_an_id_without_runs_is_refused(name: str, told: str, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", name, "--ledger", str(made / "ledger.db")]) == 2
    assert told in capsys.readouterr().err
