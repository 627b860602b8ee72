"""Which folder a person means by a path, a run's signature, or a sweep."""

from pathlib import Path
from typing import TYPE_CHECKING

from cluster.commands.arguments import existing_ledger
from cse_train.fields import ConfigError

if TYPE_CHECKING:
    from analysis.ledger import Ledger, RunRow


def run_folder(name: str, ledger: str | None) -> Path:
    """The run folder: a path that exists, the run whose signature starts so, or the best run of a sweep."""
    if Path(name).is_dir():
        return Path(name).resolve()
    opened = existing_ledger(ledger)
    row = (by_signature(name, opened) or _best_of(name, opened)) if opened else None
    if row is None:
        raise ConfigError([f"no such run: run={name}; give a folder, a signature (cse trials) or a sweep (cse ls)"])
    return require_files(row)


def require_files(row: "RunRow") -> Path:
    """The run's folder; ConfigError where it is not on this machine."""
    if row.folder is None or not Path(row.folder).is_dir():
        raise ConfigError(
            [f"run without files: run={row.signature} folder={row.folder}; its folder is gone, run it again"]
        )
    return Path(row.folder)


def row_of(folder: Path, ledger: "Ledger") -> "RunRow | None":
    """The run whose files lie in this folder."""
    found = (run for run in ledger.runs() if run.folder is not None and Path(run.folder).resolve() == folder.resolve())
    return next(found, None)


def by_signature(name: str, ledger: "Ledger") -> "RunRow | None":
    """The run whose signature starts so, with six digits at least; ConfigError for several."""
    found = [run for run in ledger.runs() if run.signature.startswith(name)] if len(name) >= 6 else []
    if len(found) > 1:
        raise ConfigError([f"ambiguous run: run={name} starts {len(found)} signatures; give more of it"])
    return found[0] if found else None


def _best_of(sweep: str, ledger: "Ledger") -> "RunRow | None":
    scored = [run for run in ledger.runs(sweep=sweep, states=["done"]) if run.best is not None]
    return max(scored, key=lambda run: run.best or 0.0, default=None)
