"""Corrupts sentences once, before training, with a frozen generator (D2CSE section 3, its footnote 1; T22).

The corrupted tokens of a text column lie in the cache under a name that holds everything that decides them, and come
back as one more column of the store, `corrupted_COLUMN`, with the same rows and lengths.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cse_train import distributed, random_streams
from cse_train.backbone.backbone import Backbone
from cse_train.encoder.packing import pack_lists
from cse_train.files import cache_folder, open_built
from cse_train.generator.generator import Generator
from cse_train.generator.identity import generator_hash
from cse_train.text.masking import Edit, Vocabulary, edit
from cse_train.text.tokens import TokenColumn, TokenStore

CORRUPTION_FORMAT = 1
"""Version of the corrupted text; raised whenever that changes for the same rule."""
CORRUPTION_CHUNK = 128
"""Number of sentences that the generator reads at once."""
POSITIONS = ("masked", "all")
"""Positions that get the generator's tokens: the masked ones, or all but the first.

The paper says the masked ones; DiffCSE's released code takes all (diffcse/models.py:184).
"""


@dataclass(frozen=True)
class CorruptionRule:
    """Settings that decide the corrupted text, together with corpus and tokenizer."""

    generator: str
    """Name of a masked LM as `Generator` takes it, greedy and in eval mode; its content counts, not its name."""
    ratio: float
    """Share of the tokens that is masked."""
    seed: int
    positions: str = "masked"


def name_corrupted(column: str) -> str:
    """Returns the name of the column with the corrupted form of a text column."""
    return f"corrupted_{column}"


def add_corrupted(
    store: TokenStore, columns: Sequence[str], rule: CorruptionRule, backbone: Backbone, cache: Path | None = None
) -> TokenStore:
    """Returns the store with the corrupted form of `columns`, made on first use and the same for every run and rank.

    Raises ConfigError for a generator that cannot be had or does not fit, or a cache that cannot be written.
    """
    assert rule.positions in POSITIONS, rule.positions
    identity = {
        **asdict(rule),
        "format": CORRUPTION_FORMAT,
        "generator": generator_hash(rule.generator),
        "tokenizer": backbone.tokenizer_hash,
        "corpus": store.content_hash,
        "columns": list(columns),
    }
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
    folder = (cache or cache_folder()) / "corrupted" / key
    write = partial(_write, store, columns, rule, backbone, identity)
    return open_built(folder, partial(_load, store, columns), write)


def _load(store: TokenStore, columns: Sequence[str], folder: Path) -> TokenStore | None:
    """Returns the store with the corrupted columns; None if the folder is absent or a file has the wrong size."""
    arrays = dict(store.arrays)
    for name in columns:
        column, file = store.column(name), folder / f"{name}.flat"
        if not file.is_file() or file.stat().st_size != 4 * len(column.flat):
            return None
        flat = np.memmap(file, dtype=np.int32, mode="r").view(np.ndarray)
        arrays[name_corrupted(name)] = TokenColumn(flat, column.starts, column.lengths, column.word_starts)
    return TokenStore(store.rows, tuple(arrays), folder.name, folder, arrays)


def _write(
    store: TokenStore,
    columns: Sequence[str],
    rule: CorruptionRule,
    backbone: Backbone,
    identity: dict[str, object],
    aside: Path,
) -> None:
    generator = Generator(rule.generator, backbone, dropout=False).to(distributed.device()).eval()
    for name in columns:
        with (aside / f"{name}.flat").open("wb") as file:
            for row_ids in _corrupt(store.column(name), name, rule, generator, backbone.tokenizer):
                file.write(row_ids.astype(np.int32).tobytes())
            file.flush()
            os.fsync(file.fileno())
    (aside / "meta.json").write_text(json.dumps(identity, indent=1), encoding="utf8")


def _corrupt(
    column: TokenColumn, name: str, rule: CorruptionRule, generator: Generator, tokenizer: Any
) -> Iterator[np.ndarray]:
    """Yields the corrupted ids of each row; each row of a column has its own masks, independent of the chunks."""
    vocabulary = Vocabulary.of(tokenizer)
    for first in range(0, len(column.starts), CORRUPTION_CHUNK):
        rows = range(first, min(first + CORRUPTION_CHUNK, len(column.starts)))
        rngs = (np.random.default_rng(random_streams.seed_of(rule.seed, "corruption", name, row)) for row in rows)
        edits = [edit(column.row(i), "replace", rule.ratio, vocabulary, rng) for i, rng in zip(rows, rngs, strict=True)]
        everywhere = rule.positions == "all"
        yield from _fill(generator, edits, everywhere, tokenizer.pad_token_id)


def _fill(generator: Generator, edits: list[Edit], everywhere: bool, pad_id: int) -> list[np.ndarray]:
    """Returns the sentences in the given order, with the generator's ids at the masked positions.

    With `everywhere` the generator's ids go to all positions behind [CLS].
    """
    packed = pack_lists([e.masked_L for e in edits], pad_id=pad_id)
    ids_T = pack_lists([e.source_L for e in edits], pad_id=pad_id).ids_T
    wanted_T = pack_lists([e.chosen_L | everywhere for e in edits]).ids_T.bool() & (packed.positions_T > 0)
    at_M = wanted_T.nonzero().squeeze(1)
    device = next(generator.parameters()).device
    ids_T = ids_T.index_copy(0, at_M, generator.predict(packed.to(device), at_M.to(device)).cpu())
    return packed.unpacked(ids_T)
