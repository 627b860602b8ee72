"""Configuration of one run (`RunConfig`): its settings, their checks, and dotted keys for YAML, ledger and tables."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cse_train import fields, methods
from cse_train.fields import Added, ConfigError, Range, Scalar, Settings
from cse_train.plugins.config import find_later, note_first
from cse_train.plugins.options import Options
from cse_train.text.vector_files import VECTORS_ADVICE, names_vectors

ADDED = {
    "adamw": Added("torch"),
    "optimiser": Added("adamw"),
    "decay_on": Added("matrices"),
    "prompt": Added(None),
    "graph": Added("off"),
}
"""Shared settings that were added after the first release, with what runs did before.

A method lists its own in `Options.ADDED` (`cse_train.plugins.options`).
"""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Training settings that all methods share; the defaults are the papers' where the papers agree."""

    encoder: str = "words-l4-h128"
    """Starting weights: a shipped encoder's name, a folder, or a hub model's name.

    For a method that reads word vectors: a file of them, .txt or .vec, or glove-6b-50d, the extra `glove`.
    """
    corpus: str = "wiki"
    """Training text: wiki, documents, nli, snli, pairs:NAME, target:SET, generated, file, hf:NAME[:SPLIT[:COLUMN]]."""
    dev: str = "sts_dev"
    """Dev set whose score picks the checkpoint (rated pairs: Spearman correlation); never a test set."""
    max_seq_length: Annotated[int, Range(low=4, high=512)] = 32
    """Tokens of a training sentence that are kept, special tokens included."""
    dev_max_length: Annotated[int, Range(low=4, high=512)] = 512
    """Tokens of a dev sentence that are kept, special tokens included."""
    examples: Annotated[int, Range(low=1)] | str = 1_000_000
    """Length of a run: training examples in all, or epochs such as "3 epochs", passes over the rows of the corpus.

    The examples come in as many epochs as they take; the ragged last batch of an epoch is dropped.
    """
    batch_size: Annotated[int, Range(low=2)] = 64
    """Examples in one optimiser step over all ranks."""
    learning_rate: Annotated[float, Range(above=0)] = 3e-5
    """Peak learning rate of the optimiser."""
    warmup_ratio: Annotated[float, Range(low=0, below=1)] = 0.0
    """Share of the optimiser steps in linear warm-up; the other steps follow `schedule`."""
    schedule: Literal["linear", "slanted_triangular", "constant", "plateau", "five_steps"] = "linear"
    """Learning rate after the warm-up.

    linear falls to 0, constant stays at the peak. slanted_triangular is DeCLUTR's, which has a warm-up of its own.
    plateau is InferSent's: times 0.99 at each dev evaluation, and a fifth of it where the score is no new best.
    five_steps is CT's: 1, 0.8, 0.6, 0.4 of the peak for a tenth of the run each, and 0.2 for the rest.
    """
    length_buckets: str | None = None
    """Upper word counts of length buckets, as "4" or "3,4,5,6,7": a batch comes from one bucket. null: no buckets."""
    weight_decay: Annotated[float, Range(low=0)] = 0.0
    """Weight decay of the parameters that `decay_on` names."""
    decay_on: Literal["matrices", "all"] = "matrices"
    """Parameters that decay: all but biases and LayerNorm, or all (the releases of Mirror-BERT and BERT-flow)."""
    optimiser: Literal["adamw", "sgd"] = "adamw"
    """Optimiser: AdamW, or plain stochastic gradient descent without momentum, as InferSent's."""
    adam_beta1: Annotated[float, Range(low=0, below=1)] = 0.9
    """Decay rate of Adam's first moment."""
    adam_beta2: Annotated[float, Range(low=0, below=1)] = 0.999
    """Decay rate of Adam's second moment."""
    adam_epsilon: Annotated[float, Range(above=0)] = 1e-8
    """Epsilon in the denominator of Adam's update."""
    adamw: Literal["transformers", "uncorrected", "uncorrected_bert", "torch"] = "transformers"
    """Variant of AdamW; they differ in bias correction, and in where epsilon and weight decay enter.

    transformers is that of transformers 4.2.1, which the papers' releases use; uncorrected the same without bias
    correction (DeCLUTR, SBERT and what grew out of its release); uncorrected_bert BERT's own, without correction too
    (BERT-flow). torch's adds epsilon after the bias correction. It and BERT's decay the weight before the update, the
    others after it.
    """
    max_grad_norm: Annotated[float, Range(above=0)] | None = 1.0
    """Largest norm of the gradient, to which a larger one is clipped; null for no clipping."""
    dropout: Annotated[float, Range(low=0, below=1)] | None = None
    """Rate of all dropout on the encoder's hidden states and attention weights; null keeps the encoder's own rates."""
    prompt: str | None = None
    """Name of the prompt, of a sentence-transformers folder, in front of every text, or none for no prompt.

    It stands there in training and evaluation. null takes the folder's default, as that library does. Its tokens count
    among `max_seq_length`.
    """
    evaluations: Annotated[int, Range(low=1)] = 125
    """Number of dev evaluations, evenly spaced in examples.

    Hold it equal across cells, because a best-of-N grows with N.
    """
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"] = "fp32"
    """Arithmetic of the encoder; the loss and the evaluation are always fp32.

    auto is bf16 on a GPU that computes it, and else fp32; tf32 is fp32 on a CPU; fp16, whose loss is scaled, is for
    GPUs without bf16.
    """
    graph: Literal["off", "auto"] = "off"
    """Use of torch.compile: off, or auto, which on a GPU fuses what each layer computes behind its attention."""
    seed: Annotated[int, Range(low=0)] = 0
    """Seed of data order, dropout, augmentation and new weights, each drawn from a generator of its own."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Configuration of one run: the method's name, the method's own options and the shared training settings."""

    method: str
    train: TrainConfig
    options: Options
    """Options of the method: an instance of its frozen `Config`."""

    def flat(self) -> dict[str, Scalar]:
        """Returns the run as dotted keys with every default spelled out: the form of YAML, ledger and tables."""
        names = self.options.SHARED
        options: Any = type(self.options)
        shared = [(self.train, *pair) for pair in _names("train.", TrainConfig) if names is None or pair[1] in names]
        own_options: list[tuple[Any, str, str]] = [(self.options, *pair) for pair in _names(options.PREFIX, options)]
        return {"method": self.method} | {key: getattr(config, name) for config, key, name in [*shared, *own_options]}


