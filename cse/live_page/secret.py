"""Token of the live page, which keeps it private on a login node that many users share."""

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
    """Returns the user's token from a folder of theirs, and creates one if none is there that only the user can read.

    All pages of the user share it, so that permalinks and open pages outlive the server. Where the folder cannot be
    written, the token lasts for this call.
    """
    file, new_token = folder / TOKEN_FILE, secrets.token_urlsafe(16)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if file.is_file() and file.stat().st_mode & 0o077 == 0 and file.stat().st_uid == os.getuid():
            stored = file.read_text(encoding="ascii")
            if TOKEN.fullmatch(stored):
                return stored
    with contextlib.suppress(OSError):
        replace_file(file, lambda path: _write(path, new_token))
    return new_token


def _write(path: Path, token: str) -> None:
    # Private before the token is in the file.
    path.touch(mode=0o600)
    path.write_text(token, encoding="ascii")


def cookie(port: int) -> str:
    """Returns the name of the page's cookie; it contains the port, since browsers share cookies among all ports of a
    host."""
    return f"cse_dashboard_{port}"


def shows_token(token: str, parameter: str, authorization: str, cookies: str, port: int) -> bool:
    """Returns True if a request has the token: in its address, as `Bearer`, or in the page's cookie."""
    values = [parameter, authorization.removeprefix(BEARER)]
    with contextlib.suppress(CookieError):
        morsel = SimpleCookie(cookies).get(cookie(port))
        values += [morsel.value] if morsel else []
    return any(hmac.compare_digest(token.encode(), value.encode(errors="replace")) for value in values)
