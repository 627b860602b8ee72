"""A ledger of an older version: read as it is, migrated before the first write, by one of several programs at once."""

import gzip
import hashlib
import multiprocessing
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, inspect, select, text, update

from analysis.ledger import Ledger, LedgerError, migrations, schema
from analysis.ledger.baselines import OLD_FILE
from analysis.ledger.database import connect, parse_url
from analysis.sweep_spec import SweepSpec
from tests.analysis.ledger.older import YOUNGER, make_version_1

FORK = multiprocessing.get_context("fork")
OF_0_1_0 = Path(__file__).parents[2] / "ledger_0_1_0"
ABOUT: dict[str, Any] = {"method": "simcse", "seed": 0, "owner": "me@host:1", "identity": {}, "provenance": {}}
TO_3 = """from sqlalchemy import text

def migrate(connection):
    connection.execute(text("ALTER TABLE cse_runs ADD COLUMN watts FLOAT"))
    connection.execute(text("UPDATE cse_runs SET watts = 250"))
"""


def shape(engine: Engine) -> dict[str, Any]:
    """All that a database says of the ledger's tables."""
    seen = inspect(engine)
    return {
        table: {
            "columns": [(c["name"], str(c["type"]), c["nullable"]) for c in seen.get_columns(table)],
            "key": sorted(seen.get_pk_constraint(table)["constrained_columns"]),
            "foreign": sorted((*f["constrained_columns"], f["referred_table"]) for f in seen.get_foreign_keys(table)),
            "indexes": sorted((str(index["name"]), *index["column_names"]) for index in seen.get_indexes(table)),
        }
        for table in sorted(seen.get_table_names())
        if table.startswith("cse_")
    }


def rows(engine: Engine) -> dict[str, list[Any]]:
    """Every row of what is no younger than version 1, but the version."""
    with engine.connect() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(select(table).where(text("1=1")))))
            for table in schema.metadata.sorted_tables
            if table.name not in (*YOUNGER, "cse_meta")
        }


