"""Ledger addresses and what can be wrong with them, each told in one line; mounts on which no SQLite file may lie."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from sqlalchemy import update
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.sql import sqltypes

from analysis.ledger import Ledger, LedgerError, schema
from analysis.ledger.database import PING_AFTER_SECONDS, _ping_if_unused, connect, parse_url, transaction
from analysis.ledger.places import network_file_system
from analysis.run_state import RunState
from analysis.sweep_spec import SweepSpec
from tests.conftest import REPO
from tests.run_values import claim_run, end_run


def test_sqlite_on_a_network_file_system_names_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(tmp_path, monkeypatch, f"server:/ {tmp_path} nfs rw 0 0\n")
    with pytest.raises(LedgerError, match=r"path=.*ledger\.db lies on a network file system \(nfs\).*PostgreSQL"):
        connect(tmp_path / "ledger.db")
    assert not (tmp_path / "ledger.db").exists()


def test_a_bare_path_means_sqlite(tmp_path: Path) -> None:
    assert str(parse_url("results/ledger.db")) == "sqlite:///results/ledger.db"
    assert parse_url("postgresql://me@host/db").drivername == "postgresql+psycopg"
    connect(tmp_path / "new" / "folder" / "ledger.db").dispose()
    assert (tmp_path / "new" / "folder" / "ledger.db").exists()


def one_line(url: str | Path, **options: bool) -> str:
    with pytest.raises(LedgerError) as failure:
        connect(url, **options).dispose()
    assert "\n" not in str(failure.value)
    return str(failure.value)


def test_another_programs_database_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.db"
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute("create table mine (a)")
    before = file.read_bytes()
    assert one_line(file) == f"ledger file: path={file} is another program's database, with table mine; " + (
        "name another --ledger"
    )
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://me@host/db", "ledger url: dialect="),
        ("://", "ledger url: value='://' cannot be read; use a path, sqlite:///PATH or"),
        ("sqlite://", "names no file"),
    ],
)
def test_an_address_of_no_ledger(url: str, told: str) -> None:
    assert told in one_line(url)


def test_an_unreachable_server_hides_the_password() -> None:
    pytest.importorskip("psycopg")
    told = one_line("postgresql://me:secret@127.0.0.1:1/db")
    assert told.startswith("ledger unreachable: url=postgresql+psycopg://me:***@127.0.0.1:1/db (")
    assert "check the address" in told and "secret" not in told


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'psycopg[binary]'" in one_line("postgresql://me@127.0.0.1:1/db")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("not a database, but long enough to be looked at " * 40)
    assert one_line(path) == f"ledger file: url=sqlite:///{path} is no SQLite database; use another --ledger"


def test_a_folder_and_a_parent_that_is_a_file_are_no_ledger(tmp_path: Path) -> None:
    assert "cannot be opened" in one_line(tmp_path)
    (tmp_path / "results").write_text("")
    assert "cannot be created" in one_line(tmp_path / "results" / "ledger.db")


def test_reading_does_not_create(tmp_path: Path) -> None:
    assert "does not exist" in one_line(tmp_path / "ledger.db", create=False)
    assert not (tmp_path / "ledger.db").exists()
    sqlite3.connect(tmp_path / "empty.db").close()
    assert "holds no ledger" in one_line(tmp_path / "empty.db", create=False)


def test_another_schema_version(ledger_url: str) -> None:
    engine = connect(ledger_url)
    with transaction(engine, writes=True) as connection:
        connection.execute(update(schema.meta).values(value="3"))
    engine.dispose()
    told = one_line(ledger_url)
    assert told.startswith("ledger schema: version=3 at ")
    assert told.endswith(", this cse-search reads up to 2; upgrade cse-search or use another --ledger")


def test_sqlite_syncs_fully_and_waits(tmp_path: Path) -> None:
    engine = connect(tmp_path / "ledger.db")
    with engine.connect() as connection:
        values = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    engine.dispose()
    assert values == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 60_000}


def test_sqlalchemy_never_asks_what_a_state_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks its ORM, which Optuna may be importing in another thread: a heartbeat died of that."""

    def ask(value: object, *_: object) -> None:
        assert not isinstance(value, RunState), value

    monkeypatch.setattr(sqltypes.inspection, "inspect", ask)
    ledger = Ledger.open(tmp_path / "ledger.db")
    claim = claim_run(ledger, "a", {})
    ledger.running(claim)
    assert ledger.heartbeat("me") == 1
    end_run(ledger, claim, RunState.DONE)
    assert [run.state for run in ledger.runs(states=[RunState.DONE])] == [RunState.DONE]


