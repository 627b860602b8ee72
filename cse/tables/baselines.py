"""Rows without training beside a table, as the ledger has them."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.ledger import Ledger
from analysis.ledger.baselines import Key
from cse_train.fields import Scalar

NAMES = {
    "cls": "untrained [CLS]",
    "mean": "untrained mean",
    "first_last": "untrained first-last",
    "first_last_layer1": "untrained layer 1 + last",
    "whitening": "untrained, whitened",
}
SETTINGS = ("train.encoder", "train.corpus", "train.dev_max_length")
"""What of a run's settings its baselines depend on."""

Settings = Mapping[str, Scalar]


def stored(setups: Sequence[Settings], columns: Sequence[str], ledger: Ledger) -> list[dict[str, Any]]:
    """Rows `{"name", "cells": {column: value}}` as far as they have been computed for these encoders and columns."""
    entries = {entry.key: entry.rows for entry in ledger.baselines()}
    named = distinct(setups)
    parts: dict[str, list[tuple[Settings, dict[str, float]]]] = {}
    for setup in named:
        of_column = {column: entries.get(key_of(setup, column), {}) for column in columns}
        for name in dict.fromkeys(name for rows in of_column.values() for name in rows):
            cells = {column: rows[name] for column, rows in of_column.items() if name in rows}
            parts.setdefault(name, []).append((setup, cells))
    return [row for name, cells in parts.items() for row in _rows(name, cells, named)]


def _rows(
    name: str, parts: Sequence[tuple[Settings, dict[str, float]]], setups: Sequence[Settings]
) -> list[dict[str, Any]]:
    """One row where all setups agree; else one for each, which names what tells the setups apart."""
    if all(cells == parts[0][1] for _, cells in parts):
        return [{"name": name, "cells": parts[0][1]}]
    differing = [key for key in setups[0] if len({setup[key] for setup in setups}) > 1]
    return [{"name": ", ".join([name, *(str(setup[k]) for k in differing)]), "cells": cells} for setup, cells in parts]


def distinct(setups: Sequence[Settings]) -> list[Settings]:
    """What of the runs' settings baselines depend on, each once."""
    return list({key_of(setup, ""): {name: setup[name] for name in SETTINGS} for setup in setups}.values())


def key_of(setup: Settings, column: str) -> Key:
    """Where the ledger keeps a column's rows for an encoder, a corpus and a length."""
    encoder, corpus, length = (str(setup[name]) for name in SETTINGS)
    return column, encoder, corpus, int(length)
