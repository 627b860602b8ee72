"""Recipe of a miniature encoder, as its card has it, and the tokenizer and word vectors that it begins with.

Six billion tokens of word meaning, which GloVe's 50 numbers a word hold, cost an encoder of this size nothing; learned
from a text of ten million they never come. Shape suffixes: V tokens, K tokens with a vector, D numbers of a vector.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from cse_train.encoder.folders import find_weights
from cse_train.encoder.identity import load_words

FIRST_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""First tokens of every vocabulary, so that their ids are those of the shared one."""
PIECE_MARK = "##"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of one pretraining run; the defaults are what all shipped encoders have in common."""

    layers: int
    width: int
    """Hidden size H; heads are 64 wide, two at least, and the inner layer is 4 * H."""
    tokens: int
    """Training tokens, padding excluded, over which the schedule extends."""
    batch_sentences: int
    """Sentences in a short step."""
    batch_documents: int
    """Rows of `max_positions` tokens in a long step."""
    long_share: float
    """Probability that a step is long."""
    learning_rate: float
    """Peak learning rate of AdamW."""
    warmup: float
    """Share of the tokens, at the start, over which the learning rate rises linearly."""
    embeddings: str = ""
    """Word vectors from which factorised word embeddings start, `glove-6b-50d` or a file: the vocabulary is then the
    text's most frequent words that have one, and the shared pieces for the rest. Empty: the shared word pieces."""
    frozen: float = 0.0
    """Share of the tokens until which the rows that started from word vectors stay, while their map is trained."""
    cls_task: str = "none"
    """`sentence_order`: in a share of a short step's rows [CLS] tells which of two sentences came first; or `none`."""
    pair_share: float = 0.5
    """Share of a short step's rows that are pairs, where `cls_task` asks for them."""
    words: int = 24_000
    """Largest number of whole words in the vocabulary."""
    embedding_std: float = 0.06
    """Standard deviation of the word embeddings that start from vectors."""
    max_sentence: int = 64
    """Tokens of a sentence that are kept in a short step, special tokens included."""
    max_positions: int = 512
    """Position embeddings, and the width of a long step."""
    mask_ratio: float = 0.2
    dropout: float = 0.1
    weight_decay: float = 0.01
    cooldown: float = 0.3
    """Share of the tokens, at the end, over which the learning rate falls linearly to zero."""
    held_out: int = 4000
    """Sentences at the end of the text that are never trained on."""
    seed: int = 0

    @classmethod
    def of_card(cls, stored: Mapping[str, object]) -> "Recipe":
        """Returns the recipe that a card holds; a card also names the vocabulary, which follows from `embeddings`."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: value for name, value in stored.items() if name in names})

    def rate(self, tokens: int) -> float:
        """Returns the learning rate after `tokens` tokens: warm-up, constant, linear fall to 0."""
        warm = min(1.0, tokens / (self.warmup * self.tokens))
        remaining = max(0.0, 1.0 - tokens / self.tokens)
        return self.learning_rate * min(warm, remaining / self.cooldown, 1.0)


@dataclass(frozen=True)
class WordStart:
    """Word vectors from which word embeddings start, and their tokens."""

    ids_K: Tensor
    vectors_KD: Tensor
    """Vectors of the tokens less their mean, scaled to a standard deviation of `embedding_std`."""

    def projection_DH(self, width: int, seed: int) -> Tensor:
        """Returns a random orthonormal map [D, H], scaled so that products keep the vectors' standard deviation."""
        size = self.vectors_KD.shape[1]
        normal = np.random.default_rng(seed).normal(size=(max(width, size), min(width, size)))
        columns = torch.from_numpy(np.linalg.qr(normal)[0]).float()
        return columns.T * (width / size) ** 0.5 if width >= size else columns


def write_tokenizer(recipe: Recipe, lines: Iterable[str], out: Path) -> WordStart | None:
    """Writes the recipe's tokenizer to `out`; returns the start of its word embeddings, None for a random one."""
    shared = find_weights() / "tokenizer"
    content = json.loads((shared / "tokenizer.json").read_text(encoding="utf8"))
    start = None
    if recipe.embeddings:
        own_words, vectors_VD, _ = load_words(recipe.embeddings)
        rows = {word: row for word, row in own_words.get_vocab().items() if row < len(vectors_VD)}
        counts = _count_words(lines, Tokenizer.from_file(str(shared / "tokenizer.json")))
        ranked = sorted((-count, word) for word, count in counts.items() if word in rows)
        pieces = [word for word in content["model"]["vocab"] if word.startswith(PIECE_MARK) or len(word) == 1]
        vocabulary = list(dict.fromkeys([*FIRST_TOKENS, *(word for _, word in ranked[: recipe.words]), *pieces]))
        content["model"]["vocab"] = {word: number for number, word in enumerate(vocabulary)}
        ids = [number for number, word in enumerate(vocabulary) if word in rows and word not in FIRST_TOKENS]
        vectors_KD = np.stack([vectors_VD[rows[vocabulary[number]]] for number in ids]).astype(np.float32)
        vectors_KD -= vectors_KD.mean(0)
        start = WordStart(torch.tensor(ids), torch.from_numpy(vectors_KD * (recipe.embedding_std / vectors_KD.std())))
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf8")
    (out / "tokenizer_config.json").write_bytes((shared / "tokenizer_config.json").read_bytes())
    return start


def _count_words(lines: Iterable[str], tokenizer: Tokenizer) -> Counter[str]:
    """Counts the words of a text, as the tokenizer splits it before it looks for pieces."""
    counts: Counter[str] = Counter()
    for line in lines:
        parts = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(line))
        counts.update(word for word, _ in parts)
    return counts
