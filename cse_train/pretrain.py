"""Masked-LM pretraining of the miniature encoders that ship in `weights/`.

Two kinds of step: whole sentences as they will be met in training, and runs of consecutive sentences 512 tokens
long so that every position embedding is trained. The learning rate is constant after warm-up and falls to zero over
the last part, so a run that is continued with another total equals one that was started with it.
Shape suffixes: M masked positions, T packed slots.
"""

import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertConfig

from cse_train.modules.encoder import Encoder
from cse_train.modules.masked_lm_head import MaskedLMHead
from cse_train.modules.packing import Packed, pack, pack_lists
from cse_train.text.masking import mask_tokens

BANDS = (0, 64, 128, 256, 512)
"""Position bands whose held-out loss the card reports."""


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """One pretraining run."""

    layers: int = 4
    """Transformer layers."""
    width: int = 128
    """Hidden size H; heads are 64 wide, two at least, and the inner layer is 4 * H."""
    tokens: int = 100_000_000
    """Total training tokens, padding excluded; the horizon of the schedule."""
    batch_sentences: int = 128
    """Sentences in a short step."""
    batch_documents: int = 8
    """Rows of `max_positions` tokens in a long step."""
    long_share: float = 0.16
    """Probability that a step is a long one."""
    max_sentence: int = 64
    """Tokens of a sentence kept in a short step, special tokens included."""
    max_positions: int = 512
    """Position embeddings, and the width of a long step."""
    mask_ratio: float = 0.2
    """Share of the tokens that is predicted."""
    dropout: float = 0.1
    """Hidden and attention dropout."""
    learning_rate: float = 1e-3
    """Peak rate of AdamW."""
    weight_decay: float = 0.01
    """Decay of the matrices; none on biases and LayerNorm."""
    warmup: float = 0.02
    """Share of the tokens in linear warm-up."""
    cooldown: float = 0.3
    """Share of the tokens in the linear fall to zero."""
    held_out: int = 4000
    """Sentences at the end of the corpus that are never trained on."""
    seed: int = 0
    """Seed of weights, data order, masking and dropout."""


def bert_config(config: PretrainConfig, vocab_size: int) -> BertConfig:
    """The transformers configuration of a miniature."""
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=max(2, config.width // 64),
        intermediate_size=4 * config.width,
        max_position_embeddings=config.max_positions,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
        pad_token_id=0,
    )


