"""What one run is (`RunConfig`) and where its inputs lie on this machine (`DataPaths`); only the first is identity."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cse_train import fields, methods
from cse_train.fields import ConfigError, Range, Scalar


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What every method shares; the defaults are the papers' where they agree."""

    encoder: str = "wiki-l4-h128"
    """Starting weights: a shipped encoder's name, a folder, or a hub model's name."""
    corpus: str = "wiki"
    """Training text: wiki, documents, nli, snli, pairs:NAME, generated, file, hf:NAME[:SPLIT[:COLUMN]]."""
    dev: str = "sts_dev"
    """The set whose Spearman correlation picks the checkpoint; never a test set."""
    max_seq_length: Annotated[int, Range(low=4, high=512)] = 32
    """Tokens of a training sentence kept, special tokens included."""
    dev_max_length: Annotated[int, Range(low=4, high=512)] = 512
    """Tokens of a dev sentence kept, special tokens included."""
    examples: Annotated[int, Range(low=1)] = 1_000_000
    """Training examples in all, over as many epochs as that takes; the ragged last batch of an epoch is dropped."""
    batch_size: Annotated[int, Range(low=2)] = 64
    """Examples in one optimiser step over all ranks."""
    learning_rate: Annotated[float, Range(above=0)] = 3e-5
    """Peak rate of AdamW."""
    warmup_ratio: Annotated[float, Range(low=0, below=1)] = 0.0
    """Share of the steps in linear warm-up; the rest falls linearly to 0."""
    schedule: Literal["linear", "slanted_triangular"] = "linear"
    """Linear fall to 0 after the warm-up, or DeCLUTR's slanted triangle, which has a warm-up of its own."""
    length_buckets: str | None = None
    """Upper word counts of buckets, as "4" or "3,4,5,6,7", inside which batches are drawn; null draws from all."""
    weight_decay: Annotated[float, Range(low=0)] = 0.0
    """Decay of matrices; none on biases and LayerNorm."""
    adam_beta1: Annotated[float, Range(low=0, below=1)] = 0.9
    """First-moment decay."""
    adam_beta2: Annotated[float, Range(low=0, below=1)] = 0.999
    """Second-moment decay."""
    adam_epsilon: Annotated[float, Range(above=0)] = 1e-8
    """Denominator term."""
    max_grad_norm: Annotated[float, Range(above=0)] | None = 1.0
    """Gradient norm is clipped to this; null for off."""
    dropout: Annotated[float, Range(low=0, below=1)] | None = None
    """Hidden and attention dropout of the encoder; null keeps the encoder's own."""
    evaluations: Annotated[int, Range(low=1)] = 125
    """Dev evaluations, evenly spaced in examples; hold it equal across cells, because a best-of-N grows with N."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of the encoder; the loss and the evaluation are always fp32."""
    seed: Annotated[int, Range(low=0)] = 0
    """Seed of data order, dropout, augmentation and new weights, each drawn from a generator of its own."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One run: a method's name, its own configuration and the shared one."""

    method: str
    train: TrainConfig
    options: Any
    """The method's frozen `Config`."""

    def flat(self) -> dict[str, Scalar]:
        """Dotted keys, every default spelled out: the form that YAML, ledger and tables speak."""
        parts = (("train", self.train), ("method", self.options))
        names = ((part, config, field.name) for part, config in parts for field in dataclasses.fields(config))
        return {"method": self.method} | {f"{part}.{name}": getattr(config, name) for part, config, name in names}


def parse_run(flat: Mapping[str, object]) -> RunConfig:
    """Build a run from dotted keys (`method`, `train.*`, `method.*`); ConfigError lists every problem at once."""
    problems = run_problems(flat)
    if problems:
        raise ConfigError(problems)
    method = str(flat["method"])
    train = fields.made(TrainConfig, _under(flat, "train."))
    options = fields.made(methods.config_module(method).Config, _under(flat, "method."))
    return RunConfig(method=method, train=train, options=options)


def run_problems(flat: Mapping[str, object]) -> list[str]:
    """Every problem of a run's dotted keys: unknown method or key, wrong type, value out of range."""
    method = flat.get("method")
    if method in methods.names():
        problems = fields.problems(methods.config_module(str(method)).Config, _under(flat, "method."), "method.")
    else:
        problems = [f"unknown method: method={method}; {fields.nearest(str(method), methods.names())}"]
    problems += fields.problems(TrainConfig, _under(flat, "train."), "train.")
    problems += _bucket_problems(flat.get("train.length_buckets"))
    others = [key for key in flat if key != "method" and not key.startswith(("train.", "method."))]
    return problems + [f"unknown key: {k}={flat[k]}; {fields.nearest(k, valid_keys(str(method)))}" for k in others]


def bucket_edges(text: str) -> list[int]:
    """The edges that `train.length_buckets` lists; ValueError unless they are rising positive numbers."""
    edges = [int(part) for part in text.split(",")]
    if edges != sorted(set(edges)) or edges[0] < 1:
        raise ValueError(text)
    return edges


def _bucket_problems(value: object) -> list[str]:
    try:
        if isinstance(value, str):
            bucket_edges(value)
        return []
    except ValueError:
        return [f"wrong buckets: train.length_buckets={value}; give rising word counts such as 3,4,5,6,7, or null"]


def valid_keys(method: str) -> list[str]:
    """Every dotted key that a run of `method` may set; only the shared ones for an unknown method."""
    options = fields.hints(methods.config_module(method).Config) if method in methods.names() else ()
    return ["method", *(f"train.{k}" for k in fields.hints(TrainConfig)), *(f"method.{k}" for k in options)]


def _under(flat: Mapping[str, object], prefix: str) -> dict[str, object]:
    return {k.removeprefix(prefix): v for k, v in flat.items() if k.startswith(prefix)}
