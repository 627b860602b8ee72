"""Starting point of every method: encoder, tokenizer and, if the weights have one, the masked-LM head.

In place of a transformer, the encoder may be a table of word vectors. Shape suffixes: V rows of the table, D numbers of
a vector, N sequences, K words with a vector.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from cse_train.encoder.automodel import AutoModelEncoder, load_automodel
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.folders import (
    Prompts,
    content_hash,
    find_unsupported,
    locate,
    prompt_tokens,
    read_config,
    read_prompts,
    require_weights,
)
from cse_train.encoder.identity import load_tokenizer, load_words
from cse_train.encoder.masked_lm import MaskedLMHead
from cse_train.encoder.packing import Packed
from cse_train.encoder.transformers_io import encoder_from_transformers, head_from_transformers
from cse_train.encoder.weight_files import read_tensors, require_numbers, require_safe
from cse_train.fields import ConfigError
from cse_train.text.tokens import tokenizer_hash
from cse_train.text.vector_files import VECTORS_ADVICE, names_vectors

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase


class WordVectors(nn.Module):
    """Table of word vectors, which is not trained; a state dict holds only the hash of the file it comes from."""

    vectors_VD: Tensor
    digest: Tensor
    config = None
    """Configuration of transformers: None, because word vectors have no positions and no dropout."""

    def __init__(self, name: str, vectors_VD: Tensor, digest: str) -> None:
        super().__init__()
        self.name = name
        self.register_buffer("vectors_VD", vectors_VD, persistent=False)
        self.register_buffer("digest", torch.tensor(list(bytes.fromhex(digest)), dtype=torch.uint8))

    @property
    def width(self) -> int:
        """Number of numbers in a vector, D."""
        return self.vectors_VD.shape[1]

    def forward(self, packed: Packed) -> tuple[Tensor, Tensor]:
        """Returns vectors [K, D] of the words that have one, sequence after sequence, and their counts int64 [N].

        Both are in the order of the pack, not of the batch. Words without a vector are left out (InferSent models.py,
        prepare_samples). The marks of begin and end always have a vector, so that every sequence has two at least.
        """
        has_vector_T = packed.attended_T() & (packed.ids_T < len(self.vectors_VD))
        counts_N = torch.bincount(packed.row_T()[has_vector_T], minlength=packed.rows)
        return self.vectors_VD[packed.ids_T[has_vector_T]], counts_N

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        stored = state_dict.get(f"{prefix}digest")
        if stored is not None and not torch.equal(stored.to(self.digest.device), self.digest):
            line = f"other word vectors: train.encoder={self.name} is not the file that the run was trained with"
            raise ConfigError([f"{line}; put that file there again"])
        super()._load_from_state_dict(state_dict, prefix, *args)


NOT_BETWEEN_TOKENS = ("classif", "summary", "pooler", "head", "qa_", "token", "layer", "path")
"""Parts of the names of dropout rates for heads on top of an encoder, or for whole layers."""


class Backbone(nn.Module):
    """Encoder, tokenizer and optional masked-LM head; a module, so that a method that keeps it owns its parameters."""

    def __init__(
        self,
        name: str,
        encoder: Encoder | AutoModelEncoder | WordVectors,
        tokenizer: "PreTrainedTokenizerBase",
        head: MaskedLMHead | None = None,
        content_hash: str = "",
    ) -> None:
        super().__init__()
        self.name = name
        self.encoder = encoder
        self.head = head
        self.tokenizer = tokenizer
        self.content_hash = content_hash
        self.prompts, self.prompt = Prompts(), ""
        """Prompts of the encoder's folder, and the text of the one in use, empty for none."""
        self.tokenizer_hash = tokenizer_hash(tokenizer)

    @property
    def width(self) -> int:
        """Hidden size H of the encoder."""
        return self.encoder.width

    @property
    def config(self) -> "PretrainedConfig":
        """Transformers configuration of the encoder."""
        return self.encoder.config


