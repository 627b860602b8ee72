"""Options with which commands name one model and read texts with it, and the functions that find the model's folder."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.ledger import Ledger, sweeps_named
from analysis.run_folder import RunFolder
from cse.cli.ledgers import existing_ledger
from cse.cli.loader import deferred
from cse_train.encoder.folders import find_hub_model, list_encoders
from cse_train.encoder.gone import find_gone
from cse_train.fields import ConfigError

with deferred(__name__):
    from analysis.answers import lookup, models, selection
    from cse_train import checkpoint

Model = Annotated[
    str,
    typer.Argument(
        metavar="PATH|RUN",
        help="A run's folder, signature or sweep (faq, faq:best: what `cse best` picks); a transformers or "
        "sentence-transformers folder, or such a model's name on the hub; a shipped encoder; a file of word vectors.",
    ),
]
Pooler = Annotated[
    str | None, typer.Option(help="cls, cls_no_mlp, mean, last, first_last ...: required for a plain encoder.")
]
Prompt = Annotated[
    str | None, typer.Option(help="A prompt of a sentence-transformers folder, or none (default: its own).")
]
Encoder = Annotated[str | None, typer.Option(help="Where a run's encoder is now, if it moved.")]
MaxLength = Annotated[int | None, typer.Option(min=1, help="Tokens kept of a text (default: the model's).")]


def model_folder(name: str, ledger: str | None, storage: str | None = None) -> Path:
    """Returns a model's folder, a shipped encoder's bare name, or a file. Raises ConfigError for an unknown name."""
    if Path(name).is_file():
        return Path(name).resolve()
    try:
        return run_folder(name, existing_ledger(ledger, storage))
    except ConfigError:
        if (folder := find_folder(name)) is None:
            raise
        return folder


def find_folder(name: str) -> Path | None:
    """Returns a shipped encoder's bare name, or the folder of a hub model; None for a name that is neither."""
    if line := find_gone("model", name):
        raise ConfigError([line])
    return Path(name) if name in list_encoders() else find_hub_model(name)


def run_folder(name: str, ledger: Ledger | None) -> Path:
    """Returns the folder of a run, named by a path, the start of a signature, or a sweep, with or without `:best`,
    whose best run is taken.

    Raises ConfigError where nothing has this name, and CorruptCheckpoint where the folder holds another run's model.
    """
    if Path(name).is_dir():
        folder = Path(name).resolve()
    else:
        found = lookup.find_run(name, ledger) if ledger else None
        if ledger and found is None:
            sweeps = sweeps_named(name, ledger.sweeps()) or sweeps_named(
                name.removesuffix(f":{models.PICK_NAME}"), ledger.sweeps()
            )
            ranked = [selection.rank_cells(ledger, sweep.id) for sweep in sweeps]
            cell = max((cells[0] for cells in ranked if cells), key=lambda cell: cell.rank, default=None)
            found = cell.best_run if cell else None
        if found is None:
            raise ConfigError([f"no such run: run={name}; give a folder, a signature (cse trials) or a sweep (cse ls)"])
        folder = lookup.require_files(found, ledger)
    row = lookup.row_of(RunFolder.around(folder).path, ledger) if ledger else None
    if row is not None:
        checkpoint.require_own(folder, row.signature)
    return folder