READ = """
import contextlib, sys
from analysis.ledger import Ledger, LedgerError
with contextlib.closing(Ledger.open(sys.argv[1], create=False)) as ledger:
    print(*(sweep.id for sweep in ledger.sweeps()))
    try:
        ledger.record_sweep("b", ledger.sweep_spec("a"))
    except LedgerError as error:
        print(error)
"""
NO_RIGHTS_OF_ROOT = ("--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-dac_override,-dac_read_search")


@pytest.mark.parametrize("writer_lives", [False, True])
def test_a_ledger_that_may_not_be_written_is_read(tmp_path: Path, writer_lives: bool) -> None:
    """Another user's, or one on a mount that is read-only; with a living writer its newest rows too."""
    given = ["setpriv", *NO_RIGHTS_OF_ROOT] if os.geteuid() == 0 else []
    if given and shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere: install util-linux for setpriv")
    folder = tmp_path / "theirs"
    ledger = Ledger.open(folder / "ledger.db")
    ledger.record_sweep("a", SweepSpec({"title": "A"}))
    if not writer_lives:
        ledger.close()
    for path in (*folder.iterdir(), folder):
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        command = [*given, sys.executable, "-c", READ, str(folder / "ledger.db")]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(REPO)})
    finally:
        folder.chmod(0o755)
    assert not done.stderr
    swept, refused = done.stdout.splitlines()
    assert swept == "a" and refused.endswith("ledger.db is read-only; make it writable or use another --ledger")
    ledger.close()


class Database:
    """Stands for an engine's dialect and its driver: whether the server is there, and how often that was asked."""

    class Error(Exception):
        """Of the driver."""

    def __init__(self, *, there: bool) -> None:
        self.there, self.asked = there, 0
        self.dialect = self.loaded_dbapi = self

    def do_ping(self, connection: object) -> None:
        self.asked += 1
        if not self.there:
            raise self.Error


@pytest.mark.parametrize(("idle_s", "asked"), [(0.0, 0), (PING_AFTER_SECONDS + 1, 1), (None, 1)])
def test_a_connection_that_was_just_used_is_not_asked_again(idle_s: float | None, asked: int) -> None:
    database, record = Database(there=True), SimpleNamespace(info={})
    if idle_s is not None:
        record.info["used"] = time.monotonic() - idle_s
    _ping_if_unused(database, object(), record, None)
    assert database.asked == asked


def test_a_connection_that_died_idle_is_replaced() -> None:
    database, record = Database(there=False), SimpleNamespace(info={})
    with pytest.raises(DisconnectionError):
        _ping_if_unused(database, object(), record, None)


MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/export /home nfs4 rw 0 0
tmpfs /home/me/scratch tmpfs rw 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
me@host:/ /mnt/far fuse.sshfs rw 0 0
"""


def mounted(folder: Path, monkeypatch: pytest.MonkeyPatch, mounts: str) -> None:
    """The kernel's list of mounts, as psutil reads it."""
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "self" / "mounts").write_text(mounts)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(folder / "proc"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/ledger.db", "nfs4"),
        ("/home/me/scratch/ledger.db", None),
        ("/homework/ledger.db", None),
        ("/mnt/my share/ledger.db", "cifs"),
        ("/mnt/far/a/b/ledger.db", "fuse.sshfs"),
        ("/var/ledger.db", None),
    ],
)
def test_network_file_systems_are_found_by_the_nearest_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str | None
) -> None:
    mounted(tmp_path, monkeypatch, MOUNTS)
    assert network_file_system(Path(path)) == kind


def test_where_no_mounts_are_known_a_file_is_taken_to_be_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "none"))
    assert network_file_system(tmp_path) is None


def test_a_link_onto_a_network_file_system_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    mounted(tmp_path, monkeypatch, f"/dev/vda / ext4 rw 0 0\nserver:/ {tmp_path / 'real'} nfs rw 0 0\n")
    assert network_file_system(tmp_path / "link" / "ledger.db") == "nfs"
