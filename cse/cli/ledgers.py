"""Which ledger a command reads or writes, and where the files of its runs lie; needs no space and no method."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

import typer
from sqlalchemy import Engine

from analysis.ledger import Ledger
from analysis.ledger.database import connect
from cluster.runtime import storage as named
from cluster.runtime.options import login_name
from cse.cli import exit
from cse_train.fields import ConfigError

RESULTS = Path("results")

LedgerUrl = Annotated[
    str | None,
    typer.Option("--ledger", help="SQLite path or postgresql:// URL (default: results/ledger.db).", show_default=False),
]


def storage_folder(storage: str | None) -> Path:
    """The folder of runs, absolute: commands leave the user's folder before Ray starts. ConfigError for no folder."""
    return named.storage_folder(storage or str(RESULTS))


def ledger_url(url: str | None) -> str:
    """The ledger's address; a path becomes absolute."""
    url = url or str(RESULTS / "ledger.db")
    if url.startswith("sqlite:///"):
        literal = url.removeprefix("sqlite:///")
        url = literal if Path(literal).exists() else unquote(literal)  # SQLAlchemy and other tools write %20
    return url if "://" in url else str(Path(url).expanduser().resolve())


def require_own(users: Iterable[str], user: str | None) -> None:
    """ConfigError where something of another user would go and nobody was named (--user).

    `users`: whose each thing is; empty where that is not known, as of the runs of older programs.
    """
    me = login_name()
    others = Counter(user for user in users if user not in ("", me))
    if others and user is None:
        whose = ", ".join(f"user={name} has {count}" for name, count in others.items())
        advice = f"give --user {me} for yours alone, or --user {next(iter(others))} for theirs"
        raise ConfigError([f"another's runs: {whose} of what would go; {advice}"])


def notes_folder(ledger: str, storage: Path) -> Path:
    """Where small files about a ledger's runs lie: beside a SQLite file, else with the runs."""
    return storage if "://" in ledger else Path(ledger).parent


def open_ledger(url: str | None, storage: str | Path | None = None, *, create: bool = False) -> Ledger:
    """The ledger to read, or with `create` to write; runs' files are looked for in `storage` first. LedgerError."""
    folder = None if storage is None else storage_folder(str(storage))
    return Ledger.open(ledger_url(url), create=create, storage=folder)


@contextlib.contextmanager
def ledger_to_fill(url: str | None) -> Iterator[Ledger]:
    """A ledger to write. Where the block raises, a file that was not there before is gone again."""
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
    """The ledger, or None where the default one has not been made yet."""
    if url is None and not Path(ledger_url(None)).exists():
        return None
    return open_ledger(url, storage)


def ledger_to_be(url: str | None) -> Ledger | None:
    """The ledger, or None with a word on stderr where the named file is one that `cse run` would make."""
    address = ledger_url(url)
    if url is not None and "://" not in address and not Path(address).exists():
        exit.say([f"no ledger yet: --ledger={address}; the plan counts nothing as done, a run makes it"])
        return None
    return existing_ledger(url)


def connect_ledger(ledger: str | None, storage: str | None = None) -> Engine:
    """The ledger's database to read; ConfigError where the default one has not been made, else LedgerError."""
    url = ledger_url(ledger)
    if ledger is None and not Path(url).exists():
        raise ConfigError([f"no ledger yet: --ledger={url}; cse demo starts one, or name another"])
    return connect(url, create=False, storage=None if storage is None else storage_folder(storage))
