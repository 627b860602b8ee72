"""Training loop of a pretraining run, with the state that it needs to resume."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertConfig

from cse_train import distributed
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.masked_lm_head import MaskedLMHead
from cse_train.fields import ConfigError, Json
from cse_train.numerics import Diverged, autocast, multiplies_bf16
from cse_train.pretrain.config import PretrainConfig, bert_config, learning_rate
from cse_train.pretrain.corpus import Corpus, MaskedBatch, PretrainingBatches
from cse_train.pretrain.words import FactorisedEmbedding, WordStart

BF16 = "bf16 autocast, fp32 weights"
"""Name in cards of the arithmetic of training: bf16 autocast over fp32 weights."""
LOSS_LIMIT = 1.5
"""Largest loss that is no divergence, in multiples of the loss of uniform guessing; a model begins near 1."""


class MaskedLM(nn.Module):
    """Encoder and tied head; `forward` returns the mean loss over masked positions and the logits [M, vocab].

    With `pairs` it has a classifier of [CLS] too, whose loss over the pairs of a batch is added.
    """

    def __init__(self, config: BertConfig, generator: torch.Generator, *, pairs: bool = False) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.head = MaskedLMHead(config)
        self.encoder.initialise(generator)
        with torch.no_grad():
            self.head.transform.weight.normal_(0.0, config.initializer_range, generator=generator)
            self.head.transform.bias.zero_()
        width = config.hidden_size
        self.follows = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)) if pairs else None

    def forward(self, batch: MaskedBatch) -> tuple[Tensor, Tensor]:
        hidden = self.encoder(batch.packed, tokens=True)
        logits = self.head(hidden.last_TH[batch.at_M], self.encoder.word.weight)
        # torch's mean over no position is NaN, where few tokens are masked; this is 0, and has a gradient
        loss = F.cross_entropy(logits.float(), batch.target_M) if len(batch.at_M) else logits.sum()
        if batch.pairs is not None:
            assert self.follows is not None
            logit_P = self.follows(hidden.cls_VNH[0])[batch.pairs.at_P].squeeze(1)
            loss = loss + F.binary_cross_entropy_with_logits(logit_P.float(), batch.pairs.follows_P)
        return loss, logits

    def start_words(self, start: WordStart, config: PretrainConfig) -> None:
        """Sets word embeddings to word vectors, mapped to the encoder's width or kept as a product with the map."""
        table, map_DH = self.encoder.word, start.projection_DH(config.width, config.seed)
        with torch.no_grad():
            if config.factorised:
                generator = torch.Generator().manual_seed(config.seed)
                factor_VD = torch.normal(0.0, 0.02, (table.num_embeddings, len(map_DH)), generator=generator)
                factor_VD[start.ids_K] = start.vectors_KD
                self.encoder.word = FactorisedEmbedding(factor_VD, map_DH)  # type: ignore[assignment]  # reads alike
            else:
                table.weight[start.ids_K] = start.vectors_KD @ map_DH

    def multiply_words(self) -> None:
        """Replaces factorised word embeddings by their product, a table [V, H]."""
        if isinstance(self.encoder.word, FactorisedEmbedding):
            table = self.encoder.word.weight.detach()
            self.encoder.word = nn.Embedding.from_pretrained(table, padding_idx=self.encoder.config.pad_token_id)


