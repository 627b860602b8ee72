"""Connections to the ledger's database: URLs, transactions, schema version, and errors reported in one line."""

import contextlib
import functools
import json
import math
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Connection, Engine, Text, create_engine, event, insert, inspect, select, type_coerce
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError, IntegrityError, SQLAlchemyError

from analysis.ledger import migrations, schema
from analysis.ledger.errors import LedgerError, ledger_error, mask_password
from analysis.ledger.places import NAMED_STORAGE_OPTION, network_file_system

MALFORMED = "malformed JSON"
"""Part of SQLite's error message for JSON that it cannot parse."""
BUSY_SECONDS = 60
"""Seconds that a SQLite writer waits for another writer before it gives up."""


def parse_url(url: str | Path) -> URL:
    """Returns a SQLAlchemy URL for `sqlite:///PATH`, `postgresql://…` or a bare path. Raises LedgerError."""
    text = str(url)
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser()))
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise LedgerError(f"ledger url: value={mask_password(text)!r} cannot be read; {_URL_FORMS}") from error
    dialect = parsed.get_backend_name()
    if dialect not in ("sqlite", "postgresql"):
        raise LedgerError(f"ledger url: dialect={dialect!r} is not supported; {_URL_FORMS}")
    if dialect == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise LedgerError(f"ledger url: value={mask_password(text)!r} names no file; {_URL_FORMS}")
    return parsed.set(drivername="postgresql+psycopg") if dialect == "postgresql" else parsed


_URL_FORMS = "use a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE"


def connect(url: str | Path, *, create: bool = True, storage: Path | None = None) -> Engine:
    """Returns an engine for a ledger. A missing ledger is created and an older one migrated, unless `create` is False.

    `storage` is the folder in which runs' files are looked for first. Raises LedgerError.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        _prepare_file(Path(str(parsed.database)), create)
    engine = _engine(parsed, create)
    engine = engine.execution_options(**{NAMED_STORAGE_OPTION: storage})
    try:
        _check_schema(engine, create)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _prepare_file(path: Path, create: bool) -> None:
    kind = network_file_system(path)
    if kind:
        raise LedgerError(
            f"ledger file: path={path} lies on a network file system ({kind}), where SQLite's locks do not hold; "
            "use a local path or --ledger postgresql://USER@HOST/DATABASE (PostgreSQL)"
        )
    if not create and not path.exists():
        raise LedgerError(f"ledger file: path={path} does not exist; run a sweep first or name another --ledger")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(
            f"ledger file: path={path} cannot be created ({error.strerror}); use another --ledger"
        ) from error
    tables: list[str] = []
    file = path.resolve()
    # An unreadable file fails on first use.
    if create and path.is_file():
        with contextlib.suppress(sqlite3.Error), contextlib.closing(_open_read_only(file)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if tables and not any(name in schema.metadata.tables for name in tables):
        description = f"path={file} is another program's database, with table {tables[0]}"
        raise LedgerError(f"ledger file: {description}; name another --ledger")


def file_identity(engine: Engine) -> tuple[int, int] | None:
    """Returns device and inode of a SQLite ledger's file; None if the file is absent, and for a database server."""
    if engine.url.get_backend_name() != "sqlite":
        return None
    try:
        file = Path(str(engine.url.database)).stat()
    except OSError:
        return None
    return file.st_dev, file.st_ino


def _engine(url: URL, create: bool) -> Engine:
    if url.get_backend_name() == "sqlite":
        file = Path(str(url.database)).resolve()
        # SQLite writes its log next to the file, so that the folder has to be writable too.
        read_only = not create and not all(os.access(path, os.W_OK) for path in (file, file.parent))
        options = {"creator": functools.partial(_open_read_only, file)} if read_only else {}
        engine = create_engine(url, json_serializer=schema.dumps, **options)
        _configure_sqlite(engine, writes=not read_only)
        return engine
    try:
        return _server(url).execution_options()  # a copy with options of its own, on the one pool
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"ledger driver: url={mask_password(url)} needs {error.name}; pip install 'psycopg[binary]'"
        ) from error


def _open_read_only(file: Path) -> sqlite3.Connection:
    """Opens a SQLite file that may not be written. `immutable=1` keeps SQLite from creating a write-ahead log where no
    writer has one."""
    mode = "mode=ro" if file.with_name(f"{file.name}-wal").exists() else "immutable=1"
    return sqlite3.connect(f"{file.as_uri()}?{mode}", uri=True, check_same_thread=False)


