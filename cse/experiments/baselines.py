"""Rows without training, computed and stored where tables read them."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from cse.tables.baselines import NAMES, ROWS, Settings, distinct, key_of, read, write
from cse_train.backbone.backbone import load_backbone
from cse_train.backbone.identity import backbone_identity
from cse_train.data_paths import DataPaths
from cse_train.evaluate import baselines as rows
from cse_train.evaluate.pairs import load_pairs
from cse_train.fields import ConfigError
from cse_train.text.sources import open_source


def ensure(setups: Sequence[Settings], columns: Sequence[str], folder: Path, paths: DataPaths) -> None:
    """Compute and store what is missing; a set whose data is not at hand is left out."""
    known = read(folder)
    for setup in distinct(setups):
        for column in columns:
            with contextlib.suppress(ConfigError):
                inputs = _inputs(setup, column, paths)
                if known.get(key_of(setup, column), {}).get("inputs") != inputs:
                    known[key_of(setup, column)] = {"inputs": inputs, "rows": computed(setup, column, paths)}
    write(folder, known)


def _inputs(setup: Settings, column: str, paths: DataPaths) -> dict[str, str]:
    """Content hashes of what the values come from."""
    return {
        "rows": ROWS,
        "encoder": backbone_identity(str(setup["train.encoder"]))[0],
        "corpus": open_source(str(setup["train.corpus"]), paths).content_hash,
        "suite": load_pairs(column, paths).content_hash,
    }


def computed(setup: Settings, column: str, paths: DataPaths) -> dict[str, float]:
    """Untrained poolers, whitening, word counts, idf bag of words and, where installed, GloVe on one set."""
    pairs = load_pairs(column, paths)
    texts = (row[0] for row in open_source(str(setup["train.corpus"]), paths).rows())
    backbone = load_backbone(str(setup["train.encoder"]))
    values = {
        NAMES.get(name, f"untrained {name}"): value
        for name, value in rows.untrained_rows(backbone, pairs, int(str(setup["train.dev_max_length"]))).items()
    }
    values |= {"word counts": rows.word_counts(pairs), "idf bag of words": rows.idf_bag_of_words(pairs, texts)}
    glove = rows.glove_average(pairs)
    return values if glove is None else values | {"GloVe-50d average": glove}
