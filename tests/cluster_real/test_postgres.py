"""A sweep whose ledger and Optuna mirror lie in a PostgreSQL server that the test starts."""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analysis.ledger import Ledger, database
from analysis.ledger.database import LOCK_WAIT_SECONDS, TRANSACTION_IDLE_SECONDS
from tests.analysis.ledger import test_migrations as checks
from tests.cluster_real.postgres import PASSWORD, Postgres
from tests.cluster_real.processes import Processes

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SEARCH = """version: 1
id: searched
method: simcse
seeds: 1
set:
  train.encoder: words-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 128
  train.batch_size: 16
  train.evaluations: 2
space:
  method.temperature: {choice: [0.05, 0.1, 0.2]}
search: {sampler: random, num_samples: 2}
"""


@pytest.fixture
def session() -> Iterator[Path]:
    """Where Ray is to keep its logs and sockets, whose paths must be short."""
    made = Path(tempfile.mkdtemp(prefix="cse-"))
    yield made
    shutil.rmtree(made)


def test_ledger_and_mirror_lie_in_postgresql(server: Postgres, processes: Processes, session: Path) -> None:
    import optuna

    (processes.folder / "searched.yaml").write_text(SEARCH, encoding="utf8")
    command = ("cse", "run", "searched.yaml", "--max-concurrent", "1", "--ledger", server.url)
    first = processes.run(*command, timeout=300, env={"RAY_TMPDIR": str(session)})
    assert first.returncode == 0, first.stdout + first.stderr
    assert "2 done, 0 failed" in first.stdout

    ledger = Ledger.open(server.url, create=False)
    assert [run.state for run in ledger.runs(sweep="searched")] == ["done", "done"]
    assert all(ledger.curves([run.signature]) for run in ledger.runs())
    ledger.close()
    study = optuna.load_study(study_name="searched", storage=server.url.replace("postgresql:", "postgresql+psycopg:"))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE"]
    assert not list(processes.folder.rglob("*.db"))

    without = server.url.replace(f":{PASSWORD}", "")  # libpq looks for it in the environment, where `ps` does not
    again = processes.run(*command[:-1], without, env={"PGPASSWORD": PASSWORD})
    assert again.returncode == 0, again.stdout + again.stderr
    assert "0 done, 0 failed" in again.stdout
    assert "dashboard" not in again.stdout + again.stderr, "no cluster is started for nothing"
    report = processes.run("cse", "report", "searched.yaml", "--out", "report", "--ledger", server.url)
    assert report.returncode == 0, report.stdout + report.stderr

    written = {folder: list(files_of(folder)) for folder in (processes.folder, session)}
    assert any(path.name == "raylet.out" for path in written[session])
    assert any(path.suffix == ".html" for path in written[processes.folder])
    for secret in (PASSWORD, processes.environment["RAY_AUTH_TOKEN"]):
        for said in (first, again, report):
            assert secret not in said.stdout + said.stderr
        told = [path for paths in written.values() for path in paths if secret.encode() in path.read_bytes()]
        assert not told, f"{secret} is in {told}"


def files_of(folder: Path) -> Iterator[Path]:
    """What was written there; the database's own files, which hold its users, left out."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and "postgres" not in path.relative_to(folder).parts[0]:
            yield path


ABOUT = {"method": "simcse", "seed": 0, "identity": {}, "provenance": {}}
PAUSED = f"""
import os, signal, sys, threading
from analysis.ledger import Ledger, LostClaim, ledger as written
from cluster.sweep.ledger_retry import RetryingLedger

note, paused = written._note, []
def pause_once(*given, **named):
    note(*given, **named)
    if not paused:
        paused.append(True)
        print("inside", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
written._note = pause_once
ledger = RetryingLedger(Ledger.open(sys.argv[1]), threading.Event(), lambda line: print(line, flush=True))
claim = ledger.claim("r1", {{}}, owner="paused", **{ABOUT!r})
print("claim", claim, flush=True)
other = ledger.claim("r2", {{}}, owner="paused", **{ABOUT!r})
ledger.running(other)
print("goes on with", other.signature, flush=True)
"""


def wait_until(said: Callable[[], str], words: str) -> None:
    for _ in range(600):
        if words in said():
            return
        time.sleep(0.1)
    raise AssertionError(said())


def test_a_driver_that_is_stopped_inside_a_transaction_holds_up_nobody_for_long(
    server: Postgres, processes: Processes
) -> None:
    ledger = Ledger.open(server.url)
    (processes.folder / "paused.py").write_text(PAUSED, encoding="utf8")
    paused = processes.start(sys.executable, str(processes.folder / "paused.py"), server.url, log="paused.log")
    log = Path(processes.folder, "paused.log")
    wait_until(lambda: log.read_text(encoding="utf8"), "inside")
    begun = time.monotonic()
    claim = ledger.claim("r1", {}, owner="other", **ABOUT)
    waited = time.monotonic() - begun
    assert claim is not None and claim.owner == "other"
    assert waited < LOCK_WAIT_SECONDS, waited
    assert waited > TRANSACTION_IDLE_SECONDS / 2, "the paused driver did not hold the row: the test shows nothing"
    os.kill(paused.pid, signal.SIGCONT)
    assert paused.wait(60) == 0, log.read_text(encoding="utf8")
    said = log.read_text(encoding="utf8")
    assert "had paused" in said and "claim None" in said and "goes on with r2" in said
    rows = {row.signature: (row.owner, row.attempt) for row in ledger.runs()}
    assert rows == {"r1": ("other", 1), "r2": ("paused", 1)}
    assert [row.owner for row in ledger.history("r1")] == ["other"]
    ledger.close()


def test_all_ledgers_of_a_process_share_one_connection(server: Postgres) -> None:
    import psycopg

    ledgers = [Ledger.open(server.url, storage=Path(f"/storage{number}")) for number in range(5)]
    for _ in range(3):
        for ledger in ledgers:
            ledger.heartbeat("me")
    count = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
    with psycopg.connect(server.url) as connection:
        row = connection.execute(count).fetchone()
    assert row is not None and row[0] - 1 == 1
    ledgers[0].close()
    assert ledgers[1].runs() == [], "another's end takes nothing away"
    for ledger in ledgers[1:]:
        ledger.close()


older, plant = checks.older, checks.plant


@pytest.fixture
def ledger_url(server: Postgres) -> str:
    return server.url


def test_version_1_becomes_what_a_new_ledger_is(older: str, tmp_path: Path) -> None:
    checks.test_version_1_becomes_what_a_new_ledger_is(older, tmp_path)


def test_a_step_that_fails_leaves_the_ledger_as_it_was(older: str, plant: Callable[[str, str], None]) -> None:
    checks.test_several_steps_are_one_transaction(older, plant)


def test_runs_that_an_older_driver_holds_are_left_to_it(ledger_url: str) -> None:
    checks.test_runs_that_a_driver_of_an_older_program_holds_are_left_to_it(ledger_url)


def test_of_two_drivers_at_once_one_migrates_and_the_other_waits(
    older: str, tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    database._server.cache_clear()  # a child must not share this process's connections
    checks.test_of_two_drivers_at_once_one_migrates_and_the_other_waits(older, tmp_path, plant)