@functools.cache
def _server(url: URL) -> Engine:
    """Returns the process's one engine for a server: all its ledgers share one connection and two for peaks."""
    pool = {"pool_size": 1, "max_overflow": 2, "pool_timeout": LOCK_WAIT_SECONDS}
    engine = create_engine(url, json_serializer=schema.dumps, connect_args=_TIMEOUTS, **pool)

    @event.listens_for(engine, "connect")
    def limit_waits(connection: Any, record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET idle_in_transaction_session_timeout = '{TRANSACTION_IDLE_SECONDS}s'")
            cursor.execute(f"SET lock_timeout = '{LOCK_WAIT_SECONDS}s'")
        connection.commit()  # a SET in a transaction that is rolled back, as the pool does on return, has no effect

    @event.listens_for(engine, "checkin")
    def note_use(connection: Any, record: Any) -> None:
        record.info["used"] = time.monotonic()

    event.listen(engine, "checkout", functools.partial(_ping_if_unused, engine))
    return engine


PING_AFTER_SECONDS = 5.0
"""Seconds after its last use for which a connection counts as alive: a ping is a transaction too, five per run."""


def _ping_if_unused(engine: Engine, connection: Any, record: Any, proxy: Any) -> None:
    if time.monotonic() - record.info.get("used", -math.inf) < PING_AFTER_SECONDS:
        return
    try:
        engine.dialect.do_ping(connection)
    except engine.dialect.loaded_dbapi.Error as error:
        raise DisconnectionError from error  # the pool takes another connection


TRANSACTION_IDLE_SECONDS, LOCK_WAIT_SECONDS = 20, 30
"""Seconds after which the server ends a transaction of a silent driver (stopped, or its host is gone), and seconds
after which a driver that waits for a lock tries again."""

_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Timeouts of libpq for a server that no longer answers, in seconds; `tcp_user_timeout` is in milliseconds."""


def _configure_sqlite(engine: Engine, *, writes: bool) -> None:
    """Configures an engine for SQLite: write-ahead log, full syncs (4 ms a commit), waits, and locks at BEGIN."""

    @event.listens_for(engine, "connect")
    def set_pragmas(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # else sqlite3 begins transactions itself, too late and never with a lock
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        if writes:
            _use_write_ahead_log(connection)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("cse_writes")
        # A transaction that reads first and takes its write lock later fails at once where another one has written.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _use_write_ahead_log(connection: Any) -> None:
    """Switches a SQLite file to its write-ahead log, with retries: SQLite does not wait for locks in this statement."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _name_broken_json(engine: Engine, error: Exception) -> Exception:
    """Returns a LedgerError that names the first row with broken JSON; returns `error` itself where no row has any."""
    reason = error.msg if isinstance(error, json.JSONDecodeError) else MALFORMED
    with engine.connect() as connection:
        tables = set(inspect(connection).get_table_names())
        for table in (table for table in schema.metadata.sorted_tables if table.name in tables):
            for column in (column for column in table.columns if isinstance(column.type, JSON)):
                keys = list(table.primary_key)
                for *key, text in connection.execute(select(*keys, type_coerce(column, Text))):
                    try:
                        json.loads("null" if text is None else text)
                    except ValueError:
                        key_text = " ".join(f"{k.name}={value}" for k, value in zip(keys, key, strict=True))
                        return LedgerError(
                            f"ledger row: {table.name} {key_text} has broken JSON in {column.name} ({reason}); "
                            "cse doctor --repair --yes takes it out"
                        )
    return error


@contextlib.contextmanager
def transaction(engine: Engine, *, writes: bool = False) -> Iterator[Connection]:
    """Opens one transaction: commits at the end, rolls back on any error, and reports database errors as LedgerError.

    A ledger of an older version is read as it is, and migrated before the first transaction that writes.
    """
    if writes and engine.get_execution_options().get(MIGRATION_PENDING):
        _migrate(engine)
    with _transaction(engine, writes) as connection:
        yield connection


@contextlib.contextmanager
def _transaction(engine: Engine, writes: bool) -> Iterator[Connection]:
    try:
        with engine.connect().execution_options(cse_writes=writes) as connection, connection.begin():
            yield connection
    except json.JSONDecodeError as error:
        raise _name_broken_json(engine, error) from error
    except IntegrityError:  # callers tell from its class that another process inserted the same row
        raise
    except (SQLAlchemyError, sqlite3.Error) as error:
        if MALFORMED in str(error):
            raise _name_broken_json(engine, ledger_error(error, engine.url)) from error
        raise ledger_error(error, engine.url) from error


def _check_schema(engine: Engine, create: bool) -> None:
    version = _version(engine)
    if version is None and create:
        version = _create_or_join(engine)
    address = mask_password(engine.url)
    if version is None:
        raise LedgerError(f"ledger schema: url={address} holds no ledger; run a sweep first or name another --ledger")
    if not migrations.readable(version):
        raise LedgerError(
            f"ledger schema: version={version} at {address}, this cse-search reads up to {migrations.newest()}; "
            "upgrade cse-search or use another --ledger"
        )
    if version != str(migrations.newest()):
        engine.update_execution_options(**{MIGRATION_PENDING: True})
        if create:
            _migrate(engine)


MIGRATION_PENDING = "cse_older"
"""Execution option of an engine whose ledger has an older schema: the next transaction that writes migrates it."""


def _migrate(engine: Engine) -> None:
    with _transaction(engine, writes=True) as connection:
        migrations.migrate(connection)
    engine.update_execution_options(**{MIGRATION_PENDING: False})


def _create_or_join(engine: Engine) -> str | None:
    """Creates the tables and returns the schema's version. Of two concurrent creators the second fails and reads the
    version that the first one wrote."""
    try:
        with transaction(engine, writes=True) as connection:  # all tables and their version, or nothing
            if schema.meta.name not in inspect(connection).get_table_names():
                schema.metadata.create_all(connection)
                values = {"key": migrations.VERSION_KEY, "value": str(migrations.newest())}
                connection.execute(insert(schema.meta).values(**values))
    except (LedgerError, IntegrityError):
        version = _version(engine)
        if version is None:
            raise
        return version
    return _version(engine)


def _version(engine: Engine) -> str | None:
    """Returns the schema version of a database; None if it holds no ledger yet."""
    with transaction(engine) as connection:
        tables = set(inspect(connection).get_table_names())
        if schema.meta.name not in tables:
            return "unknown" if schema.runs.name in tables else None
        return migrations.read_version(connection) or "unknown"
