"""What drivers and machines that died left behind, and how it is put right: shown first, done when asked."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from analysis.ledger import Claim, Ledger, RunRow
from analysis.run_folder import home_of, runs_folder
from analysis.run_state import RunState
from cse_train import checkpoint
from cse_train.files import alive, writer_of
from cse_train.soundness import CorruptCheckpoint


@dataclass(frozen=True)
class Repair:
    """One thing that is wrong."""

    line: str
    """What, where, and what is done about it."""
    do: Callable[[], object]
    user: str = ""
    """Whose run it is about; empty where that is not known."""


def repairs(ledger: Ledger, storage: Path) -> list[Repair]:
    """Everything that can be put right. Each finished run's model is read, which takes a while for many."""
    unsound = [Repair(f"{row.line}; is taken out", partial(ledger.take_out, row)) for row in ledger.unsound()]
    rows = ledger.runs()
    return [
        *unsound,
        *_find_orphans(ledger, rows),
        *_find_without_files(ledger, rows, storage),
        *_find_partial_files(runs_folder(storage)),
    ]


def _find_orphans(ledger: Ledger, rows: list[RunRow]) -> Iterator[Repair]:
    """Attempts whose driver is gone, those too whose lease lies far in the future because a clock was set back."""
    for row in rows:
        if row.state.is_held and not row.live:
            what = f"orphaned attempt: run={row.signature} attempt={row.attempt} of {row.owner}, which renews no lease"
            orphan = Claim(row.signature, row.attempt, row.owner)
            release = partial(ledger.release, orphan, "orphaned; given back by cse doctor")
            yield Repair(f"{what}; counts as lost", release, row.user)


def _find_without_files(ledger: Ledger, rows: list[RunRow], storage: Path) -> Iterator[Repair]:
    """Finished runs of this storage whose folder is gone, or whose model is damaged or another run's.

    A model that was freed (cse clean, --keep-top) leaves its folder and is no damage.
    """
    for row in rows:
        folder = Path(row.folder or "/")
        if row.state != RunState.DONE or folder.parent != home_of(storage, row.signature):
            continue
        if reason := _damage(folder, row.signature):
            line = f"run without files: run={row.signature} folder={folder} ({reason})"
            yield Repair(f"{line}; cse run trains it again", partial(ledger.reopen, [row.signature], reason), row.user)


def _damage(folder: Path, signature: str) -> str:
    if not folder.is_dir():
        return "its folder is gone"
    if not checkpoint.best_path(folder).exists():
        return ""
    try:
        checkpoint.read_best(folder, signature)
    except CorruptCheckpoint as error:
        return str(error).rpartition(";")[0]
    return ""


def _find_partial_files(runs: Path) -> Iterator[Repair]:
    for path in sorted(runs.rglob(".*")):
        process = writer_of(path)
        if process is not None and path.is_file() and not path.is_symlink() and not alive(process):
            yield Repair(f"partial file: {path}; is deleted", partial(path.unlink, missing_ok=True))
