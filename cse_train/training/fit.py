"""Fits a run to its encoder and its device, before the first step: what does not go together is refused or replaced."""

import functools
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import torch
from torch import nn

from cse_train import distributed, fields
from cse_train.config import RunConfig
from cse_train.encoder.backbone import Backbone, WordVectors, dropout_fields
from cse_train.encoder.card import find_lacking
from cse_train.encoder.encoder import compile_layers
from cse_train.encoder.folders import require_fitting
from cse_train.encoder.reading_order import (
    both_ends_problem,
    first_token_problem,
    has_noise,
    others_than_first,
    reads_first,
)
from cse_train.fields import ConfigError
from cse_train.numerics import has_bf16

log = logging.getLogger(__name__)

ENCODER_ADVICE = "choose another encoder, or another setting"
"""Advice that ends most messages of this module."""


def check_fit(run: RunConfig, backbone: Backbone) -> None:
    """Raises ConfigError, a line for each problem, if a run would read something else than its settings say.

    A vector at position 0 must be the text's; edits between special tokens must find them; and two views that only
    dropout distinguishes must differ. `train.dropout: 0` asks for equal views, and gets a warning. No text is read
    before this.
    """
    if isinstance(backbone.encoder, WordVectors):
        return
    require_fitting(backbone.name, len(backbone.tokenizer), backbone.config)
    if problems := list(_problems(run, backbone)):
        raise ConfigError(problems)


def _problems(run: RunConfig, backbone: Backbone) -> Iterator[str]:
    encoder = backbone.encoder
    assert not isinstance(encoder, WordVectors)
    pooler, name = run.flat().get("method.pooler"), f"train.encoder={backbone.name}"
    pooled, implied = isinstance(pooler, str) and reads_first(pooler), run.options.first_token()
    if (pooled or implied) and (reason := first_token_problem(encoder, backbone.tokenizer)):
        if pooled:
            alternatives = others_than_first(get_args(fields.hints(type(run.options))["pooler"]))
            advice = f"set method.pooler to {alternatives}" if alternatives else ENCODER_ADVICE
            yield f"no first token: method.pooler={pooler}, {name}, {reason}; {advice}"
        if implied:
            yield f"no first token: {implied}, {name}, {reason}; {ENCODER_ADVICE}"
    edges = run.train.length_buckets
    setting = run.options.both_ends() or (edges and f"train.length_buckets={edges}")
    if setting and (reason := both_ends_problem(backbone.tokenizer)):
        yield f"no special tokens: {setting}, {name}, {reason}; {ENCODER_ADVICE}"
    setting, rate = run.options.dropout_alone(), run.train.dropout
    if setting is None or has_noise(encoder, backbone.tokenizer):
        return
    line = f"no noise between the views: train.dropout={'null' if rate is None else rate}, {setting}"
    if rate == 0:
        if distributed.rank() == 0:
            log.warning("%s; both views of a text are equal", line)
    elif rate is None:
        advice = "set train.dropout=0.1" if list(dropout_fields(backbone.config)) else ENCODER_ADVICE
        yield f"{line}, {name}, whose own dropout is 0 everywhere; {advice}"
    else:
        yield f"{line}, {name}, which drops nothing out; {ENCODER_ADVICE}"


TENSOR_CORES = (7, 0)
"""First compute capability of GPUs that multiply in fp16 many times as fast as in fp32."""


def settle_precision(run: RunConfig, device: torch.device) -> RunConfig:
    """Returns the run with `train.precision: auto` replaced: bf16 if every rank's GPU has it, else fp32.

    Raises ConfigError for bf16 on a GPU that emulates it, and for fp16 on a CPU, which would be another arithmetic
    under that name. fp32 on a GPU that can do better is logged once.
    """
    setting, is_able = run.train.precision, has_bf16(device)
    if setting == "auto":
        is_shared = distributed.is_agreed(int(is_able)) and is_able  # a collective: every rank must reach it
        return replace(run, train=replace(run.train, precision="bf16" if is_shared else "fp32"))
    if setting == "fp16" and device.type == "cpu":
        raise ConfigError(["no fp16: train.precision=fp16 on a CPU; set it to fp32 or auto, or train on a GPU"])
    if device.type == "cuda":
        if setting == "bf16" and not is_able:
            line = f"no bf16: train.precision=bf16 on {torch.cuda.get_device_name(device)}, which emulates it slowly"
            raise ConfigError([f"{line}; set it to fp16"])
        if setting == "fp32" and torch.cuda.get_device_capability(device) >= TENSOR_CORES and distributed.rank() == 0:
            card, better = torch.cuda.get_device_name(device), "auto (bf16) or tf32" if is_able else "fp16"
            _warn_once(f"slow arithmetic: train.precision=fp32 on {card}; {better} is several times as fast there")
    return run


def count_every_update(optimiser: torch.optim.Optimizer, step: int) -> None:
    """Sets AdamW's step count to `step` (from 0), so that updates that a loss scaler skipped count too.

    The schedule and `set_step` count them as well. Torch's own count leaves them out, and whether one was skipped only
    the GPU knows.
    """
    counts = [state["step"] for state in optimiser.state.values() if "step" in state]
    if counts:
        torch._foreach_zero_(counts)
        torch._foreach_add_(counts, float(step))


def settle_graph(model: nn.Module, device: torch.device, setting: str) -> None:
    """Compiles the layers of `model` if `train.graph` is auto and it trains on a CUDA GPU with a working compiler.

    Without a compiler this is logged once, and the layers are computed eagerly.
    """
    if setting != "auto" or device.type != "cuda":
        return
    if missing := find_lacking():
        if distributed.rank() == 0:
            _warn_once(f"nothing compiled: train.graph=auto needs {missing}; steps are computed without it")
        return
    compile_layers(model)


@functools.cache
def _warn_once(message: str) -> None:
    """Logs once per process, however many runs the process trains."""
    log.warning(message)
