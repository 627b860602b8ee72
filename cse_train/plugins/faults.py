"""Turns errors of a user's code at import into one line with the place in the user's own file."""

import contextlib
import os
import traceback
from collections.abc import Iterator

from cse_train.fields import ConfigError
from cse_train.plugins.source import HOME, OUR_PACKAGES
from cse_train.reading import first_line

LIBRARY_PATHS = ("site-packages", "dist-packages", os.path.dirname(os.__file__), "<frozen")
"""Parts of the paths of files that the user did not write."""


@contextlib.contextmanager
def importing(subject: str, plugin: object) -> Iterator[None]:
    """Turns any error inside the block into ConfigError: what failed, where in the user's code, and why."""
    try:
        yield
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        is_own = isinstance(error, ImportError) and (error.name or "").partition(".")[0] in OUR_PACKAGES
        advice = "take it from cse_train.api, which is what stays" if is_own else "correct it"
        line = f"plug-in fails at import: {subject} at {place(error) or plugin} ({reason}); {advice}"
        raise ConfigError([line]) from error


def place(error: BaseException) -> str | None:
    """Returns `FILE:LINE` of the last frame in the user's own code; None if the traceback has no such frame."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    own_folders = tuple(str(HOME / package) + os.sep for package in OUR_PACKAGES)
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    user_frames = [
        f"{file}:{line}"
        for file, line in frames
        if not file.startswith(own_folders) and not any(part in file for part in LIBRARY_PATHS)
    ]
    return user_frames[-1] if user_frames else None
