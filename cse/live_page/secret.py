"""The page's secret: on a login node that many share, whoever finds the port sees nothing without it."""

import contextlib
import hmac
import os
import re
import secrets
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from cse_train.files import replace_file

TOKEN_FILE = "dashboard-token"
TOKEN = re.compile(r"[\w-]{22}", re.ASCII)
PARAMETER = "token"
BEARER = "Bearer "


def keep_token(folder: Path) -> str:
    """The user's token in a folder of theirs, made when there is none that the user alone can read.

    One for all their pages, so that permalinks and open pages outlive the server. Where the folder takes no file it is
    a token for this once.
    """
    file, fresh = folder / TOKEN_FILE, secrets.token_urlsafe(16)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if file.is_file() and file.stat().st_mode & 0o077 == 0 and file.stat().st_uid == os.getuid():
            stored = file.read_text(encoding="ascii")
            if TOKEN.fullmatch(stored):
                return stored
    with contextlib.suppress(OSError):
        replace_file(file, lambda path: _write(path, fresh))
    return fresh


def _write(path: Path, token: str) -> None:
    path.touch(mode=0o600)
    path.write_text(token, encoding="ascii")


def cookie(port: int) -> str:
    """Name of the cookie: browsers give a server those of all ports of the machine."""
    return f"cse_dashboard_{port}"


def shows_token(token: str, given: str, authorization: str, cookies: str, port: int) -> bool:
    """Whether a request has the token: given in its address, as `Bearer`, or in the cookie that the page then got."""
    values = [given, authorization.removeprefix(BEARER)]
    with contextlib.suppress(CookieError):
        named = SimpleCookie(cookies).get(cookie(port))
        values += [named.value] if named else []
    return any(hmac.compare_digest(token.encode(), value.encode(errors="replace")) for value in values)
