"""Errors of the ledger's database, each reported in one line."""

import re
import sqlite3

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError


class LedgerError(ValueError):
    """Ledger that cannot be used as asked; the message is one line with the rule, `name=value` and what to do."""


class LedgerAway(LedgerError):
    """Database that does not answer now and may answer later."""


def ledger_error(error: SQLAlchemyError | sqlite3.Error, url: URL) -> LedgerError:
    """Returns the one-line error for an error of the database, with its password hidden."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    address = mask_password(url)
    for mark, line in _MARKS.items():
        if mark in text:
            kind = LedgerAway if line in (_BUSY, _CUT) else LedgerError
            return kind(line.format(url=address, text=text))
    if isinstance(error, OperationalError | InterfaceError):
        return LedgerAway(f"ledger unreachable: url={address} ({text}); check the address and that the server runs")
    return LedgerError(
        f"ledger database: url={address} refused the request ({text}); check your rights there or use another --ledger"
    )


_FULL = "ledger disk: url={url} has no space left; free some and give the same command again, nothing finished is lost"
_BUSY = "ledger busy: url={url} is locked by another process; wait for it and give the same command again"
_CUT = "ledger busy: url={url} ended a transaction of this process, which had paused; give the same command again"
# The first of these that occurs in the text of an error decides.
_MARKS = {
    "file is not a database": "ledger file: url={url} is no SQLite database; use another --ledger",
    "malformed": "ledger file: url={url} is damaged ({text}); restore a copy or use another --ledger",
    "unable to open": "ledger file: url={url} cannot be opened; check that the folder exists and is writable",
    "readonly": "ledger file: url={url} is read-only; make it writable or use another --ledger",
    **dict.fromkeys(("disk is full", "No space left"), _FULL),
    "disk I/O error": "ledger disk: url={url} cannot be written ({text}); check it and give the same command again",
    **dict.fromkeys(("is locked", "lock timeout", "QueuePool limit"), _BUSY),
    "idle-in-transaction": _CUT,
    "Could not decode": "ledger file: url={url} holds what is no text ({text}); restore a copy or use another --ledger",
    "no such": "ledger schema: url={url} was changed by hand ({text}); restore a copy or use another --ledger",
}

PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^/]*@|(?<=[?&])(password|passfile|sslpassword)=[^&]*")


def mask_password(url: str | URL) -> str:
    """Returns an address with `***` for every password; SQLAlchemy hides only the one in front of the `@`."""
    text = url.render_as_string(hide_password=False) if isinstance(url, URL) else url
    if isinstance(url, URL) and url.get_backend_name() == "sqlite" and "%" not in str(url.database) and not url.query:
        text = f"sqlite:///{url.database}"  # as a person would write the path, and not with %C3%BC in it
    return PASSWORD.sub(lambda match: f"{match[2]}=***" if match[2] else f"{match[1]}:***@", text)


class LostClaim(RuntimeError):
    """Claim that no longer holds its run: another owner took the run over, or it was released."""
