"""Exports a run's best checkpoint to a folder for transformers or sentence-transformers, with equal embeddings."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cse_train.checkpoint import load_model, read_best
from cse_train.data_paths import DataPaths
from cse_train.evaluate.models import require_first_token
from cse_train.export.agreement import Agreement, compare
from cse_train.export.card import write_card
from cse_train.export.folders import parts_of, require_saved, require_transformers, write_encoder, write_modules
from cse_train.fields import ConfigError, nearest
from cse_train.files import copy_tree
from cse_train.results import Lineage

EXPORT_FORMATS = ("sentence-transformers", "hf")


def export(
    best_folder: Path,
    to: Path,
    format: str = "sentence-transformers",
    *,
    paths: DataPaths | None = None,
    lineage: Lineage | None = None,
    encoder: str | None = None,
) -> Agreement:
    """Writes the checkpoint to the new folder `to`, reads it back and scores both on the set that selected it.

    `sentence-transformers`: modules whose `encode` gives the run's embeddings, prompts included; `hf`: encoder and
    tokenizer for `AutoModel`, the [CLS] MLP as BERT's pooler. `encoder`: where the run's encoder is now. The folder
    appears when both scores agree. Raises ConfigError, one line, for what cannot be exported so, ExportChanged,
    CorruptCheckpoint, OSError.
    """
    if format not in EXPORT_FORMATS:
        raise ConfigError([f"unknown format: format={format}; {nearest(format, EXPORT_FORMATS)}"])
    _require_new(to)
    parts = parts_of(load_model(best_folder, encoder=encoder), read_best(best_folder)[1])
    require_first_token(parts.pooler.pooler, parts.encoder, parts.tokenizer, str(best_folder))
    require_saved(parts)
    if format == "hf":
        require_transformers(parts)
    with _appearing(to) as folder:
        folder.mkdir()
        if format == "hf":
            write_encoder(parts, folder, with_pooler=True)
        else:
            write_modules(parts, folder)
        agreement = compare(parts, folder, paths or DataPaths())
        agreement.require()
        write_card(parts, format, lineage or Lineage(), folder)
    return agreement


def copy_model(best_folder: Path, to: Path) -> None:
    """Copies the best model of a training program's run as its library saved it; the folder appears when complete."""
    _require_new(to)
    with _appearing(to) as folder:
        copy_tree(best_folder, folder)


@contextmanager
def _appearing(to: Path) -> Iterator[Path]:
    """Yields the path of a new folder to fill, which is renamed to `to` if the block ends without an error."""
    # Beside `to`, and so on its disk: the last step is one rename.
    aside = to.with_name(f".{to.name}.{uuid.uuid4().hex}")
    aside.mkdir(parents=True)
    try:
        yield aside / to.name
        os.replace(aside / to.name, to)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _require_new(to: Path) -> None:
    """Raises ConfigError unless `to` is absent or an empty folder."""
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ConfigError([f"folder not empty: to={to}; give a new one"])
