"""D2CSE (Lee, 2023): prompts on one frozen encoder that also detects replaced tokens, given the embedding.

No code is released. What the paper leaves open follows DiffCSE: the embedding is the projector's output and takes the
[CLS] slot of the detector, whose head is Linear(H, 2); the corruption is greedy and made once. Shape suffixes: V views,
N sequences, B examples of this rank, G examples of all ranks, H width, T packed slots.
"""

import copy
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from cse_train import distributed, random_streams
from cse_train.distributed import gather_with_grad, mean_over_ranks
from cse_train.encoder.backbone import Backbone, own_encoder
from cse_train.encoder.encoder import ContinuousPrompts, Encoder, PromptedEncoder, require_positions
from cse_train.encoder.generator import Generator
from cse_train.encoder.identity import generator_hash
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.encoder.pooling import SentencePooler
from cse_train.files import cache_folder, open_built
from cse_train.losses import replaced_token, view_statistics
from cse_train.methods.base import Batch, Method, Share, StepOutput, contrast
from cse_train.methods.options.d2cse import Config as Config
from cse_train.text.masking import Edit, Vocabulary, edit
from cse_train.text.tokens import TokenColumn, TokenStore

WHY = "prompts need attention of our own"
"""Reason, for a message, why D2CSE needs an encoder of this project."""


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to "text", column after column, and "corrupted", one per embedding, with "replaced_T"."""

    config: Config
    pad_id: int

    def __call__(self, share: Share) -> Batch:
        names = D2CSE.columns(self.config)
        originals, corruptions = (
            [share.store.column(name).row(i) for name in wanted for i in share.rows]
            for wanted in (names, tuple(map(name_corrupted, names)))
        )
        copies = 2 if len(names) == 1 else 1
        replaced = [new != old for new, old in zip(corruptions, originals, strict=True)]
        packs = {
            "text": pack_lists(originals, pad_id=self.pad_id),
            "corrupted": pack_lists(corruptions * copies, pad_id=self.pad_id, **self._padding(share)),
        }
        replaced_T = pack_lists(replaced * copies, **self._padding(share)).ids_T.bool()
        return Batch(packs, len(share.rows), {"replaced_T": replaced_T})

    def _padding(self, share: Share) -> dict[str, int]:
        """Returns the width of packs where a mean counts padding: the longest sentence of all ranks; else nothing."""
        if self.config.reduction != "mean_all":
            return {}
        lengths = [share.store.column(name).lengths[share.batch_rows] for name in D2CSE.columns(self.config)]
        return {"groups": 1, "width": int(np.max(lengths))}


class D2CSE(Method[Config]):
    """D2CSE: a frozen encoder behind trainable prompts, a pooler and, in training, the detector of replaced tokens."""

    TRAINING_ONLY = ("head.", "discriminator.")

    @classmethod
    def prepare(cls, config: Config, store: TokenStore, backbone: Backbone, cache: Path | None) -> TokenStore:
        """Returns the store with its corrupted columns. ConfigError where prompts or generator do not fit."""
        longest = max(int(store.column(name).lengths.max()) for name in cls.columns(config))
        require_positions(own_encoder(backbone, WHY), config.prompt_length, config.position_shift, longest)
        rule = CorruptionRule(
            config.generator, config.masking_ratio, config.corruption_seed, config.corrupted_positions
        )
        return add_corrupted(store, cls.columns(config), rule, backbone, cache)

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        return Collate(config, tokenizer.pad_token_id)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        super().__init__()
        self.config = config
        encoder = own_encoder(backbone, WHY)
        prompts = ContinuousPrompts(
            encoder.config, config.prompt_length, shift=config.position_shift, dropout=config.prompt_dropout
        )
        cls_id = backbone.tokenizer.cls_token_id if config.cls_prompt else None
        self.prompted = PromptedEncoder(encoder, prompts, cls_id)
        self.pooler = SentencePooler(config.pooler, encoder.width, config.projector)
        self.head = nn.Linear(encoder.width, 2) if training else None
        self.discriminator: Encoder | None = None
        if training and config.framework == "b":
            self.discriminator = copy.deepcopy(encoder).requires_grad_(True)

    def forward(self, batch: Batch) -> StepOutput:
        embeddings_NH = self._embeddings(batch.inputs["text"])
        views = [gather_with_grad(view_BH) for view_BH in embeddings_NH.split(batch.examples)]
        contrastive = contrast(views, self.config)
        detection, metrics = self._detection(batch, embeddings_NH)
        loss = contrastive + self.config.lambda_weight * detection
        parts = {"loss": loss.detach(), "loss_contrastive": contrastive.detach(), "loss_rtd": detection.detach()}
        return StepOutput(loss, {**parts, **metrics, **view_statistics(views[0], views[1])})

    def _embeddings(self, packed: Packed) -> Tensor:
        """Returns both views, or all columns, one after the other: [2 * B, H] or [3 * B, H]."""
        copies = 2 if self.config.objective == "unsupervised" else 1
        return self.pooler(self.prompted(packed, views=copies, tokens=self.pooler.needs_tokens)).flatten(0, 1)

    def _detection(self, batch: Batch, embeddings_NH: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the replaced-token loss over the sentences of all embeddings, and metrics of the detection."""
        packed, replaced_T = batch.inputs["corrupted"], batch.tensors["replaced_T"]
        assert self.head is not None
        logits_T2 = self.head(self._detector_hidden(packed, embeddings_NH))
        attended_T = packed.attended_T()
        loss = mean_over_ranks(*replaced_token(logits_T2, replaced_T, attended_T, self.config.reduction))
        right = (logits_T2.argmax(1) == replaced_T) & attended_T
        tokens = attended_T.sum()
        return loss, {"replaced_fraction": replaced_T.sum() / tokens, "rtd_accuracy": right.sum() / tokens}

    def _detector_hidden(self, packed: Packed, embeddings_NH: Tensor) -> Tensor:
        """Returns the last layer [T, H] of figure 3's discriminator."""
        if self.config.framework == "c":
            return self.prompted(packed, tokens=True).tokens_TH
        if self.config.framework == "d":
            return self.prompted(packed, tokens=True, cls_output_NH=embeddings_NH).tokens_TH
        bare = self.discriminator or self.prompted.encoder
        return bare(packed, tokens=True, cls_output_NH=embeddings_NH).tokens_TH


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