@functools.cache
def _names(part: str, config: Any) -> tuple[tuple[str, str], ...]:
    """Returns (dotted key, field name) of each field of a configuration class."""
    return tuple((part + field.name, field.name) for field in dataclasses.fields(config))


def parse_run(flat: Mapping[str, object]) -> RunConfig:
    """Builds a run from dotted keys (`method`, `train.*`, `method.*`); ConfigError lists every problem at once."""
    problems = run_problems(flat)
    if problems:
        raise ConfigError(problems)
    method = str(flat["method"])
    config = methods.config_class(method)
    train = fields.make_checked(TrainConfig, {**(config.SHARED or {}), **_select(flat, "train.")})
    return RunConfig(method=method, train=train, options=fields.make_checked(config, _select_options(flat, config)))


def complete(flat: Settings) -> dict[str, Scalar]:
    """Returns a stored run's dotted keys, with settings that are newer than the run at what was done before them."""
    return {key: later.before for key, later in _find_added(flat).items()} | dict(flat)


def pooler_of(flat: Settings) -> str | None:
    """Returns the pooler of a run's embeddings: its option `pooler`, or that which its method always has.

    None for an embedding of another kind, and for a method that is not known here.
    """
    if "method.pooler" in flat or not methods.is_known(flat.get("method")):
        return None if (pooler := flat.get("method.pooler")) is None else str(pooler)
    return methods.config_class(str(flat["method"])).POOLER


