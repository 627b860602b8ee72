"""Edited sentences (DiffCSE 3): packed, filled with a generator's tokens, and stored for every run that would make the
same.

Stored ones lie in blocks, each for `EDIT_BLOCK` successive examples of an epoch, under a name that holds everything
that decides them: generator, its dropout and sampling, ratio, seed, epoch, tokenizer, corpus and rows. A block is a
`cached_folder`: complete or absent, built by the first run that comes to it, memory-mapped by all. The masks are those
of a run without the store; dropout and sampling of the generator have a stream of their own here, which a GPU draws in
its own way: the name of a block made on one has the GPU's in it. Shape suffixes: T packed slots, M some of them.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cse_train import distributed, numerics, random_streams
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.generator import Generator
from cse_train.encoder.identity import generator_hash
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.files import cache_folder, open_built
from cse_train.random_streams import Place
from cse_train.text.masking import Edit
from cse_train.text.tokens import TokenStore


@dataclass(frozen=True)
class Edited:
    """Pack of edited sentences, with the labels of its slots for DiffCSE's conditional tasks."""

    packed: Packed
    source_T: Tensor
    """Original ids; [MASK] where a token was inserted."""
    replaced_T: Tensor
    """Bool: True where a token differs from the original, was inserted, or follows a deleted token."""
    chosen_M: Tensor
    """Int64: slots that masking chose."""

    def replaced_fraction(self) -> Tensor:
        """Returns the share of the real tokens that are replaced."""
        return self.replaced_T.sum() / self.packed.lengths_N.sum()


def pack_edits(edits: Sequence[Edit], *, pad_id: int, width: int | None = None) -> tuple[Packed, dict[str, Tensor]]:
    """Packs the generator's inputs, and tensors "source_T", "edited_T" and "chosen_T" in the same slots (`Edit`).

    "edited_M" and "chosen_M" are the slots where these are true, "inner_M" the slots of real tokens except each first.
    """
    masked = pack_lists([edit.masked_L for edit in edits], pad_id=pad_id, width=width)
    edited_T = pack_lists([edit.edited_L for edit in edits], width=width).ids_T.bool()
    chosen_T = pack_lists([edit.chosen_L for edit in edits], width=width).ids_T.bool()
    return masked, {
        "inner_M": (masked.attended_T() & (masked.positions_T > 0)).nonzero().squeeze(1),
        "source_T": pack_lists([edit.source_L for edit in edits], pad_id=pad_id, width=width).ids_T,
        "edited_T": edited_T,
        "edited_M": edited_T.nonzero().squeeze(1),
        "chosen_T": chosen_T,
        "chosen_M": chosen_T.nonzero().squeeze(1),
    }


def fill(generator: Generator | None, masked: Packed, tensors: Mapping[str, Tensor], only_edited: bool) -> Edited:
    """Returns the edited sentences x''; `masked` and `tensors` come from `pack_edits`.

    The generator's ids go to every position, unmasked ones and the last special token included, as released
    (diffcse/models.py:184); with `only_edited` to the inserted ones alone. Position 0 keeps its token and padding gets
    id 0, as released. Without a generator nothing is filled, and masked positions stay masked. A generator that draws
    does so at every slot, whether it is used or not: the draws of a run depend on it.
    """
    source_T, edited_T, attended_T = tensors["source_T"], tensors["edited_T"], masked.attended_T()
    first_T, ids_T = masked.positions_T == 0, masked.ids_T
    if generator is not None and generator.sample and not only_edited:
        ids_T = generator.predict(masked)
    elif generator is not None:
        at_M = tensors["edited_M" if only_edited else "inner_M"]
        ids_T = source_T.index_copy(0, at_M, generator.predict(masked, at_M))
    ids_T = torch.where(first_T, source_T, ids_T)
    replaced_T = attended_T & (edited_T | (ids_T != source_T))
    filled = replace(masked, ids_T=torch.where(attended_T, ids_T, 0))
    return Edited(filled, source_T, replaced_T, tensors["chosen_M"])


EDIT_FORMAT = 1
"""Version of the stored edits; raised whenever they change for the same rule."""
EDIT_BLOCK = 4096
"""Number of examples in a block of stored edits."""
EDIT_CHUNK = 128
"""Number of sentences that the generator reads at once."""

Block = list[tuple[np.ndarray, np.ndarray]]
"""Stored edits of a block: for each source and view, the filled ids and each example's begin [examples + 1]."""


@dataclass(frozen=True)
class EditRule:
    """Settings that decide the stored edits, together with corpus, tokenizer, seed and rows."""

    generator: str
    """Name of a masked LM as `Generator` takes it; its content counts, not its name."""
    dropout: bool
    sampling: str
    ratio: float


