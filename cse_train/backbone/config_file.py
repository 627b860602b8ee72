"""Reads an encoder's config.json within limits: its sizes must be possible, and fit the size of the weights."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cse_train.backbone.folders import weight_files
from cse_train.backbone.refusals import require_encoder, require_texts_read
from cse_train.encoder.kinds import FIRST_BEHIND_PADDING, PACKED_KINDS
from cse_train.fields import ConfigError
from cse_train.reading import reading, require_size

if TYPE_CHECKING:
    from transformers import PretrainedConfig

REMEDY = "fetch the model again"
CONFIG_BYTES = 10_000_000
"""Largest size of a config.json, in bytes."""
SIZE_LIMITS = {
    "num_hidden_layers": 1_000,
    "num_attention_heads": 10_000,
    "hidden_size": 100_000,
    "intermediate_size": 1_000_000,
    "vocab_size": 10_000_000,
    "max_position_embeddings": 10_000_000,
    "type_vocab_size": 10_000,
}
"""Size in an encoder's config.json -> the largest value that it may have."""
NO_TOKEN_TYPES = ("deberta", "deberta-v2")
"""Model types that have no token types by default, and say type_vocab_size=0."""
RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob")
PACKED_RATIO = 4
"""Largest number of weights per byte of a file: weights of four bits, with room to spare."""


def read_config(folder: Path) -> "PretrainedConfig":
    """Reads the configuration of a folder in transformers' layout.

    Raises ConfigError, one line, for one that is unreadable, of an unknown type, or impossible.
    """
    from transformers import AutoConfig

    file = folder / "config.json"
    require_size(file, CONFIG_BYTES, REMEDY)
    require_encoder(folder)
    with reading("unreadable config", file, REMEDY):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    require_texts_read(config, folder)
    problems = [f"impossible config: {file}: {line}; {REMEDY}" for line in _problems(config)]
    if problems:
        raise ConfigError(problems)
    return config


def _problems(config: "PretrainedConfig") -> list[str]:
    sizes = {name: getattr(config, name, None) for name in SIZE_LIMITS}
    if config.model_type == "xlnet":  # it says -1: any number of positions
        sizes["max_position_embeddings"] = None
    minimum = dict.fromkeys(sizes, 1) | ({"type_vocab_size": 0} if config.model_type in NO_TOKEN_TYPES else {})
    lines = [
        f"{name}={value!r}, give a whole number from {minimum[name]} to {SIZE_LIMITS[name]}"
        for name, value in sizes.items()
        if value is not None and not (_is(value, int) and minimum[name] <= value <= SIZE_LIMITS[name])
    ]
    lines += [
        f"{name}={value!r}, give a number from 0 to 1"
        for name in RATES
        if (value := getattr(config, name, None)) is not None and not (_is(value, int, float) and 0 <= value < 1)
    ]
    epsilon = getattr(config, "layer_norm_eps", None)
    if epsilon is not None and not (_is(epsilon, int, float) and 0 < epsilon < math.inf):
        lines.append(f"layer_norm_eps={epsilon!r}, give a number above 0")
    width, heads, padding = sizes["hidden_size"], sizes["num_attention_heads"], getattr(config, "pad_token_id", None)
    if not lines and width and heads and width % heads:
        lines.append(f"hidden_size={width} is no multiple of num_attention_heads={heads}")
    if padding is None and config.model_type in FIRST_BEHIND_PADDING:
        lines.append("pad_token_id=None, give the ID of its padding, behind which its positions count")
    vocabulary = sizes["vocab_size"]
    if not lines and vocabulary and padding is not None and not (_is(padding, int) and 0 <= padding < vocabulary):
        lines.append(f"pad_token_id={padding!r} is outside vocab_size={vocabulary}")
    return lines


def _is(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def require_weights(config: "PretrainedConfig", folder: Path) -> None:
    """Raises ConfigError if config.json asks for far more weights than the files can hold, before any is made.

    Counted are the embeddings and one layer, which some architectures use many times; for the kinds of `Encoder` every
    layer.
    """
    width = getattr(config, "hidden_size", None) or 0
    inner = getattr(config, "intermediate_size", None) or 0
    layers = config.num_hidden_layers if config.model_type in PACKED_KINDS else 1
    narrow = getattr(config, "embedding_size", None) or width  # ALBERT's and ELECTRA's embeddings may be narrower
    rows = (getattr(config, name, None) or 0 for name in ("vocab_size", "max_position_embeddings"))
    weights = sum(rows) * narrow + layers * (4 * width * width + 2 * width * inner)
    size = sum(path.stat().st_size for path in weight_files(folder))
    if weights > PACKED_RATIO * size:
        line = f"{folder / 'config.json'} asks for {weights} weights, the files beside it have {size} bytes"
        raise ConfigError([f"incomplete weights: {line}; {REMEDY}"])


def require_fitting(name: str, pieces: int, config: "PretrainedConfig") -> None:
    """Raises ConfigError if a model's tokenizer has more pieces than its encoder has rows for them."""
    rows = getattr(config, "vocab_size", None)
    if rows is not None and pieces > rows:
        line = f"{name}: the tokenizer has {pieces} pieces, config.json vocab_size={rows}"
        raise ConfigError([f"wrong tokenizer: {line}; {REMEDY}"])