def load_backbone(name: str, dropout: float | None = None, prompt: str | None = None) -> Backbone:
    """Loads a shipped encoder, a folder or a hub model in fp32.

    `dropout` replaces every rate of its dropout, and `prompt` names one of its folder's prompts in place of the
    default. BERT, RoBERTa and models with the same layers run in `Encoder`, others through `AutoModel`; a file of word
    vectors becomes `WordVectors`. Raises ConfigError, one line.
    """
    if names_vectors(name):
        if dropout:
            raise ConfigError([f"no dropout: train.dropout={dropout}; {name} holds word vectors; use null"])
        tokenizer, vectors_VD, digest = load_words(name)
        return Backbone(name, WordVectors(name, torch.from_numpy(vectors_VD), digest), tokenizer, None, digest)
    folder = locate(name)
    config = read_config(folder)
    if dropout is not None:
        rates = list(dropout_fields(config))
        if not rates and dropout:
            line = f"no dropout: train.dropout={dropout}; {name}, a {config.model_type}, has none in its config.json"
            raise ConfigError([f"{line}; use null"])
        for field in rates:
            setattr(config, field, dropout)
    encoder: Encoder | AutoModelEncoder
    if find_unsupported(config) is None:
        tensors = read_tensors(folder)
        require_weights(config, folder)
        encoder, head = read_encoder(tensors, config)
    else:
        require_safe(folder)
        require_weights(config, folder)
        encoder, head = load_automodel(folder, config), None
    require_numbers(folder, f"train.encoder={name}")
    backbone = Backbone(name, encoder, load_tokenizer(folder), head, content_hash(folder))
    backbone.prompts = read_prompts(folder)
    backbone.prompt = backbone.prompts.text(prompt, "train.prompt", f"train.encoder={name}")
    if not backbone.prompts.averaged:
        encoder.skipped = prompt_tokens(backbone.tokenizer, backbone.prompt)
    return backbone


def own_encoder(backbone: Backbone, reason: str) -> Encoder:
    """Returns the backbone's `Encoder`; raises ConfigError, which gives the `reason`, for an `AutoModel`."""
    if isinstance(backbone.encoder, Encoder):
        return backbone.encoder
    causal = " with is_decoder=True" if getattr(backbone.config, "is_decoder", False) else ""
    kind = f"{backbone.config.model_type}{causal}"
    line = f"unsupported encoder: train.encoder={backbone.name} is a {kind}, and {reason}"
    raise ConfigError([f"{line}; choose a BERT or RoBERTa model"])


def word_vectors(backbone: Backbone) -> WordVectors:
    """Returns the backbone's word vectors; raises ConfigError for a transformer."""
    if isinstance(backbone.encoder, WordVectors):
        return backbone.encoder
    raise ConfigError([f"no word vectors: train.encoder={backbone.name}; {VECTORS_ADVICE}"])


def require_head(backbone: Backbone, setting: str, instead: str) -> MaskedLMHead:
    """Returns the backbone's masked-LM head, which `setting` (name=value) needs; ConfigError if it has none."""
    if backbone.head is not None:
        return backbone.head
    line = f"no masked-LM head: {setting}, train.encoder={backbone.name}"
    raise ConfigError([f"{line}; choose an encoder that ships its head, or {instead}"])


def auxiliary_head(backbone: Backbone, weight: float | None, decoder: str) -> MaskedLMHead | None:
    """Returns the head of a masked-LM auxiliary loss with this weight; None if the weight is None.

    `decoder` is the value of `method.mlm_decoder`: tied to the word embedding, or a copy. Raises ConfigError if the
    weights have no head.
    """
    if weight is None:
        return None
    head = require_head(backbone, f"method.mlm_weight={weight}", "null")
    assert isinstance(backbone.encoder, Encoder)
    if decoder != "tied":
        head.decoder = nn.Parameter(backbone.encoder.word.weight.detach().clone())
    return head


def read_encoder(tensors: Mapping[str, Tensor], config: "PretrainedConfig") -> tuple[Encoder, MaskedLMHead | None]:
    """Builds encoder and head from a transformers state dict; ConfigError for missing or misshapen tensors."""
    try:
        return encoder_from_transformers(tensors, config), head_from_transformers(tensors, config)
    except (KeyError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[-1].strip()
        line = f"incomplete weights: model_type={config.model_type}, {reason}; the files do not fit config.json"
        raise ConfigError([line]) from error


def require_same_vocabulary(a: Backbone, b: Backbone) -> None:
    """Raises ConfigError unless two encoders read the same token ids."""
    if a.tokenizer_hash != b.tokenizer_hash:
        sizes = f"encoder={a.name} ({len(a.tokenizer)} pieces), generator={b.name} ({len(b.tokenizer)} pieces)"
        raise ConfigError([f"different vocabularies: {sizes}; choose a generator with the encoder's tokenizer"])


def dropout_fields(config: "PretrainedConfig") -> Iterator[str]:
    """Yields the names of a configuration's rates of dropout between tokens, whatever its architecture calls them."""
    for name, value in vars(config).items():
        between = "drop" in name and not any(part in name for part in NOT_BETWEEN_TOKENS)
        if between and isinstance(value, int | float) and not isinstance(value, bool):
            yield name
