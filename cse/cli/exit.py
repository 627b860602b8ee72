"""How a command ends: the lines a person reads, and the code the shell gets."""

import errno
import sys
import traceback
from collections.abc import Callable

from analysis.ledger import shown_url
from cluster.sweep.events import SweepOutcome
from cse.cli.listing import size

DONE, FAILED, MISTAKE, INTERRUPTED = 0, 1, 2, 130
OURS = ("analysis", "cluster", "cse", "cse_train", "search_spaces")


def ended(command: Callable[[], int | None], *, debug: bool = False) -> int:
    """Run a command; every error becomes one line per problem on stderr and an exit code."""
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
    """One line each on stderr."""
    for line in lines:
        print(f"cse: {line}", file=sys.stderr)


def verdict(error: Exception) -> tuple[int, list[str]]:
    """The exit code and the lines for an error."""
    if isinstance(error, OSError):
        return _of_the_system(error)
    if is_ours(error):
        lines = getattr(error, "problems", None) or str(error).splitlines()
        return (MISTAKE if isinstance(error, ValueError) else FAILED), list(lines)
    first = (str(error).strip().splitlines() or ["no message"])[0]
    return FAILED, [f"internal error: {type(error).__name__}: {first}; run again with --debug for the traceback"]


def is_ours(error: Exception) -> bool:
    """Whether the message was written by us for a person: one of our classes, or a ValueError raised in our code."""
    if type(error).__module__.partition(".")[0] in OURS:
        return True
    modules = [str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, ValueError) and any(name.partition(".")[0] in OURS for name in modules[-1:])


def _of_the_system(error: OSError) -> tuple[int, list[str]]:
    where = f"file={error.filename}" if error.filename else "file=unknown"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FAILED, [
            f"disk full: {where}; free some space and give the same command again, nothing finished is lost"
        ]
    reason = error.strerror or type(error).__name__
    return MISTAKE, [f"cannot use a file: {where} ({reason}); check the path and its permissions"]


def print_outcome(outcome: SweepOutcome, ledger: str) -> int:
    """Print how a sweep ended, and what --keep-top and --disk-quota freed or must keep; returns the exit code."""
    if outcome.freed:
        print(f"{size(outcome.freed)} of checkpoints freed")
    if outcome.over:
        say([f"above --disk-quota: {size(outcome.over)} too much is in use or has scores; give more"])
    print(
        f"{outcome.done} done, {outcome.failed} failed, {outcome.stopped} stopped, {outcome.reused} reused "
        f"in {outcome.seconds:.0f} s; ledger {shown_url(ledger)}"
    )
    if outcome.interrupted:
        say(["interrupted; finished runs are kept, the same command continues"])
        return INTERRUPTED
    say([f"failed: {failure.reason}" + (f"; log {failure.log}" if failure.log else "") for failure in outcome.failures])
    return FAILED if outcome.failures else DONE
