"""Settings of a pretraining run, its model's configuration and its learning rate."""

from dataclasses import dataclass
from typing import Annotated, Literal

from transformers import BertConfig

from cse_train.fields import Range


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Settings of one pretraining run."""

    layers: Annotated[int, Range(low=1)] = 4
    """Number of transformer layers."""
    width: Annotated[int, Range(low=2)] = 128
    """Hidden size H; heads are 64 wide, two at least, and the inner layer is 4 * H."""
    tokens: Annotated[int, Range(low=1)] = 100_000_000
    """Total training tokens, padding excluded, over which the schedule extends."""
    batch_sentences: Annotated[int, Range(low=1)] = 128
    """Number of sentences in a short step."""
    batch_documents: Annotated[int, Range(low=1)] = 8
    """Number of rows, of `max_positions` tokens each, in a long step."""
    long_share: Annotated[float, Range(low=0, high=1)] = 0.16
    """Probability that a step is long: `batch_documents` rows of `max_positions` tokens each."""
    max_sentence: Annotated[int, Range(low=4)] = 64
    """Tokens of a sentence that are kept in a short step, special tokens included."""
    max_positions: Annotated[int, Range(low=8)] = 512
    """Number of position embeddings, and the width of a long step."""
    mask_ratio: Annotated[float, Range(above=0, below=1)] = 0.2
    """Share of the tokens that masking chooses to predict."""
    dropout: Annotated[float, Range(low=0, below=1)] = 0.1
    """Dropout rate of hidden states and attention weights."""
    learning_rate: Annotated[float, Range(above=0)] = 1e-3
    """Peak learning rate of AdamW."""
    weight_decay: Annotated[float, Range(low=0)] = 0.01
    """Weight decay of matrices; biases and LayerNorm have none."""
    warmup: Annotated[float, Range(above=0, high=1)] = 0.02
    """Share of the tokens, at the start, over which the learning rate rises linearly."""
    cooldown: Annotated[float, Range(above=0, high=1)] = 0.3
    """Share of the tokens, at the end, over which the learning rate falls linearly to zero."""
    embeddings: str = ""
    """Word vectors from which the word embeddings start: `glove-6b-50d` or a file; empty for a random start."""
    embedding_std: Annotated[float, Range(above=0)] = 0.06
    """Standard deviation of the word embeddings that start from vectors."""
    factorised: bool = False
    """True if word embeddings are trained as vectors [V, D] times a map [D, H], and multiplied out in the weights."""
    frozen: Annotated[float, Range(low=0, high=1)] = 0.0
    """Share of the tokens until which embedding rows that started from word vectors stay unchanged.

    With `factorised` the rows of [V, D] stay, while the map is trained all the time and moves the rows of the product.
    """
    vocabulary: Literal["pieces", "words", "words_and_pieces"] = "pieces"
    """Tokens: the shared word pieces; whole words of the text; or words, and the shared pieces for all other words."""
    words: Annotated[int, Range(low=1)] = 24_000
    """Largest number of whole words in the vocabulary, the text's most frequent ones."""
    cls_task: Literal["none", "next_sentence", "sentence_order"] = "none"
    """Additional task of [CLS]: tell if B follows A or comes from elsewhere, or which of the two came first."""
    pair_share: Annotated[float, Range(above=0, high=1)] = 0.5
    """Share of a short step's rows that are pairs, where `cls_task` asks for them."""
    held_out: Annotated[int, Range(low=1)] = 4000
    """Number of sentences at the end of the corpus that are never trained on."""
    seed: Annotated[int, Range(low=0)] = 0
    """Seed of weights, data order, masking and dropout."""


def bert_config(config: PretrainConfig, vocab_size: int) -> BertConfig:
    """Returns the transformers configuration of the encoder that a run pretrains."""
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


def learning_rate(config: PretrainConfig, tokens: int) -> float:
    """Returns the rate after `tokens` tokens: warm-up, constant, linear fall to 0.

    Between warm-up and fall the total does not matter, so a run may be lengthened or cut short there. A run begun with
    total T and ended with U is the run with total U and warm-up `warmup * T / U`.
    """
    warm = min(1.0, tokens / (config.warmup * config.tokens))
    remaining = max(0.0, 1.0 - tokens / config.tokens)
    return config.learning_rate * min(warm, remaining / config.cooldown, 1.0)