def renew(flat: Settings) -> dict[str, Scalar]:
    """Returns a stored run's dotted keys, with settings that are newer than the run at today's defaults."""
    parts: list[tuple[str, Any]] = [("train.", TrainConfig)]
    if methods.is_known(flat.get("method")):
        config = methods.config_class(str(flat["method"]))
        parts.append((config.PREFIX, config))
    defaults: dict[str, Any] = {
        prefix + field.name: field.default for prefix, part in parts for field in dataclasses.fields(part)
    }
    return {key: defaults[key] for key in _find_added(flat)} | dict(flat)


def effective(flat: Settings) -> dict[str, Scalar]:
    """Returns dotted keys without settings that were added later and change nothing.

    Equal runs of earlier and present versions then have equal keys.
    """
    later = _find_added(flat)
    return {key: value for key, value in flat.items() if key not in later or later[key].counts(value, flat)}


def _find_added(flat: Settings) -> dict[str, Added]:
    """Returns the settings of a run that were added later, by dotted key; only shared ones for an unknown method.

    `within` of each is a dotted key too.
    """
    method = str(flat.get("method"))
    parts: list[tuple[str, str, type, Mapping[str, Added]]] = [("train.", "train", TrainConfig, ADDED)]
    if methods.is_known(method):
        config = methods.config_class(method)
        parts = [] if config.SHARED is not None else parts
        parts.append((config.PREFIX, method, config, config.ADDED))
    dotted = [_dot_keys(prefix, part, config, tuple(added.items())) for prefix, part, config, added in parts]
    return {name: later for fields_of in dotted for name, later in fields_of.items()}


@functools.cache
def _dot_keys(prefix: str, part: str, config: Any, added: tuple[tuple[str, Added], ...]) -> Mapping[str, Added]:
    """Returns the fields of `train` or of one method that were added later, by dotted key.

    `within` of each is a dotted key too.
    """
    later = find_later(part, config, dict(added))
    return {prefix + name: Added(field.before, field.within and prefix + field.within) for name, field in later.items()}


def note_first_fields() -> None:
    """Adds methods that first_fields.json does not list to it, with their fields; existing lists never change."""
    parts: dict[str, tuple[Any, Mapping[str, Added]]] = {"train": (TrainConfig, ADDED)}
    for name in methods.list_methods():
        config = methods.config_class(name)
        parts[name] = config, config.ADDED
    note_first(
        {
            part: [field.name for field in dataclasses.fields(config) if field.name not in added]
            for part, (config, added) in parts.items()
        }
    )


def run_problems(flat: Mapping[str, object]) -> list[str]:
    """Returns every problem of a run's dotted keys: unknown method or key, wrong type, value out of range."""
    method = flat.get("method")
    if line := methods.unknown(method):
        problems = [line]
    else:
        config = methods.config_class(str(method))
        problems = fields.problems(config, _select_options(flat, config), config.PREFIX)
        if config.SHARED is not None:
            return problems + _own_loop_problems(flat, str(method), config.SHARED)
    problems += fields.problems(TrainConfig, _select(flat, "train."), "train.")
    problems += _encoder_problems(flat)
    for key, (parse, rule, advice) in TEXT_SETTINGS.items():
        value = flat.get(key)
        try:
            if isinstance(value, str):
                parse(value)
        except ValueError:
            problems.append(f"{rule}: {key}={value}; {advice}")
    unknown_keys = [key for key in flat if key != "method" and not key.startswith(("train.", "method."))]
    return problems + [
        f"unknown key: {fields.brief(k)}={fields.brief(str(flat[k]))}; {fields.nearest(k, valid_keys(str(method)))}"
        for k in unknown_keys
    ]


def _own_loop_problems(flat: Mapping[str, object], method: str, shared: Mapping[str, Scalar]) -> list[str]:
    """Returns a line for each shared setting that a method with its own training loop has not, or has fixed otherwise.

    Any valid seed is accepted.
    """
    values = {name: value for name, value in _select(flat, "train.").items() if value != shared.get(name, not value)}
    problems = fields.problems(TrainConfig, {name: values.pop(name) for name in ("seed",) if name in values}, "train.")
    has = f"method={method} has {', '.join(valid_keys(method)[1:])}"
    return problems + [f"no such setting: train.{name}={fields.brief(str(v))}; {has}" for name, v in values.items()]


