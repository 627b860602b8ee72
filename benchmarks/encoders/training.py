"""Masked-LM training of an encoder, and its loss on held-out text. Shape suffixes: V tokens, D, H, M masked positions.

Two kinds of step: whole sentences as they will be met in training, and runs of consecutive sentences 512 tokens long so
that every position embedding is trained. The learning rate is constant after warm-up and falls to zero over the last
part.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertConfig

from benchmarks.encoders.batches import Corpus, MaskedBatch, PretrainingBatches, Rows, mask_rows
from benchmarks.encoders.recipe import Recipe, WordStart
from cse_train.distributed import device
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.masked_lm import MaskedLMHead
from cse_train.evaluate.embedding import evaluating
from cse_train.numerics import Diverged, autocast

LOSS_LIMIT = 1.5
"""Largest loss that is no divergence, in multiples of the loss of uniform guessing; a model begins near 1."""
BANDS = (0, 64, 128, 256, 512)
"""Borders of the position bands whose held-out loss the card reports."""
EVALUATED_RUNS, EVALUATED_SENTENCES = 4, 64
"""Rows in one evaluation batch, of runs of text and of single sentences."""


class FactorisedEmbedding(nn.Module):
    """Replacement for an encoder's `nn.Embedding` [V, H] while it is pretrained: a product [V, D] x [D, H]."""

    def __init__(self, factor_VD: Tensor, map_DH: Tensor) -> None:
        super().__init__()
        self.factor_VD = nn.Parameter(factor_VD)
        self.map_DH = nn.Parameter(map_DH)

    @property
    def weight(self) -> Tensor:
        """Product of the factors: the whole table [V, H]."""
        return self.factor_VD @ self.map_DH

    def forward(self, ids_T: Tensor) -> Tensor:
        return nn.functional.embedding(ids_T, self.factor_VD) @ self.map_DH


class MaskedLM(nn.Module):
    """Encoder and tied head; `forward` returns the mean loss over masked positions and the logits [M, V].

    With a `cls_task` it has a classifier of [CLS] too, whose loss over the pairs of a batch is added. `start` makes the
    word embeddings a product of word vectors and a map.
    """

    def __init__(self, recipe: Recipe, vocab_size: int, start: WordStart | None = None) -> None:
        super().__init__()
        torch.manual_seed(recipe.seed)
        generator = torch.Generator().manual_seed(recipe.seed)
        width = recipe.width
        config = BertConfig(
            vocab_size=vocab_size,
            hidden_size=width,
            num_hidden_layers=recipe.layers,
            num_attention_heads=max(2, width // 64),
            intermediate_size=4 * width,
            max_position_embeddings=recipe.max_positions,
            hidden_dropout_prob=recipe.dropout,
            attention_probs_dropout_prob=recipe.dropout,
            pad_token_id=0,
        )
        self.encoder = Encoder(config)
        self.head = MaskedLMHead(config)
        self.encoder.initialise(generator)
        with torch.no_grad():
            self.head.transform.weight.normal_(0.0, config.initializer_range, generator=generator)
            self.head.transform.bias.zero_()
        pairs = recipe.cls_task != "none"
        self.follows = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)) if pairs else None
        if start is not None:
            map_DH = start.projection_DH(width, recipe.seed)
            others = torch.Generator().manual_seed(recipe.seed)
            factor_VD = torch.normal(0.0, 0.02, (vocab_size, len(map_DH)), generator=others)
            factor_VD[start.ids_K] = start.vectors_KD
            self.encoder.word = FactorisedEmbedding(factor_VD, map_DH)

    def forward(self, batch: MaskedBatch) -> tuple[Tensor, Tensor]:
        hidden = self.encoder(batch.packed, tokens=True)
        logits = self.head(hidden.last_TH[batch.at_M], self.encoder.word.weight)
        loss = F.cross_entropy(logits.float(), batch.target_M)
        if batch.pairs is not None:
            at_P, follows_P = batch.pairs
            logit_P = self.follows(hidden.cls_VNH[0])[at_P].squeeze(1)
            loss = loss + F.binary_cross_entropy_with_logits(logit_P.float(), follows_P)
        return loss, logits


