"""Rows without training beside a table: computed once, kept in one JSON file with the runs."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cse_train.fields import ConfigError, Scalar

if TYPE_CHECKING:
    from cse_train.config import DataPaths

FILE = "baselines.json"
NAMES = {
    "cls": "untrained [CLS]",
    "mean": "untrained mean",
    "first_last": "untrained first-last",
    "first_last_layer1": "untrained layer 1 + last",
    "whitening": "untrained, whitened",
}
ROWS = "2"
"""Raised when other rows are computed, so that stored ones are computed again."""

Settings = Mapping[str, Scalar]


def stored(setups: Sequence[Settings], columns: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Rows `{"name", "cells": {column: value}}` as far as they have been computed for these encoders and columns."""
    known, named = _read(folder), distinct(setups)
    found: dict[str, list[tuple[Settings, dict[str, float]]]] = {}
    for setup in named:
        of_column = {column: known.get(_key(setup, column), {}).get("rows", {}) for column in columns}
        for name in dict.fromkeys(name for rows in of_column.values() for name in rows):
            cells = {column: rows[name] for column, rows in of_column.items() if name in rows}
            found.setdefault(name, []).append((setup, cells))
    return [row for name, parts in found.items() for row in _rows(name, parts, named)]


def _rows(
    name: str, parts: Sequence[tuple[Settings, dict[str, float]]], setups: Sequence[Settings]
) -> list[dict[str, Any]]:
    """One row where all setups agree; else one for each, which names what tells the setups apart."""
    if all(cells == parts[0][1] for _, cells in parts):
        return [{"name": name, "cells": parts[0][1]}]
    differing = [key for key in setups[0] if len({setup[key] for setup in setups}) > 1]
    return [{"name": ", ".join([name, *(str(setup[k]) for k in differing)]), "cells": cells} for setup, cells in parts]


def ensure(setups: Sequence[Settings], columns: Sequence[str], folder: Path, paths: "DataPaths") -> None:
    """Compute and store what is missing; a set whose data is not at hand is left out."""
    known = _read(folder)
    for setup in distinct(setups):
        for column in columns:
            with contextlib.suppress(ConfigError):
                inputs = _inputs(setup, column, paths)
                if known.get(_key(setup, column), {}).get("inputs") != inputs:
                    known[_key(setup, column)] = {"inputs": inputs, "rows": computed(setup, column, paths)}
    _write(folder, known)


def _inputs(setup: Settings, column: str, paths: "DataPaths") -> dict[str, str]:
    """Content hashes of what the values come from."""
    from cse_train.evaluate.pairs import load_pairs
    from cse_train.modules.backbone import backbone_identity
    from cse_train.text.sources import open_source

    return {
        "rows": ROWS,
        "encoder": backbone_identity(str(setup["train.encoder"]))[0],
        "corpus": open_source(str(setup["train.corpus"]), paths).content_hash,
        "suite": load_pairs(column, paths).content_hash,
    }


def distinct(setups: Sequence[Settings]) -> list[Settings]:
    """What of the runs' settings baselines depend on, each once."""
    names = ("train.encoder", "train.corpus", "train.dev_max_length")
    return list({_shown(setup, names): {name: setup[name] for name in names} for setup in setups}.values())


def computed(setup: Settings, column: str, paths: "DataPaths") -> dict[str, float]:
    """Untrained poolers, whitening, word counts, idf bag of words and, where installed, GloVe on one set."""
    from cse_train.evaluate import baselines
    from cse_train.evaluate.pairs import load_pairs
    from cse_train.modules.backbone import load_backbone
    from cse_train.text.sources import open_source

    pairs = load_pairs(column, paths)
    texts = (row[0] for row in open_source(str(setup["train.corpus"]), paths).rows())
    backbone = load_backbone(str(setup["train.encoder"]))
    rows = {
        NAMES.get(name, f"untrained {name}"): value
        for name, value in baselines.untrained_rows(backbone, pairs, int(str(setup["train.dev_max_length"]))).items()
    }
    rows |= {"word counts": baselines.word_counts(pairs), "idf bag of words": baselines.idf_bag_of_words(pairs, texts)}
    glove = baselines.glove_average(pairs)
    return rows if glove is None else rows | {"GloVe-50d average": glove}


def _key(setup: Settings, column: str) -> str:
    return f"{column} {_shown(setup, sorted(setup))}"


def _shown(setup: Settings, names: Sequence[str]) -> str:
    return " ".join(f"{name}={setup[name]}" for name in names)


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        return json.loads((folder / FILE).read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}


def _write(folder: Path, known: Mapping[str, Mapping[str, Any]]) -> None:
    from cse_train.checkpoint import replace_file

    text = json.dumps(known, indent=1)
    replace_file(folder / FILE, lambda aside: aside.write_text(text, encoding="utf8"))
