"""The page's server and `cse status`: one set of figures, pages of runs, no log outside the root, no foreign host."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from analysis.ledger import Claim, Ledger, cluster_log
from analysis.progress.rows import ProgressRow
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from cse.live_page.listing import FilterError, Listing, filter_rows, page
from cse.live_page.server import TOKEN_FILE, Answers, DashboardServer, keep_token
from cse_train.results import Point
from tests.commands import printed
from tests.cse.live_page.conftest import TOKEN, asked
from tests.run_values import end_run, point_of

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
    nothing = {"examples": 0, "best": None, "best_examples": None, "folder": folders[2]}
    end_run(ledger, failed, "failed", reason="nan loss", **nothing)
    cluster_log.join(ledger, ["E7"], "127.0.0.1:8265", "1 x 2 workers")
    ledger.close()
    return tmp_path


@pytest.fixture
def server(made: Path, serve: Callable[[Path, Path], DashboardServer]) -> DashboardServer:
    return serve(made / "ledger.db", made / "results")


def told(server: DashboardServer, path: str) -> Any:
    """JSON of an answer."""
    return json.loads(asked(server, path)[2])


def test_the_page_and_the_terminal_tell_the_same(
    server: DashboardServer, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = told(server, "/api/state?sweep=E7")["sweep"]
    assert sweep["counts"] == {"done": 1, "running": 1, "failed": 1, "unclaimed": 1}
    assert sweep["share"] == pytest.approx((1 + 0.5 + 0 + 0) / 4)
    assert (sweep["best"], sweep["best_run"]) == (55.5, "dup_rate=0 seed 0")
    assert sweep["seconds_left"] >= 0 and sweep["dashboard"] == "127.0.0.1:8265"
    assert [curve["points"] for curve in sweep["curves"]] == [[[480, 44.0]], [[480, 40.0], [960, 55.5]]]
    said = printed(capsys, "status", "E7", "--ledger", str(made / "ledger.db"))
    assert sweep["facts"].startswith("1/4 done, 1 running, 1 waiting, 1 failed, about ")
    assert "1/4 done, 1 running, 1 waiting, 1 failed" in said and "best run 55.50  dup_rate=0 seed 0" in said
    assert "nan loss" in said and "run2/logs" in said and "http://127.0.0.1:8265" in said


def test_a_log_shows_its_end_and_nothing_outside_the_storage_root(server: DashboardServer) -> None:
    files = told(server, "/api/log?run=run2")["files"]
    assert files == {"rank0.log": "the last line\n"}
    server.storage = server.storage / "elsewhere"
    answer = told(server, "/api/log?run=run2")
    assert answer["files"] == {} and "No log under" in answer["note"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", ""])
def test_a_name_that_is_not_this_machine_is_refused(server: DashboardServer, host: str) -> None:
    assert asked(server, "/api/state", Host=host or "localhost:1")[0] == 403


def test_runs_cells_and_one_run_are_asked_for_by_themselves(server: DashboardServer) -> None:
    runs = told(server, "/api/runs?sweep=E7&sort=dup_rate&down=1&words=state!=failed")
    assert [run["signature"] for run in runs["page"]] == ["run3", "run1", "run0"]
    assert [axis["name"] for axis in runs["axes"]] == ["dup_rate"] and (runs["runs"], runs["all"]) == (3, 4)
    folded = told(server, "/api/runs?sweep=E7&fold=1&from=notanumber")
    assert [cell["best"] for cell in folded["page"]] == [55.5, 44.0, None, None]
    run = told(server, "/api/run?run=run0")
    assert run["settings"]["train.examples"] == 1000 and run["settings"]["method"] == "simcse"
    assert run["points"] == [
        {"examples": 480, "dev": 40.0, "loss": None},
        {"examples": 960, "dev": 55.5, "loss": None},
    ]
    assert [told(server, f"/api/{what}") for what in ("run?run=none", "runs?sweep=none")] == [{}, {}]
    assert asked(server, "/api/runs")[0] == 404
    code, _, said = asked(server, "/api/runs?sweep=E7&words=dup=1")
    assert code == 400 and json.loads(said)["error"].startswith("no such column: dup; there are dup_rate, seed")


def test_failures_are_grouped_by_reason(server: DashboardServer) -> None:
    sweep = told(server, "/api/state?sweep=E7")["sweep"]
    assert sweep["failures"] == [
        {"reason": "nan loss", "count": 1, "runs": [{"signature": "run2", "label": "dup_rate=0.2 seed 0"}]}
    ]


def test_verdicts_come_from_whoever_started_the_server(server: DashboardServer) -> None:
    assert told(server, "/api/verdicts?sweep=E7") == {}
    server.answers = Answers(server.engine, server.storage, lambda sweep: {"headline": f"{sweep}: 1 tie"})
    assert told(server, "/api/verdicts?sweep=E7") == {"headline": "E7: 1 tie"}


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
    raw = f"Bearer {token}".encode().decode("latin-1")
    code, _, said = asked(server, path, Authorization=raw)
    assert code == 403 and "with its token" in said and TOKEN not in said
    words = "&" if "?" in path else "?"
    assert asked(server, f"{path}{words}token={quote(token)}", Authorization="")[0] == 403


def test_the_address_with_the_token_gives_a_cookie_that_opens_the_page(server: DashboardServer) -> None:
    status, headers, _ = asked(server, server.url.partition(str(server.server_port))[2], Authorization="")
    assert (status, headers["Location"]) == (303, "/")
    given, *rules = headers["Set-Cookie"].split("; ")
    assert given == f"cse_dashboard_{server.server_port}={TOKEN}" and {"HttpOnly", "SameSite=Strict"} <= {*rules}
    for cookie, code in ((f"other=1; {given}", 200), (f"{given[:-1]}b", 403), ("cse_dashboard_1=" + TOKEN, 403)):
        assert asked(server, "/", Authorization="", Cookie=cookie)[0] == code


def test_the_token_is_the_users_own_and_stays(tmp_path: Path) -> None:
    token = keep_token(tmp_path / "new")
    file = tmp_path / "new" / TOKEN_FILE
    assert len(token) == 22 and file.stat().st_mode & 0o777 == 0o600 and keep_token(tmp_path / "new") == token
    file.chmod(0o644)
    seen = keep_token(tmp_path / "new")
    assert seen != token and file.stat().st_mode & 0o777 == 0o600, "one that others could read is given up"
    for damaged in ("", "short", "ü" * 22):
        file.write_text(damaged, encoding="utf8")
        assert len(keep_token(tmp_path / "new")) == 22
    (tmp_path / "file").write_text("", encoding="utf8")
    assert len(keep_token(tmp_path / "file")) == 22, "where no folder can be, one for this once"


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


def run(n: int, state: str = "done", best: float | None = None, **cell: Any) -> ProgressRow:
    axes = {f"method.{name}": value for name, value in cell.items()}
    return ProgressRow("s", f"r{n}", axes, n % 2, state, "simcse", 64, 64, best)


ROWS = [
    run(0, best=50.0, rate=0.1, rule="paper"),
    run(1, best=52.0, rate=0.1, rule="paper"),
    run(2, best=60.0, rate=10.0, rule="released"),
    run(3, "failed", rate=10.0, rule="released"),
    run(4, "running", best=40.0, rate=1.0, rule=None),
    run(5, "unclaimed", rate=1.0, rule=None),
]


@pytest.fixture
def listing() -> Listing:
    return Listing(ROWS, {row.signature: f"rate={row.cell['method.rate']} seed {row.seed}" for row in ROWS})


def signatures(found: dict[str, Any]) -> list[str]:
    return [line["signature"] for line in found["page"]]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("", "r0 r1 r2 r3 r4 r5"),
        ("rate=0.1", "r0 r1"),
        ("method.rate=1e-1", "r0 r1"),
        ("rate!=0.1", "r2 r3 r4 r5"),
        ("rate>=1", "r2 r3 r4 r5"),
        ("rate<1", "r0 r1"),
        ("rate>1 state=done", "r2"),
        ("best>50", "r1 r2"),
        ("best<=50", "r0 r4"),
        ("rule:rel", "r2 r3"),
        ("rule=off", "r4 r5"),
        ("seed=1", "r1 r3 r5"),
        ("FAILED", "r3"),
        ("nothing-like-it", ""),
    ],
)
def test_filters(listing: Listing, words: str, left: str) -> None:
    assert [row.signature for row in filter_rows(listing, words)] == left.split()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("rat=1", "no such column: rat; there are rate, rule, seed, state, best, share, examples, method"),
        ("rate>much", "no number: rate>much; > compares numbers"),
    ],
)
def test_a_filter_that_is_none(listing: Listing, words: str, line: str) -> None:
    with pytest.raises(FilterError) as raised:
        page(listing, words=words)
    assert str(raised.value) == line


@pytest.mark.parametrize(
    ("sort", "down", "order"),
    [
        ("", False, "r4 r3 r2 r1 r0 r5"),
        ("rate", False, "r0 r1 r4 r5 r2 r3"),
        ("rate", True, "r2 r3 r4 r5 r0 r1"),
        ("best", True, "r2 r1 r0 r4 r3 r5"),
        ("best", False, "r4 r0 r1 r2 r3 r5"),
        ("rule", False, "r0 r1 r2 r3 r4 r5"),
        ("seed", False, "r0 r2 r4 r1 r3 r5"),
    ],
)
def test_orders_leave_what_has_nothing_there_at_the_end(listing: Listing, sort: str, down: bool, order: str) -> None:
    assert signatures(page(listing, sort=sort, down=down)) == order.split()


def test_cells_fold_their_seeds(listing: Listing) -> None:
    found = page(listing, folded=True)
    assert (found["lines"], found["runs"], found["all"]) == (3, 6, 6)
    best, second, third = found["page"]
    assert best["cell"] == {"method.rate": "10", "method.rule": "released"} and best["states"] == {
        "done": 1,
        "failed": 1,
    }
    assert (second["n"], second["best"], second["sd"]) == (2, 51.0, pytest.approx(2**0.5))
    assert [one["seed"] for one in second["runs"]] == [0, 1] and (third["n"], third["sd"]) == (1, None)


def test_pages_of_a_hundred_thousand_runs() -> None:
    rows = [run(n, best=float(n), rate=n) for n in range(100_000)]
    listing = Listing(rows, {row.signature: "" for row in rows})
    found = page(listing, sort="best", down=True, offset=99_950)
    assert (found["lines"], found["offset"], len(found["page"])) == (100_000, 99_900, 100)
    assert found["page"][-1]["best"] == 0.0
    assert page(listing, offset=10**9)["offset"] == 99_900, "beyond the end: the last page"


def test_no_run_and_no_score() -> None:
    empty = Listing([], {})
    assert page(empty)["page"] == []