@dataclass
class Run:
    """Pretraining run: model, optimiser, generators and position, everything that it needs to resume."""

    config: PretrainConfig
    model: MaskedLM
    optimiser: torch.optim.Optimizer
    batches: PretrainingBatches
    device: torch.device
    tokens: int = 0
    seconds: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)
    words: WordStart | None = None

    @classmethod
    def start(cls, config: PretrainConfig, corpus: Corpus, words: WordStart | None = None) -> "Run":
        """Creates a run at token 0. Seeds torch's global generator, which dropout draws from."""
        torch.manual_seed(config.seed)
        generator = torch.Generator().manual_seed(config.seed)
        model = MaskedLM(bert_config(config, corpus.vocab_size), generator, pairs=config.cls_task != "none")
        if words is not None:
            model.start_words(words, config)
        device = distributed.device()
        model.to(device)
        matrices = [p for p in model.parameters() if p.ndim > 1]
        vectors = [p for p in model.parameters() if p.ndim == 1]
        groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), fused=True)
        batches = PretrainingBatches(corpus, config, np.random.default_rng(config.seed))
        return cls(config, model, optimiser, batches, device, words=words and words.to(device))

    def state(self) -> Json:
        """Returns everything that `load` needs; readable by `torch.load(weights_only=True)`."""
        return {
            "config": asdict(self.config),
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rng": self.batches.rng.bit_generator.state,
            "queue": torch.tensor(self.batches.queue),
            "torch_rng": self._get_rng_state(),
            "tokens": self.tokens,
            "seconds": self.seconds,
            "log": self.log,
        }

    def load(self, state: Json) -> None:
        """Restores the run from a `state`."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.batches.rng.bit_generator.state = state["rng"]
        self.batches.queue = state["queue"].numpy()
        self._set_rng_state(state["torch_rng"])
        self.tokens, self.seconds, self.log = state["tokens"], state["seconds"], state["log"]

    def _get_rng_state(self) -> Tensor:
        """Returns the state of the random generator that dropout draws from."""
        return torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()

    def _set_rng_state(self, state: Tensor) -> None:
        """Sets the state of dropout's generator; ConfigError for one of another kind of device, whose draws differ."""
        if len(state) != len(self._get_rng_state()):
            line = f"another device: device={self.device.type}, and the state was begun on another kind"
            raise ConfigError([f"{line}; go on there, or choose another folder"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state, self.device)
        else:
            torch.set_rng_state(state)

    def train_until(self, tokens: int) -> None:
        """Trains to `tokens` tokens, in bf16 autocast where the device multiplies in bf16, and logs the mean loss.

        The mean is over the steps with a masked token. Raises Diverged, and ConfigError where no step has one.
        """
        self.model.train()
        start, losses = time.perf_counter(), []
        for batch in self.batches:
            loss_of_step = self._step(batch)
            losses += [loss_of_step] if len(batch.at_M) else []
            self.tokens += batch.tokens
            if self.tokens >= tokens:
                break
        require_masked(losses, self.config)
        loss = float(np.mean([float(value) for value in losses]))  # waits for a card, which no step does
        require_learning(loss, self.batches.corpus.vocab_size, f"after {self.tokens} tokens")
        self.seconds += time.perf_counter() - start
        self.log.append(
            {
                "tokens": self.tokens,
                "seconds": round(self.seconds),
                "loss": loss,
                "precision": BF16 if self.device.type != "cpu" or multiplies_bf16() else "fp32",
            }
        )

    def _step(self, batch: MaskedBatch) -> Tensor:
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.config, self.tokens + 1)
        with autocast(self.device, "bf16"):
            loss, _ = self.model(batch.to(self.device))
        loss.backward()
        frozen = self.words if self.tokens < self.config.frozen * self.config.tokens else None
        rows = self._word_rows()
        if frozen is not None and rows.grad is not None:
            rows.grad[frozen.ids_K] = 0.0
            frozen_rows = rows.detach()[frozen.ids_K]
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        if frozen is not None:  # weight decay reaches rows without a gradient too
            with torch.no_grad():
                rows[frozen.ids_K] = frozen_rows
        self.optimiser.zero_grad()
        detached: Tensor = loss.detach()
        return detached

    def _word_rows(self) -> Tensor:
        """Returns the parameter with a row per token: [V, H], or [V, D] of factorised embeddings."""
        word = self.model.encoder.word
        return word.factor_VD if isinstance(word, FactorisedEmbedding) else word.weight


def require_masked(losses: Sequence[object], config: PretrainConfig) -> None:
    """Raises ConfigError if no token was masked, so that there is no loss."""
    if not losses:
        raise ConfigError([f"nothing masked: mask_ratio={config.mask_ratio}; raise it, or give longer sentences"])


def require_learning(loss: float, vocabulary: int, where: str) -> None:
    """Raises Diverged for a loss (nats) that is no number, or far above that of uniform guessing."""
    guessing = math.log(vocabulary)
    if not loss <= LOSS_LIMIT * guessing:
        raise Diverged(f"loss is {loss:.4g} {where}, guessing has {guessing:.3g}; lower learning_rate")