class MaskedLM(nn.Module):
    """Encoder and tied head; `forward` gives the mean loss over masked positions and the logits [M, vocab]."""

    def __init__(self, config: BertConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.head = MaskedLMHead(config)
        self.encoder.initialise(generator)
        with torch.no_grad():
            self.head.transform.weight.normal_(0.0, config.initializer_range, generator=generator)
            self.head.transform.bias.zero_()

    def forward(self, packed: Packed, at_M: Tensor, target_M: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.encoder(packed, tokens=True)
        logits = self.head(hidden.last_TH[at_M], self.encoder.word.weight)
        return F.cross_entropy(logits.float(), target_M), logits


@dataclass
class Corpus:
    """Tokenised sentences in file order, without special tokens, end to end."""

    flat: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    cls_id: int
    sep_id: int
    mask_id: int
    vocab_size: int

    def sentences(self, rows: np.ndarray, longest: int) -> list[np.ndarray]:
        keep = np.minimum(self.lengths[rows], longest - 2)
        return [self._wrap(self.flat[s : s + n]) for s, n in zip(self.starts[rows], keep, strict=True)]

    def run_of_sentences(self, first_token: int, width: int) -> np.ndarray:
        return self._wrap(self.flat[first_token : first_token + width - 2])

    def _wrap(self, ids: np.ndarray) -> np.ndarray:
        return np.concatenate([[self.cls_id], ids, [self.sep_id]]).astype(np.int64)


def read_corpus(path: Path, tokenizer) -> Corpus:
    """Tokenise a plain or gzipped text file, one sentence a line."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf8") as lines:
        text = [line.strip() for line in lines if line.strip()]
    encoded = tokenizer(text, add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False)
    lengths = np.array([len(ids) for ids in encoded["input_ids"]])
    flat = np.concatenate([np.asarray(ids, dtype=np.int32) for ids in encoded["input_ids"]])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return Corpus(
        flat, starts, lengths, tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id, len(tokenizer)
    )


@dataclass
class Batches:
    """The endless stream of training batches: one generator for the data order, one for the masks."""

    corpus: Corpus
    config: PretrainConfig
    rng: np.random.Generator
    queue: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[Packed, Tensor, Tensor, int]]:
        while True:
            yield masked(self._rows(), self.corpus, self.config.mask_ratio, self.rng)

    def _rows(self) -> list[np.ndarray]:
        trained = len(self.corpus.starts) - self.config.held_out
        if self.rng.random() < self.config.long_share:
            last = self.corpus.starts[trained] - self.config.max_positions
            firsts = self.rng.integers(0, last, self.config.batch_documents)
            return [self.corpus.run_of_sentences(at, self.config.max_positions) for at in firsts]
        if len(self.queue) < self.config.batch_sentences:
            self.queue = self.rng.permutation(trained).tolist()
        taken, self.queue = self.queue[: self.config.batch_sentences], self.queue[self.config.batch_sentences :]
        return self.corpus.sentences(np.array(taken), self.config.max_sentence)


def masked(
    rows: list[np.ndarray], corpus: Corpus, ratio: float, rng: np.random.Generator
) -> tuple[Packed, Tensor, Tensor, int]:
    """Mask and pack rows: (packed, masked slots [M], their true ids [M], tokens in the batch)."""
    original = np.concatenate(rows)
    special = (original == corpus.cls_id) | (original == corpus.sep_id)
    ids, chosen = mask_tokens(
        original, ~special, ratio=ratio, mask_id=corpus.mask_id, vocab_size=corpus.vocab_size, rng=rng
    )
    lengths = np.array([len(r) for r in rows])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    packed = pack(ids, starts, lengths)
    target = pack(np.where(chosen, original, -1), starts, lengths, pad_id=-1).ids_T
    at_M = torch.nonzero(target >= 0).squeeze(1)
    return packed, at_M, target[at_M], int(lengths.sum())


def learning_rate(config: PretrainConfig, tokens: int) -> float:
    """Warm-up, constant, linear fall; a function of the tokens seen."""
    warm = min(1.0, tokens / (config.warmup * config.tokens))
    left = max(0.0, 1.0 - tokens / config.tokens)
    return config.learning_rate * min(warm, left / config.cooldown, 1.0)


@dataclass
class Run:
    """Everything a pretraining run needs to go on: model, optimiser, generators and position."""

    config: PretrainConfig
    model: MaskedLM
    optimiser: torch.optim.Optimizer
    batches: Batches
    tokens: int = 0
    seconds: float = 0.0
    log: list[dict] = field(default_factory=list)

    @classmethod
    def start(cls, config: PretrainConfig, corpus: Corpus) -> "Run":
        torch.manual_seed(config.seed)
        model = MaskedLM(bert_config(config, corpus.vocab_size), torch.Generator().manual_seed(config.seed))
        matrices = [p for p in model.parameters() if p.ndim > 1]
        vectors = [p for p in model.parameters() if p.ndim == 1]
        groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), fused=True)
        return cls(config, model, optimiser, Batches(corpus, config, np.random.default_rng(config.seed)))

    def state(self) -> dict:
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rng": self.batches.rng.bit_generator.state,
            "queue": torch.tensor(self.batches.queue),
            "torch_rng": torch.get_rng_state(),
            "tokens": self.tokens,
            "seconds": self.seconds,
            "log": self.log,
        }

    def load(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.batches.rng.bit_generator.state = state["rng"]
        self.batches.queue = state["queue"].tolist()
        torch.set_rng_state(state["torch_rng"])
        self.tokens, self.seconds, self.log = state["tokens"], state["seconds"], state["log"]

    def train_until(self, tokens: int) -> None:
        """Train to `tokens` tokens in bf16 autocast and note the mean loss."""
        self.model.train()
        begun, losses = time.perf_counter(), []
        for packed, at_M, target_M, count in self.batches:
            for group in self.optimiser.param_groups:
                group["lr"] = learning_rate(self.config, self.tokens + 1)
            with torch.autocast("cpu", torch.bfloat16):
                loss, _ = self.model(packed, at_M, target_M)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimiser.step()
            self.optimiser.zero_grad()
            losses.append(loss.item())
            self.tokens += count
            if self.tokens >= tokens:
                break
        self.seconds += time.perf_counter() - begun
        self.log.append({"tokens": self.tokens, "seconds": round(self.seconds), "loss": float(np.mean(losses))})
