"""Options and functions that open a command's ledger and find its runs' files, without any space or method."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer
from sqlalchemy import Engine

from analysis.ledger import Ledger
from analysis.ledger.database import connect
from cse.cli import exit
from cse_train.fields import ConfigError

RESULTS = Path("results")

LedgerUrl = Annotated[str | None, typer.Option(help="SQLite path or postgresql:// URL (default: results/ledger.db).")]


def storage_folder(storage: str | None) -> Path:
    """Returns the folder of runs as an absolute path, since commands leave the user's folder before Ray starts.

    Takes a path or a `file://` URI; raises ConfigError for other URIs.
    """
    location = storage or str(RESULTS)
    if "://" not in location:
        return Path(location).expanduser().resolve()
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path)).resolve()
    line = f"no folder: storage={location}; runs need a file system with rename"
    raise ConfigError([f"{line}: mount it on every node and give the path or file:///PATH"])


def ledger_url(url: str | None) -> str:
    """Returns the ledger's address; a file path becomes absolute."""
    url = url or str(RESULTS / "ledger.db")
    if url.startswith("sqlite:///"):
        literal = url.removeprefix("sqlite:///")
        url = literal if Path(literal).exists() else unquote(literal)  # SQLAlchemy and other tools write %20
    return url if "://" in url else str(Path(url).expanduser().resolve())


def notes_folder(ledger: str, storage: Path) -> Path:
    """Returns the folder for small files about a ledger's runs: the SQLite file's folder, else the runs' `storage`."""
    return storage if "://" in ledger else Path(ledger).parent


def open_ledger(url: str | None, storage: str | Path | None = None, *, create: bool = False) -> Ledger:
    """Opens the ledger to read it, or to write it with `create`; runs' files are looked for in `storage` first.

    Raises LedgerError for a file or a database that cannot be opened.
    """
    folder = None if storage is None else storage_folder(str(storage))
    return Ledger.open(ledger_url(url), create=create, storage=folder)


@contextlib.contextmanager
def ledger_to_fill(url: str | None) -> Iterator[Ledger]:
    """Opens a ledger to write to; if the block raises, a file that this call created is deleted again."""
    address = ledger_url(url)
    file = None if "://" in address or Path(address).exists() else Path(address)
    opened = open_ledger(url, create=True)
    try:
        yield opened
    except BaseException:
        if file is not None:
            opened.close()
            for end in ("", "-wal", "-shm"):
                file.with_name(file.name + end).unlink(missing_ok=True)
        raise


def existing_ledger(url: str | None, storage: str | None = None) -> Ledger | None:
    """Opens the ledger; returns None if no URL is given and the default ledger does not exist yet."""
    if url is None and not Path(ledger_url(None)).exists():
        return None
    return open_ledger(url, storage)


def require_ledger(opened: Ledger | None) -> Ledger:
    """Returns the ledger that `existing_ledger` opened. Raises ConfigError if there is none yet."""
    if opened is None:
        raise ConfigError(["no ledger yet: --ledger=results/ledger.db; cse demo starts one, or name another"])
    return opened


def ledger_to_be(url: str | None) -> Ledger | None:
    """Opens the ledger to count finished runs; returns None, with a line on stderr, if the named file does not exist
    yet."""
    address = ledger_url(url)
    if url is not None and "://" not in address and not Path(address).exists():
        exit.say([f"no ledger yet: --ledger={address}; the plan counts nothing as done, a run makes it"])
        return None
    return existing_ledger(url)


def connect_ledger(ledger: str | None, storage: str | None = None) -> Engine:
    """Connects to the ledger's database to read it.

    Raises ConfigError if the default ledger does not exist yet, and LedgerError for any other that cannot be read.
    """
    url = ledger_url(ledger)
    if ledger is None and not Path(url).exists():
        raise ConfigError([f"no ledger yet: --ledger={url}; cse demo starts one, or name another"])
    return connect(url, create=False, storage=None if storage is None else storage_folder(storage))
