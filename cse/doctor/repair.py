"""`cse doctor --repair`: finds what crashed drivers and machines left in ledger and storage, and how to repair it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from analysis.ledger import Claim, Ledger, RunRow
from analysis.ledger.exchange.unsound import find_unsound, take_out
from analysis.run_folder import home_of, runs_folder
from analysis.run_state import RunState
from cse_train import checkpoint
from cse_train.files import alive, writer_of
from cse_train.plugins.trainer import is_program
from cse_train.soundness import CorruptCheckpoint
from cse_train.training import program_folder


@dataclass(frozen=True)
class Repair:
    """One defect in ledger or storage, with its repair if there is one."""

    line: str
    """Text for the user: what is wrong, where, and what the repair does."""
    do: Callable[[], object] | None
    """Function that repairs the defect; None for one that is only reported."""
    user: str = ""
    """Owner of the run; "" where unknown."""


def repairs(ledger: Ledger, storage: Path) -> list[Repair]:
    """Returns all defects found. Reading the model of every ended run takes a while in large ledgers."""
    defects = [Repair(f"{row.line}; is taken out", partial(take_out, ledger, row)) for row in find_unsound(ledger)]
    rows = ledger.runs()
    users = {row.signature: row.user for row in rows}
    for signature, best, greatest in ledger.find_edited():
        line = f"edited row: run={signature} has best={best}, which is no point of its curve; becomes {greatest}"
        defects.append(Repair(line, partial(ledger.restore_best, signature), users.get(signature, "")))
    for row in rows:
        # A driver that renews no lease may have left one far in the future, after a clock was set back.
        if row.state.is_held and not row.live:
            line = f"orphaned attempt: run={row.signature} attempt={row.attempt} of {row.owner}, which renews no lease"
            orphan = Claim(row.signature, row.attempt, row.owner)
            release = partial(ledger.release, orphan, "orphaned; given back by cse doctor")
            defects.append(Repair(f"{line}; counts as lost", release, row.user))
    defects += _find_without_files(ledger, rows, storage)
    for path in sorted(runs_folder(storage).rglob(".*")):
        process = writer_of(path)
        if process is not None and path.is_file() and not path.is_symlink() and not alive(process):
            defects.append(Repair(f"partial file: {path}; is deleted", partial(path.unlink, missing_ok=True)))
    return defects


def _find_without_files(ledger: Ledger, rows: list[RunRow], storage: Path) -> Iterator[Repair]:
    """Yields ended runs in this storage whose folder is gone, or whose model is damaged, another run's, or unreadable.

    A model that was freed (cse clean, --keep-top) leaves its folder, and is no damage. A stopped run is left alone: its
    score counts, and a sweep that trains it to its end checks its files itself.
    """
    stored_here = [
        row
        for row in rows
        if row.state.has_result and row.files and row.files.path.parent == home_of(storage, row.signature)
    ]
    if stored_here and not runs_folder(storage).is_dir():  # a disk that is not mounted has lost nothing
        line = (
            f"no storage: folder={runs_folder(storage)} is not here, and {len(stored_here)} runs have their files in it"
        )
        yield Repair(f"{line}; left alone, give --storage where it is", None)
        return
    for row in stored_here:
        reason, is_damage = _judge(row)
        subject = f"run={row.signature} folder={row.folder} ({reason})"
        if reason and not is_damage:
            yield Repair(f"not judged: {subject}; left alone", None, row.user)
        elif reason and row.state != RunState.DONE:
            yield Repair(f"stopped run without files: {subject}; left alone, its score counts", None, row.user)
        elif reason:
            retrain = partial(ledger.reopen, [row.signature], reason)
            yield Repair(f"run without files: {subject}; cse run trains it again", retrain, row.user)


def _judge(row: RunRow) -> tuple[str, bool]:
    """Returns the defect of a run's files, "" for none; and False if the files could not be judged."""
    assert row.files
    folder = row.files.path
    try:
        if not folder.is_dir():
            return "its folder is gone", True
        if is_program(row.method):
            program_folder.check_model(folder, row.signature)
        elif checkpoint.best_path(folder).exists():
            checkpoint.check_best(folder, row.signature)
    except CorruptCheckpoint as error:
        return str(error).rpartition(";")[0], True
    except program_folder.DamagedModel as error:
        return str(error), True
    except program_folder.NotJudged as error:
        return str(error), False
    except OSError as error:
        return f"{error.filename or folder}: {error.strerror or error}", False
    return "", True
