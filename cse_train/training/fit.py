"""Checks that a method can use an encoder: special tokens at the ends of a text, and noise between its two views."""

import logging
from collections.abc import Iterator
from typing import get_args

from cse_train import distributed, fields
from cse_train.backbone.backbone import Backbone, dropout_fields
from cse_train.backbone.config_file import require_fitting
from cse_train.backbone.reading_order import (
    both_ends_problem,
    first_token_problem,
    has_noise,
    others_than_first,
    reads_first,
)
from cse_train.backbone.word_vectors import WordVectors
from cse_train.config import RunConfig
from cse_train.fields import ConfigError

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
    if problems := [*_first_token(run, backbone), *_both_ends(run, backbone), *_noise(run, backbone)]:
        raise ConfigError(problems)


def _first_token(run: RunConfig, backbone: Backbone) -> Iterator[str]:
    pooler = run.flat().get("method.pooler")
    pooled = isinstance(pooler, str) and reads_first(pooler)
    implied = run.options.first_token()
    if not (pooled or implied) or (reason := first_token_problem(backbone.encoder, backbone.tokenizer)) is None:
        return
    if pooled:
        alternatives = others_than_first(get_args(fields.hints(type(run.options))["pooler"]))
        advice = f"set method.pooler to {alternatives}" if alternatives else ENCODER_ADVICE
        yield f"no first token: method.pooler={pooler}, train.encoder={backbone.name}, {reason}; {advice}"
    if implied:
        yield f"no first token: {implied}, train.encoder={backbone.name}, {reason}; {ENCODER_ADVICE}"


def _both_ends(run: RunConfig, backbone: Backbone) -> Iterator[str]:
    edges = run.train.length_buckets
    setting = run.options.both_ends() or (edges and f"train.length_buckets={edges}")
    if setting and (reason := both_ends_problem(backbone.tokenizer)):
        yield f"no special tokens: {setting}, train.encoder={backbone.name}, {reason}; {ENCODER_ADVICE}"


def _noise(run: RunConfig, backbone: Backbone) -> Iterator[str]:
    setting, rate = run.options.dropout_alone(), run.train.dropout
    assert not isinstance(backbone.encoder, WordVectors)
    if setting is None or has_noise(backbone.encoder, backbone.tokenizer):
        return
    line = f"no noise between the views: train.dropout={'null' if rate is None else rate}, {setting}"
    if rate == 0:
        if distributed.rank() == 0:
            log.warning("%s; both views of a text are equal", line)
    elif rate is None:
        advice = "set train.dropout=0.1" if list(dropout_fields(backbone.config)) else ENCODER_ADVICE
        yield f"{line}, train.encoder={backbone.name}, whose own dropout is 0 everywhere; {advice}"
    else:
        yield f"{line}, train.encoder={backbone.name}, which drops nothing out; {ENCODER_ADVICE}"
