"""What the benchmarks of the methods set: folders of random weights, texts, options, bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.methods.declutr import SPANS, documents
from benchmarks.step.ours import our_session
from benchmarks.step.setting import Size, encoder_folder, sentences, tokenizer

LIVE, STORED = "ours", "ours, stored edits"
RATE = 3e-5
DOCUMENTS = 8
"""Documents of a batch."""


@dataclass(frozen=True)
class Contest:
    """One method at one size: our ways of making its step, and what each must reach against the authors'."""

    method: str
    encoder: Path
    texts: Sequence[str]
    batch: int
    options: Mapping[str, object]
    work: Path
    ours: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: {LIVE: {}})
    """Name of a row -> changed options."""
    bars: Mapping[str, float] = field(default_factory=lambda: {LIVE: 3.0})
    _numbers: Any = field(default_factory=count)

    def session(self, changes: Mapping[str, object]) -> Any:
        """A new run with other options; all of a contest share their stored edits."""
        given = {"method": self.method, "train.learning_rate": RATE} | dict(self.options) | dict(changes)
        place = self.work / f"{self.method}{next(self._numbers)}"
        return our_session(self.encoder, self.texts, self.batch, place, given, cache=self.work / "cache")


def masked_lm_folder(size: Size, layers: int, folder: Path) -> Path:
    """A masked LM of this size's width with random weights."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(1)
    shape = {"hidden_size": size.width, "num_attention_heads": size.heads, "intermediate_size": 4 * size.width}
    config = BertConfig(vocab_size=30522, num_hidden_layers=layers, **shape)
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def folders(size: Size, work: Path) -> Path:
    """The folder with `encoder`, `masked`, the same size with a masked-LM head, and `generator`, half its layers."""
    encoder_folder(size, work / "encoder")
    masked_lm_folder(size, size.layers, work / "masked")
    masked_lm_folder(size, max(1, size.layers // 2), work / "generator")
    return work


def contests(method: str, size: Size, work: Path, data: Path) -> Contest:
    """The contest of DiffCSE, ESimCSE or DeCLUTR."""
    if method == "declutr":
        texts = documents(sentences(40_000, data))
        return Contest(method, work / "masked", texts, DOCUMENTS, SPANS, work, bars={LIVE: 2.0})
    texts = sentences(4096, data)
    if method == "esimcse":
        return Contest(method, work / "encoder", texts, size.batch, {}, work)
    options = {"method.generator": str(work / "generator"), "method.generator_dropout": False}
    ours: dict[str, dict[str, object]] = {LIVE: {}, STORED: {"method.edits": "stored"}}
    return Contest(
        method,
        work / "encoder",
        texts,
        size.batch,
        options,
        work,
        ours,
        {LIVE: 3.0, STORED: 6.0 if size.layers == 2 else 4.0},
    )