@dataclass
class EditStore:
    """Blocks of edited sentences for one rule and corpus."""

    rule: EditRule
    draw: Callable[[np.ndarray, Callable[[int], np.random.Generator]], Iterator[Edit]]
    """Function of corpus rows and a generator per row that yields their unfilled edits, in the order of `of`."""
    offsets: Sequence[int]
    """Offsets from the row of an example to the rows that are edited for it."""
    views: int
    backbone: Backbone
    corpus: TokenStore
    cache: Path | None
    _open: dict[tuple[int, int], Block] = field(default_factory=dict)
    """Blocks of the present batch, by epoch and block number."""
    _generator: Generator | None = None

    def of(self, rows: np.ndarray, place: Place) -> Iterator[Edit]:
        """Yields the filled edits of the examples at a place: source after source, view after view, row after row.

        Raises ConfigError for a generator that does not fit or a cache that cannot be written.
        """
        positions = place.first + np.arange(len(rows))
        if not self._open.keys() >= set(_keys(place, len(rows))):
            self.make_ready(place, len(rows))
        blocks = {number: block for (_, number), block in self._open.items()}
        for column, (offset, _) in enumerate(self._columns()):
            for row, position in zip(rows + offset, positions.tolist(), strict=True):
                flat, begins = blocks[position // EDIT_BLOCK][column]
                begin, end = begins[position % EDIT_BLOCK], begins[position % EDIT_BLOCK + 1]
                source, unedited = self.corpus.column("text").row(row), np.zeros(end - begin, dtype=bool)
                yield Edit(flat[begin:end], source, unedited, unedited)

    def make_ready(self, place: Place, examples: int) -> None:
        """Opens the blocks of `examples` examples from a place on, making those that are absent.

        A generator that draws takes numbers from torch's global generators, which are seeded here and put back: no
        other thread may draw meanwhile.
        """
        self._open = {key: self._open.get(key) or self._block(place, key[1]) for key in _keys(place, examples)}

    def _columns(self) -> list[tuple[int, int]]:
        return [(offset, view) for offset in self.offsets for view in range(self.views)]

    def _block(self, place: Place, number: int) -> Block:
        rows = place.order[number * EDIT_BLOCK : (number + 1) * EDIT_BLOCK]
        identity = self._identity(place, rows)
        name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
        folder = (self.cache or cache_folder()) / "edits" / name
        return open_built(folder, partial(self._load, rows), partial(self._write, place, rows, identity))

    def _identity(self, place: Place, rows: np.ndarray) -> dict[str, object]:
        device, name = distributed.device(), {}
        if numerics.is_card(device):  # a CPU's first blocks were named without it
            name = {"device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type}
        return {
            **asdict(self.rule),
            "format": EDIT_FORMAT,
            "generator": generator_hash(self.rule.generator),
            "tokenizer": self.backbone.tokenizer_hash,
            "corpus": self.corpus.content_hash,
            "seed": place.seed,
            "epoch": place.epoch,
            "offsets": list(self.offsets),
            "views": self.views,
            "rows": hashlib.sha256(rows.tobytes()).hexdigest(),
            **name,
        }

    def _load(self, rows: np.ndarray, folder: Path) -> Block | None:
        """Reads a block; None if its folder is absent or a file has not the size of its sentences."""
        block = []
        for offset, view in self._columns():
            begins = np.append(0, np.cumsum(self.corpus.column("text").lengths[rows + offset], dtype=np.int64))
            file = folder / f"{offset}.{view}.flat"
            if not file.is_file() or file.stat().st_size != 4 * begins[-1]:
                return None
            block.append((np.memmap(file, dtype=np.int32, mode="r").view(np.ndarray), begins))
        return block

    def _write(self, place: Place, rows: np.ndarray, identity: dict[str, object], aside: Path) -> None:
        edits = self.draw(rows, partial(random_streams.augmentation, place.seed, place.epoch))
        device = distributed.device()
        # Training draws from the same generators: it must go on as if this block had been there already.
        with torch.random.fork_rng([device] if device.type == "cuda" else []), numerics.tf32(False):
            if self._generator is None:
                sample = self.rule.sampling == "sample"
                self._generator = Generator(self.rule.generator, self.backbone, self.rule.dropout, sample).to(device)
            torch.manual_seed(random_streams.seed_of(place.seed, "edits", place.epoch, str(identity["rows"])))
            for offset, view in self._columns():
                with (aside / f"{offset}.{view}.flat").open("wb") as file, torch.inference_mode():
                    for ids in self._fill(list(islice(edits, len(rows))), device):
                        file.write(ids.astype(np.int32).tobytes())
                    file.flush()
                    os.fsync(file.fileno())
        (aside / "meta.json").write_text(json.dumps(identity, indent=1), encoding="utf8")

    def _fill(self, edits: list[Edit], device: torch.device) -> Iterator[np.ndarray]:
        for first in range(0, len(edits), EDIT_CHUNK):
            masked, tensors = pack_edits(edits[first : first + EDIT_CHUNK], pad_id=self.backbone.tokenizer.pad_token_id)
            on_device = {name: tensor.to(device) for name, tensor in tensors.items()}
            packed = fill(self._generator, masked.to(device), on_device, only_edited=False).packed
            yield from packed.unpacked(packed.ids_T)


def _keys(place: Place, examples: int) -> list[tuple[int, int]]:
    """Returns epoch and number of each block that holds some of these examples."""
    last = place.first + examples - 1
    return [(place.epoch, number) for number in range(place.first // EDIT_BLOCK, last // EDIT_BLOCK + 1)]


@dataclass(frozen=True)
class StoreWithEdits(TokenStore):
    """Token store with the edits of its sentences."""

    edits: EditStore

    def make_ready(self, place: Place, examples: int) -> None:
        """Opens the edits of `examples` examples from a place of the run on."""
        self.edits.make_ready(place, examples)