def version(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return migrations.read_version(connection)


def raw(url: str) -> Engine:
    """The database, without a look at its version."""
    return create_engine(parse_url(url))


@pytest.fixture
def older(ledger_url: str) -> str:
    """The URL of a ledger of version 1 with one finished run."""
    made = Ledger.open(ledger_url)
    claim = made.claim("a" * 24, {"train.seed": 0}, **ABOUT)
    assert claim
    made.finish(claim, "done", examples=64, best=50.5, best_examples=64, seconds=1.0, folder=None)
    make_version_1(made._engine)
    made.close()
    return ledger_url


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Adds a step of another release."""
    folder = tmp_path / "steps"
    folder.mkdir()
    monkeypatch.delitem(sys.modules, f"{migrations.__name__}.to_3", raising=False)
    monkeypatch.setattr(migrations, "__path__", [*migrations.__path__, str(folder)])

    def add(name: str, code: str) -> None:
        (folder / f"{name}.py").write_text(code, encoding="utf8")

    return add


def test_every_version_has_one_step() -> None:
    steps = sorted(Path(migrations.__file__).parent.glob("to_*.py"))
    assert [step.stem for step in steps] == [f"to_{number}" for number in range(2, migrations.newest() + 1)]


def test_version_1_becomes_what_a_new_ledger_is(older: str, tmp_path: Path) -> None:
    engine = raw(older)
    before, kept = shape(engine), rows(engine)
    assert not before.keys() & {*YOUNGER} and version(engine) == "1"
    connect(older).dispose()
    assert rows(engine) == kept and kept["cse_runs"]
    assert version(engine) == str(migrations.newest())
    after = shape(engine)
    schema.metadata.drop_all(engine)
    connect(older).dispose()
    assert after == shape(raw(older)), "a new ledger differs from a migrated one"


@pytest.mark.parametrize("name", ["demo", "e7"])
def test_a_ledger_that_0_1_0_wrote_becomes_what_a_new_ledger_is(name: str, tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with gzip.open(OF_0_1_0 / f"{name}.db.gz") as packed, file.open("wb") as ledger:
        shutil.copyfileobj(packed, ledger)
    shutil.copy(OF_0_1_0 / f"{name}_baselines.json", tmp_path / OLD_FILE)
    engine = raw(str(file))
    kept = rows(engine)
    by_file = Ledger.open(file, create=False).baselines()
    opened = Ledger.open(file)
    assert rows(engine) == kept and len(kept["cse_runs"]) >= 12
    (tmp_path / OLD_FILE).unlink()
    assert opened.baselines() == by_file != []
    new = connect(tmp_path / "new.db")
    assert shape(engine) == shape(new) and version(engine) == version(new)


def test_reading_changes_nothing_and_the_first_write_migrates(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    made = Ledger.open(file)
    make_version_1(made._engine)
    made.close()
    before = content(file)
    reader = Ledger.open(file, create=False)
    assert (reader.runs(), reader.sweeps(), reader.baselines(), reader.looks("E7")) == ([], [], [], [])
    assert (reader.imports(), reader.pairs(["x"]), reader.untrained_scores()) == ({}, {}, [])
    assert content(file) == before and version(raw(str(file))) == "1"
    reader.record_sweep("E7", SweepSpec({}))
    assert version(raw(str(file))) == str(migrations.newest()) and len(reader.sweeps()) == 1


def content(file: Path) -> list[str]:
    """What lies in the files of a SQLite ledger; its shared memory holds readers alone, and an empty log nothing."""
    texts = [part.read_bytes() for part in (file, file.with_name(f"{file.name}-wal")) if part.exists()]
    return [hashlib.sha256(text).hexdigest() for text in texts if text]


@pytest.mark.parametrize("create", [True, False])
def test_a_newer_ledger_is_one_line_and_stays_as_it_is(tmp_path: Path, create: bool) -> None:
    file = tmp_path / "ledger.db"
    made = Ledger.open(file)
    with made._engine.begin() as connection:
        connection.execute(update(schema.meta).values(value=str(migrations.newest() + 1)))
    made.close()
    before = content(file)
    with pytest.raises(LedgerError) as caught:
        Ledger.open(file, create=create)
    newest = migrations.newest()
    assert str(caught.value) == (
        f"ledger schema: version={newest + 1} at sqlite:///{file}, this cse-search reads up to {newest}; "
        "upgrade cse-search or use another --ledger"
    )
    assert content(file) == before


def test_several_steps_are_one_transaction(older: str, plant: Callable[[str, str], None]) -> None:
    engine = raw(older)
    plant("to_3", TO_3.replace("250", "nonsense from nowhere"))
    kept = shape(engine)
    with pytest.raises(LedgerError):
        Ledger.open(older)
    assert shape(engine) == kept and version(engine) == "1", "a step that fails leaves the ledger as it was"


def test_a_ledger_two_versions_old_takes_both_steps(older: str, plant: Callable[[str, str], None]) -> None:
    plant("to_3", TO_3)
    Ledger.open(older)
    engine = raw(older)
    assert version(engine) == "3"
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT watts FROM cse_runs")) == 250


def test_runs_that_a_driver_of_an_older_program_holds_are_left_to_it(ledger_url: str) -> None:
    made = Ledger.open(ledger_url)
    assert made.claim("b" * 24, {}, **ABOUT)
    make_version_1(made._engine)
    with pytest.raises(LedgerError, match=r"^ledger in use: version=1 at .* \(me@host:1\); wait until it ends"):
        Ledger.open(ledger_url)
    assert version(made._engine) == "1"
    reader = Ledger.open(ledger_url, create=False)
    assert len(reader.runs()) == 1, "it can be read meanwhile"
    with made._engine.begin() as connection:
        connection.execute(update(schema.runs).values(lease_until=0.0))
    Ledger.open(ledger_url)
    assert version(made._engine) == str(migrations.newest())


def open_and_claim(url: str, start: float, done: Any) -> None:
    time.sleep(max(0.0, start - time.time()))
    began = time.monotonic()
    ledger = Ledger.open(url)
    done.put((time.monotonic() - began, len(ledger.runs())))


def test_of_two_drivers_at_once_one_migrates_and_the_other_waits(
    older: str, tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    log = tmp_path / "log"
    plant(
        "to_3",
        "import time\n"
        "def migrate(connection):\n"
        f"    with open({str(log)!r}, 'a') as file: file.write('once\\n')\n"
        "    time.sleep(1)\n",
    )
    done = FORK.Queue()
    start = time.time() + 0.5
    drivers = [FORK.Process(target=open_and_claim, args=(older, start, done)) for _ in range(2)]
    for driver in drivers:
        driver.start()
    results = [done.get(timeout=60) for _ in drivers]
    for driver in drivers:
        driver.join()
    assert [driver.exitcode for driver in drivers] == [0, 0]
    assert [runs for _, runs in results] == [1, 1]
    assert min(seconds for seconds, _ in results) > 0.5, "one did not wait"
    assert log.read_text() == "once\n" and version(raw(older)) == "3"
