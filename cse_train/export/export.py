"""Exports a run's best checkpoint to a folder for transformers or sentence-transformers, with equal embeddings."""

import os
import shutil
import uuid
from pathlib import Path

from cse_train.checkpoint import load_model, read_best
from cse_train.data_paths import DataPaths
from cse_train.evaluate.models import require_first_token
from cse_train.export.agreement import Agreement, compare
from cse_train.export.card import write_card
from cse_train.export.lineage import Lineage
from cse_train.export.parts import parts_of, require_saved, require_transformers
from cse_train.export.sentence_transformers_folder import write_modules
from cse_train.export.transformers_folder import write_encoder
from cse_train.fields import ConfigError, nearest
from cse_train.files import copy_tree

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
    require_new(to)
    parts = parts_of(load_model(best_folder, encoder=encoder), read_best(best_folder)[1])
    require_first_token(parts.pooler.pooler, parts.encoder, parts.tokenizer, str(best_folder))
    require_saved(parts)
    if format == "hf":
        require_transformers(parts)
    # Beside `to`, and so on its disk: the last step is one rename.
    aside = to.with_name(f".{to.name}.{uuid.uuid4().hex}")
    folder = aside / to.name
    folder.mkdir(parents=True)
    try:
        if format == "hf":
            write_encoder(parts, folder, with_pooler=True)
        else:
            write_modules(parts, folder)
        agreement = compare(parts, folder, paths or DataPaths())
        agreement.require()
        write_card(parts, format, lineage or Lineage(), folder)
        os.replace(folder, to)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return agreement


def copy_model(best_folder: Path, to: Path) -> None:
    """Copies the best model of a training program's run as its library saved it; the folder appears when complete."""
    require_new(to)
    aside = to.with_name(f".{to.name}.{uuid.uuid4().hex}")
    try:
        copy_tree(best_folder, aside)
        os.replace(aside, to)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def require_new(to: Path) -> None:
    """Raises ConfigError unless `to` is absent or an empty folder."""
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ConfigError([f"folder not empty: to={to}; give a new one"])
