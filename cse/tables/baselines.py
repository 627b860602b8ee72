"""Rows without training beside a table: computed once, kept in one JSON file with the runs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cse_train.fields import Scalar
from cse_train.files import replace_file

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
    known, named = read(folder), distinct(setups)
    found: dict[str, list[tuple[Settings, dict[str, float]]]] = {}
    for setup in named:
        of_column = {column: known.get(key_of(setup, column), {}).get("rows", {}) for column in columns}
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


def distinct(setups: Sequence[Settings]) -> list[Settings]:
    """What of the runs' settings baselines depend on, each once."""
    names = ("train.encoder", "train.corpus", "train.dev_max_length")
    return list({shown(setup, names): {name: setup[name] for name in names} for setup in setups}.values())


def key_of(setup: Settings, column: str) -> str:
    return f"{column} {shown(setup, sorted(setup))}"


def shown(setup: Settings, names: Sequence[str]) -> str:
    return " ".join(f"{name}={setup[name]}" for name in names)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        return json.loads((folder / FILE).read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}


def write(folder: Path, known: Mapping[str, Mapping[str, Any]]) -> None:
    text = json.dumps(known, indent=1)
    replace_file(folder / FILE, lambda aside: aside.write_text(text, encoding="utf8"))
