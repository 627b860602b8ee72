"""Evaluates a pretrained encoder: held-out masked-LM loss by position, and STS-B dev without any training.

Shape suffixes: M masked positions, H width.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from cse_train.encoder.encoder import Encoder
from cse_train.evaluate.embedding import evaluating
from cse_train.evaluate.pairs import Pairs
from cse_train.evaluate.sts import StsEvaluator
from cse_train.modules.pooling import make_pooled
from cse_train.pretrain.config import PretrainConfig
from cse_train.pretrain.corpus import Corpus, Rows, mask_rows
from cse_train.pretrain.run import MaskedLM, require_learning, require_masked

BANDS = (0, 64, 128, 256, 512)
"""Borders of the position bands whose held-out loss the card reports."""
DEV_POOLERS = ("cls_no_mlp", "mean", "first_last")
EVALUATION_ROWS = {"documents": 4, "sentences": 64}
"""Number of rows in one evaluation batch, for runs of text and for single sentences."""


def report_held_out(model: MaskedLM, corpus: Corpus, config: PretrainConfig) -> dict[str, object]:
    """Returns loss (nats) and accuracy on the corpus' last `held_out` sentences, run together and one by one.

    The masks come from a generator of their own, so that every model of a vocabulary is asked the same questions.
    """
    first = len(corpus.starts) - config.held_out
    # Rows of `width` tokens; a shorter rest is left out unless it is all there is.
    begin, width = int(corpus.starts[first]), config.max_positions
    starts = range(begin, max(len(corpus.flat) - width + 3, 1), width - 2) or [begin]
    at_once = EVALUATION_ROWS["documents"]
    runs = [corpus.runs(np.array(starts[row : row + at_once]), width) for row in range(0, len(starts), at_once)]
    losses, right, positions = _predict(model, runs, corpus, config)
    require_learning(float(losses.mean()), corpus.vocab_size, "on the held-out text")
    bands = [_band(low, high, losses, right, positions) for low, high in pairwise(BANDS)]
    report = {"sentences": config.held_out, "loss": losses.mean(), "accuracy": right.mean(), "bands": bands}
    rows, at_once = np.arange(first, len(corpus.starts)), EVALUATION_ROWS["sentences"]
    single = [corpus.sentences(rows[row : row + at_once], config.max_sentence) for row in range(0, len(rows), at_once)]
    losses, right, _ = _predict(model, single, corpus, config)
    by_itself = {"loss": losses.mean(), "accuracy": right.mean(), "predictions": len(losses)}
    return dict(_round(report | {"single_sentences": by_itself}))


def dev_scores(encoder: Encoder, tokenizer: Any, pairs: Pairs) -> dict[str, float | None]:
    """Returns Spearman x 100 of the untrained poolers on a graded set, None where all cosines are equal.

    Leaves mode and random state as they were. Raises NotFinite.
    """
    evaluator = StsEvaluator(pairs, tokenizer)
    with evaluating(encoder):
        device = next(encoder.parameters()).device
        scores = {name: evaluator(make_pooled(encoder, name), device).spearman for name in DEV_POOLERS}
        return {name: None if math.isnan(score) else round(score, 2) for name, score in scores.items()}


@torch.inference_mode()
def _predict(
    model: MaskedLM, parts: Sequence[Rows], corpus: Corpus, config: PretrainConfig
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns for each masked token: loss, True if the first guess is right, position."""
    rng, device = np.random.default_rng(config.seed + 1), model.head.bias.device
    answers = []
    with evaluating(model):
        for rows in parts:
            batch = mask_rows(rows, corpus, config.mask_ratio, rng)
            if len(batch.at_M):
                masked = batch.to(device)
                _, logits = model(masked)
                losses = F.cross_entropy(logits, masked.target_M, reduction="none")
                right = logits.argmax(1) == masked.target_M
                answers.append((losses.cpu(), right.cpu(), batch.packed.positions_T[batch.at_M]))
    require_masked(answers, config)
    all_losses, all_right, all_positions = (torch.cat(kind).numpy() for kind in zip(*answers, strict=True))
    return all_losses, all_right, all_positions


def _band(low: int, high: int, losses: np.ndarray, right: np.ndarray, positions: np.ndarray) -> dict[str, object]:
    inside = (positions >= low) & (positions < high)
    if not inside.any():
        return {"from": low, "to": high, "predictions": 0, "loss": None, "accuracy": None}
    means = {"loss": losses[inside].mean(), "accuracy": right[inside].mean()}
    return {"from": low, "to": high, "predictions": int(inside.sum()), **means}


def _round(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _round(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_round(inner) for inner in value]
    return round(float(value), 4) if isinstance(value, float | np.floating) else value
