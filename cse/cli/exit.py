"""The end of a command: error lines for the user, and the exit code for the shell."""

import errno
import sys
import tempfile
import traceback
from collections.abc import Callable

import cse
from cse.cli.loader import deferred
from cse.cli.printing import plain, problem_lines
from cse_train.plugins import registry
from cse_train.plugins.source import OUR_PACKAGES
from cse_train.reading import first_line, is_out_of_memory, message_of

with deferred(__name__):
    from analysis import ledger as ledgers

DONE, SOME_FAILED, MISTAKE, INTERRUPTED = 0, 1, 2, 130
MEMORY_ADVICE = "lower train.batch_size or train.max_seq_length, run fewer at once (--max-concurrent), or free some"


def run_to_end(command: Callable[[], int | None], *, debug: bool = False) -> int:
    """Runs a command and returns its exit code; every error becomes one line for each problem on stderr."""
    try:
        return command() or DONE
    except KeyboardInterrupt:
        say(["interrupted; the same command continues"])
        return INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        code, lines = verdict(error)
        say(lines)
        return code


def say(lines: list[str]) -> None:
    """Prints each line on stderr with the prefix `cse: `, without control characters."""
    for line in problem_lines(lines):
        print(f"cse: {line}", file=sys.stderr)


def tell(line: str) -> None:
    """Prints one line on stderr and flushes it, before work that takes long."""
    print(f"cse: {plain(line)}", file=sys.stderr, flush=True)


def verdict(error: Exception) -> tuple[int, list[str]]:
    """Returns the exit code and the lines for an error."""
    if isinstance(error, OSError):
        return _explain_os_error(error)
    if is_out_of_memory(error):
        return SOME_FAILED, [f"out of memory: {first_line(error)}; {MEMORY_ADVICE}"]
    if isinstance(error, RuntimeError) and _modules(error)[-1:] == ["pathlib"]:  # a circle of links, an unknown ~user
        return MISTAKE, [f"cannot use a path: {first_line(error)}; check the path, its ~ and its links"]
    if is_ours(error):
        lines = getattr(error, "problems", None) or message_of(error).splitlines()
        return (MISTAKE if isinstance(error, ValueError) else SOME_FAILED), list(lines)
    message = f"{type(error).__name__}: {first_line(error)}"
    if place := registry.find_raiser(error):
        return SOME_FAILED, [
            f"error in your own code: {message} ({place}); correct it, --debug shows how it came there"
        ]
    return SOME_FAILED, [
        f"internal error: {message}; this is a mistake of ours, please report it with {_report(error)}"
    ]


def _report(error: Exception) -> str:
    """Writes a file with version, command and traceback, and returns `file=PATH`; a hint to --debug where it cannot."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="cse-error-", suffix=".txt", delete=False, encoding="utf8", errors="replace"
        ) as file:
            print(f"cse-search {cse.__version__}, Python {sys.version}", file=file)
            print("command:", *map(ledgers.mask_password, sys.argv), file=file)
            traceback.print_exception(error, file=file)
        return f"file={file.name}"
    except OSError:
        return "what --debug shows"


def is_ours(error: Exception) -> bool:
    """Returns True if cse-search wrote the message for users: an exception class of its own, or a ValueError that it
    raised."""
    if type(error).__module__.partition(".")[0] in OUR_PACKAGES:
        return True
    return isinstance(error, ValueError) and any(
        name.partition(".")[0] in OUR_PACKAGES for name in _modules(error)[-1:]
    )


def _modules(error: Exception) -> list[str]:
    """Returns the names of the modules that an error passed through; the last one raised it."""
    return [str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__)]


def _explain_os_error(error: OSError) -> tuple[int, list[str]]:
    place = f"file={error.filename}" if error.filename else "file=unknown"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SOME_FAILED, [
            f"disk full: {place}; free some space and give the same command again, nothing finished is lost"
        ]
    reason = error.strerror or type(error).__name__
    return MISTAKE, [f"cannot use a file: {place} ({reason}); check the path and its permissions"]
