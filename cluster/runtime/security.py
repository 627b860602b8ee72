"""Keeps a one-machine Ray cluster behind a token that other users cannot read."""

import contextlib
import os
import secrets
from pathlib import Path

from cse_train.fields import ConfigError

MODE = "RAY_AUTH_MODE"
OWNER_ALONE = 0o600


def require_token() -> None:
    """Raises ConfigError where the environment turns Ray's token authentication off."""
    mode = os.environ.get(MODE, "token")
    if mode.lower() != "token":
        line = f"no token: {MODE}={mode}, and whoever reaches such a cluster runs code as you"
        raise ConfigError([f"{line}; unset {MODE}, or join a cluster with --address"])


def keep_token_private(home: Path | None = None) -> None:
    """Creates Ray's token file if absent and makes it readable by its owner only; Ray makes it readable by everyone.

    Raises ConfigError where the home folder cannot hold the file. Does nothing where a variable gives the token.
    """
    if {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
        return
    path = (home or Path.home()) / ".ray" / "auth_token"
    try:
        _make_private(path)
    except OSError as error:
        line = f"no home: HOME={path.parents[1]} cannot hold Ray's token, {error.filename or path} ({error.strerror})"
        raise ConfigError([f"{line}; set HOME to a folder of yours that can be written"]) from error


def _make_private(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        # O_EXCL: of two drivers that start at once the second keeps the token of the first.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ALONE)
        with open(descriptor, "w", encoding="utf8") as file:
            file.write(secrets.token_hex(32))
    if path.stat().st_uid == os.getuid() and path.stat().st_mode & 0o077:
        path.chmod(OWNER_ALONE)