def train(
    recipe: Recipe,
    corpus: Corpus,
    start: WordStart | None,
    every: int = 2_000_000,
    report: Callable[[MaskedLM, int, float], None] = lambda *point: None,
) -> MaskedLM:
    """Trains in bf16 autocast where the device multiplies in bf16; `report` gets model, tokens and mean loss at times.

    Raises Diverged for a loss that is no number, or far above that of uniform guessing.
    """
    model = MaskedLM(recipe, corpus.vocab_size, start).to(device())
    matrices, vectors = ([p for p in model.parameters() if (p.ndim > 1) is many] for many in (True, False))
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), fused=True)
    batches = iter(PretrainingBatches(corpus, recipe, np.random.default_rng(recipe.seed)))
    tokens = 0
    while tokens < recipe.tokens:
        until, losses = min(recipe.tokens, (tokens // every + 1) * every), list[Tensor]()
        model.train()
        while tokens < until:
            batch = next(batches)
            for group in optimiser.param_groups:
                group["lr"] = recipe.rate(tokens + 1)
            losses.append(_step(model, optimiser, batch, start if tokens < recipe.frozen * recipe.tokens else None))
            tokens += batch.tokens
        loss = float(np.mean([float(value) for value in losses]))  # waits for a card, which no step does
        _require_learning(loss, corpus, f"after {tokens} tokens")
        report(model, tokens, loss)
    word = model.encoder.word
    if start is not None:  # the factors, multiplied out
        model.encoder.word = nn.Embedding.from_pretrained(word.weight.detach(), padding_idx=0)
    return model


def _step(model: MaskedLM, optimiser: torch.optim.Optimizer, batch: MaskedBatch, frozen: WordStart | None) -> Tensor:
    """Trains on one batch, and leaves the rows of `frozen` as they are; returns its loss."""
    place = model.head.bias.device
    with autocast(place, "bf16"):
        loss, _ = model(batch.to(place))
    loss.backward()
    if frozen is not None:
        rows, ids_K = model.encoder.word.factor_VD, frozen.ids_K.to(place)
        rows.grad[ids_K] = 0.0
        frozen_rows = rows.detach()[ids_K]
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    if frozen is not None:  # weight decay reaches rows without a gradient too
        with torch.no_grad():
            rows[ids_K] = frozen_rows
    optimiser.zero_grad()
    return loss.detach()


def _require_learning(loss: float, corpus: Corpus, where: str) -> None:
    guessing = math.log(corpus.vocab_size)
    if not loss <= LOSS_LIMIT * guessing:
        raise Diverged(f"loss is {loss:.4g} {where}, guessing has {guessing:.3g}; lower learning_rate")


def held_out_report(model: MaskedLM, corpus: Corpus, recipe: Recipe) -> dict[str, object]:
    """Returns loss (nats) and accuracy on the text's last `held_out` sentences, run together and one by one.

    The masks come from a generator of their own, so that every model of a vocabulary is asked the same questions.
    """
    first, width = len(corpus.starts) - recipe.held_out, recipe.max_positions
    # Rows of `width` tokens; a shorter rest is left out unless it is all there is.
    begin = int(corpus.starts[first])
    starts = np.array(range(begin, max(len(corpus.flat) - width + 3, 1), width - 2) or [begin])
    runs = [corpus.runs(part, width) for part in _parts(starts, EVALUATED_RUNS)]
    losses, right, positions = _predict(model, runs, corpus, recipe)
    _require_learning(float(losses.mean()), corpus, "on the held-out text")
    bands = []
    for low, high in pairwise(BANDS):
        inside = (positions >= low) & (positions < high)
        means = {"loss": _mean(losses[inside]), "accuracy": _mean(right[inside])}
        bands.append({"from": low, "to": high, "predictions": int(inside.sum()), **means})
    report = {"sentences": recipe.held_out, "loss": _mean(losses), "accuracy": _mean(right), "bands": bands}
    parts = _parts(np.arange(first, len(corpus.starts)), EVALUATED_SENTENCES)
    losses, right, _ = _predict(model, [corpus.sentences(part, recipe.max_sentence) for part in parts], corpus, recipe)
    single = {"loss": _mean(losses), "accuracy": _mean(right), "predictions": len(losses)}
    return report | {"single_sentences": single}


def _parts(rows: np.ndarray, at_once: int) -> Iterator[np.ndarray]:
    return (rows[at : at + at_once] for at in range(0, len(rows), at_once))


def _mean(values: np.ndarray) -> float | None:
    return round(float(values.mean()), 4) if len(values) else None


@torch.inference_mode()
def _predict(model: MaskedLM, parts: Sequence[Rows], corpus: Corpus, recipe: Recipe) -> Sequence[np.ndarray]:
    """Returns for each masked token: loss, True if the first guess is right, position."""
    rng, place = np.random.default_rng(recipe.seed + 1), model.head.bias.device
    answers = []
    with evaluating(model):
        for rows in parts:
            batch = mask_rows(rows, corpus, recipe.mask_ratio, rng)
            masked = batch.to(place)
            _, logits = model(masked)
            losses = F.cross_entropy(logits, masked.target_M, reduction="none")
            right = logits.argmax(1) == masked.target_M
            answers.append((losses.cpu(), right.cpu(), batch.packed.positions_T[batch.at_M]))
    return [torch.cat(kind).numpy() for kind in zip(*answers, strict=True)]