def _encoder_problems(flat: Mapping[str, object]) -> list[str]:
    """Returns a line where word vectors go to a method that does not read them, or a transformer to one that does."""
    method, encoder = flat.get("method"), flat.get("train.encoder")
    if not isinstance(encoder, str) or not methods.is_known(method):
        return []
    reads_words = methods.config_class(str(method)).WORDS
    if reads_words == names_vectors(encoder):
        return []
    if reads_words:
        return [f"no word vectors: train.encoder={encoder} for method={method}; {VECTORS_ADVICE}"]
    return [f"word vectors: train.encoder={encoder} for method={method}, which trains a transformer; choose one"]


EPOCHS = re.compile(r"(\d+(?:\.\d+)?) epochs?")


def epochs_in(examples: int | str) -> float | None:
    """Returns the epochs that `train.examples` asks for; None for a number of examples.

    Raises ValueError for any other text, and for 0 epochs.
    """
    if isinstance(examples, int):
        return None
    match = EPOCHS.fullmatch(examples)
    if match is None or float(match[1]) == 0:
        raise ValueError(examples)
    return float(match[1])


def count_examples(run: RunConfig, rows: Callable[[], int]) -> RunConfig:
    """Returns the run with its length as a number of examples.

    `rows()` gives the number of rows of the corpus, and is called only for a length in epochs.
    """
    epochs = epochs_in(run.train.examples)
    return run if epochs is None else set_examples(run, examples_of(epochs, rows()))


def examples_of(epochs: float, rows: int) -> int:
    """Returns the examples in `epochs` passes over `rows` rows, at least one."""
    return max(1, round(epochs * rows))


def set_examples(run: RunConfig, examples: int) -> RunConfig:
    """Returns the run with its length set to `examples`."""
    return dataclasses.replace(run, train=dataclasses.replace(run.train, examples=examples))


def steps_in(config: TrainConfig) -> int:
    """Returns the optimiser steps of a run whose length is a number of examples; the last, partial batch is dropped."""
    assert isinstance(config.examples, int), config.examples
    return max(1, config.examples // config.batch_size)


def evaluation_steps(config: TrainConfig) -> list[int]:
    """Returns the steps after which the dev set is scored, evenly spaced, the last step included."""
    total = steps_in(config)
    count = min(config.evaluations, total)
    return [round(k * total / count) for k in range(1, count + 1)]


def bucket_edges(text: str) -> list[int]:
    """Returns the edges that `train.length_buckets` lists; ValueError unless they are rising positive numbers."""
    edges = [int(part) for part in text.split(",")]
    if edges != sorted(set(edges)) or edges[0] < 1:
        raise ValueError(text)
    return edges


TEXT_SETTINGS: Mapping[str, tuple[Callable[[str], object], str, str]] = {
    "train.examples": (epochs_in, "wrong length", "give a number of examples, or epochs as in 3 epochs"),
    "train.length_buckets": (bucket_edges, "wrong buckets", "give rising word counts such as 3,4,5,6,7, or null"),
}
"""Setting that may be a text -> function that raises ValueError for a wrong one, rule, and advice of the message."""


def valid_keys(method: str) -> list[str]:
    """Returns every dotted key that a run of `method` may set; for an unknown method only the shared ones."""
    config = methods.config_class(method) if method in methods.names() else None
    shared = fields.hints(TrainConfig) if config is None or config.SHARED is None else ["seed"]
    options = [config.PREFIX + name for name in fields.hints(config)] if config else []
    return ["method", *(f"train.{name}" for name in shared), *options]


def _select_options(flat: Mapping[str, object], config: type[Options]) -> dict[str, object]:
    """Returns the method's options among a run's dotted keys, by field name."""
    if config.PREFIX:
        return _select(flat, config.PREFIX)
    return {key: value for key, value in flat.items() if key != "method" and not key.startswith("train.")}


def _select(flat: Mapping[str, object], prefix: str) -> dict[str, object]:
    return {k.removeprefix(prefix): v for k, v in flat.items() if k.startswith(prefix)}
