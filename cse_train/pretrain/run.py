"""The training loop of a pretraining run, with everything needed to go on."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertConfig

from cse_train.encoder.encoder import Encoder
from cse_train.encoder.masked_lm_head import MaskedLMHead
from cse_train.encoder.packing import Packed
from cse_train.fields import Json
from cse_train.numerics import autocast, multiplies_bf16
from cse_train.pretrain.config import PretrainConfig, bert_config, learning_rate
from cse_train.pretrain.corpus import Corpus, PretrainingBatches

BF16 = "bf16 autocast, fp32 weights"


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
class Run:
    """Everything a pretraining run needs to go on: model, optimiser, generators and position."""

    config: PretrainConfig
    model: MaskedLM
    optimiser: torch.optim.Optimizer
    batches: PretrainingBatches
    tokens: int = 0
    seconds: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def start(cls, config: PretrainConfig, corpus: Corpus) -> "Run":
        """A run at token 0. Seeds torch's global generator, which dropout draws from."""
        torch.manual_seed(config.seed)
        model = MaskedLM(bert_config(config, corpus.vocab_size), torch.Generator().manual_seed(config.seed))
        matrices = [p for p in model.parameters() if p.ndim > 1]
        vectors = [p for p in model.parameters() if p.ndim == 1]
        groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), fused=True)
        return cls(config, model, optimiser, PretrainingBatches(corpus, config, np.random.default_rng(config.seed)))

    def state(self) -> Json:
        """Everything `load` needs; readable by `torch.load(weights_only=True)`."""
        return {
            "config": asdict(self.config),
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rng": self.batches.rng.bit_generator.state,
            "queue": torch.tensor(self.batches.queue),
            "torch_rng": torch.get_rng_state(),
            "tokens": self.tokens,
            "seconds": self.seconds,
            "log": self.log,
        }

    def load(self, state: Json) -> None:
        """Go on where `state` was taken."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.batches.rng.bit_generator.state = state["rng"]
        self.batches.queue = state["queue"].tolist()
        torch.set_rng_state(state["torch_rng"])
        self.tokens, self.seconds, self.log = state["tokens"], state["seconds"], state["log"]

    def train_until(self, tokens: int) -> None:
        """Train to `tokens` tokens, in bf16 autocast where this CPU multiplies in bf16, and note the mean loss."""
        self.model.train()
        begun, losses = time.perf_counter(), []
        for packed, at_M, target_M, count in self.batches:
            losses.append(self._step(packed, at_M, target_M))
            self.tokens += count
            if self.tokens >= tokens:
                break
        self.seconds += time.perf_counter() - begun
        self.log.append(
            {
                "tokens": self.tokens,
                "seconds": round(self.seconds),
                "loss": float(np.mean(losses)),
                "precision": BF16 if multiplies_bf16() else "fp32",
            }
        )

    def _step(self, packed: Packed, at_M: Tensor, target_M: Tensor) -> float:
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.config, self.tokens + 1)
        with autocast(torch.device("cpu"), "bf16"):
            loss, _ = self.model(packed, at_M, target_M)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return float(loss.item())
